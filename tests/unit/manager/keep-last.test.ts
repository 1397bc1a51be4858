import { writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type CheckpointSummary, type CorruptRecord, planRetention } from "waymark";
import type { CheckpointQuery } from "waymark/adapter";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { isTransient, transientMetadata } from "../../../src/contract/transient.js";
import { KeepLast, type KeptCheckpoints } from "../../../src/manager/keep-last.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { casesOf } from "../../support/seeded.js";
import { tempFolder } from "../../support/temp-folder.js";
import { draft } from "../adapters/files/drafts.js";

/** A memory adapter with some unreadable headers, which records the queries and their results. */
class WatchedMemory extends MemoryAdapter {
  readonly damaged = new Set<string>();
  readonly given: string[] = [];
  queries = 0;
  /** Called once, right before the next removal. */
  beforeRemoval: (() => Promise<unknown>) | undefined;

  override async *list(query: CheckpointQuery): AsyncGenerator<CheckpointSummary, void, void> {
    this.queries += 1;
    const { limit = Number.POSITIVE_INFINITY, ...unlimited } = query;
    let left = limit;
    for await (const record of super.list(unlimited)) {
      const isDamaged = this.damaged.has(record.id);
      if (!isDamaged) this.given.push(record.id);
      yield isDamaged ? (corrupt(record) as never) : record;
      if (!isDamaged) left -= 1;
      if (left === 0) return;
    }
  }

  override async remove(...call: Parameters<MemoryAdapter["remove"]>) {
    const meanwhile = this.beforeRemoval;
    this.beforeRemoval = undefined;
    await meanwhile?.();
    return super.remove(...call);
  }

  async all(): Promise<CheckpointSummary[]> {
    const found: CheckpointSummary[] = [];
    for await (const record of super.list({ taskId: "t", order: "newest" })) found.push(record);
    return found;
  }
}

function corrupt({ taskId, id, sequence }: CheckpointSummary): CorruptRecord {
  return { corrupt: true, location: `memory ${sequence}`, reason: "damaged by the test", taskId, id, sequence };
}

const opened = (storage: MemoryAdapter, keepLast?: number) =>
  new CheckpointManager({
    storage,
    ownsStorage: false,
    logger: recordingLogger(),
    ...(keepLast === undefined ? undefined : { retention: { keepLast } }),
  });

const idsOf = (summaries: readonly CheckpointSummary[]) => summaries.map(({ id }) => id);

describe("keepLast after a save", () => {
  it("neither counts nor removes checkpoints that can't be read", async () => {
    const folder = await tempFolder();
    const open = (keepLast: number) => {
      const manager = new CheckpointManager({
        storage: new JsonFileAdapter({ path: folder }),
        retention: { keepLast },
        logger: recordingLogger(),
      });
      onTestFinished(() => manager.close());
      return manager;
    };
    const before = open(9);
    for (const n of [1, 2, 3]) await before.save("t", n);
    for (const name of await readdir(join(folder, "t"))) {
      if (/^0*[23]-/.test(name)) writeFileSync(join(folder, "t", name), "damaged");
    }
    const manager = open(2);
    await manager.save("t", 4);
    expect((await manager.list("t")).map(({ sequence }) => sequence)).toEqual([4, 1]);
    await manager.save("t", 5);
    expect((await manager.list("t")).map(({ sequence }) => sequence)).toEqual([5, 4]);
    expect((await readdir(join(folder, "t"))).filter((name) => name.endsWith(".json"))).toHaveLength(4);
  });

  it("reads only the header to remove, however many stay", async () => {
    const storage = new WatchedMemory();
    const plain = opened(storage);
    for (let n = 1; n <= 200; n++) await plain.save("t", n);
    const manager = opened(storage, 200);
    await manager.save("t", 201);
    for (let n = 202; n <= 210; n++) {
      const oldest = (await storage.all()).at(-1)?.id;
      Object.assign(storage, { given: [], queries: 0 });
      await manager.save("t", n);
      expect([storage.queries, storage.given]).toEqual([1, [oldest]]);
    }
    expect(idsOf(await storage.all())).toHaveLength(200);
  });

  it("reads only the headers to remove if saves are called at once", async () => {
    const storage = new WatchedMemory();
    const manager = opened(storage, 20);
    // The first removal reads the log, and finds no records.
    for (let n = 1; n <= 21; n++) await manager.save("t", n);
    const oldest = idsOf(await storage.all()).slice(-5);
    storage.given.length = 0;
    await Promise.all([22, 23, 24, 25, 26].map((n) => manager.save("t", n)));
    expect(storage.given).toEqual(oldest.toReversed());
  });

  it("makes no query as long as nothing is removed", async () => {
    const storage = new WatchedMemory();
    const manager = opened(storage, 5);
    await manager.save("t", 1);
    storage.queries = 0;
    for (const n of [2, 3, 4, 5]) await manager.save("t", n);
    expect(storage.queries).toBe(0);
  });

  it("plans again after another writer's save, then reads only the header to remove", async () => {
    const storage = new WatchedMemory();
    const [manager, other] = [opened(storage, 3), opened(storage)];
    for (const n of [1, 2, 3]) await manager.save("t", n);
    await other.save("t", 4);
    await manager.save("t", 5);
    expect((await storage.all()).map(({ sequence }) => sequence)).toEqual([5, 4, 3]);
    storage.given.length = 0;
    const oldest = (await storage.all()).at(-1)?.id;
    await manager.save("t", 6);
    expect(storage.given).toEqual([oldest]);
    expect((await storage.all()).map(({ sequence }) => sequence)).toEqual([6, 5, 4]);
  });

  it("keeps the last of saves that are called at once", async () => {
    const storage = new WatchedMemory();
    const manager = opened(storage, 3);
    const saved = await Promise.all(Array.from({ length: 50 }, (_, n) => manager.save("t", n)));
    expect(idsOf(await storage.all())).toEqual(idsOf(saved).slice(-3).toReversed());
  });

  it("starts over with the numbering of a removed task", async () => {
    const storage = new WatchedMemory();
    const [manager, other] = [opened(storage, 2), opened(storage)];
    for (const n of [1, 2, 3]) await manager.save("t", n);
    await other.removeTask("t");
    for (const n of [1, 2, 3]) await other.save("t", n);
    await manager.save("t", 4);
    expect((await storage.all()).map(({ sequence }) => sequence)).toEqual([4, 3]);
    await other.removeTask("t");
    for (const n of [1, 2, 3]) await manager.save("t", n);
    expect((await storage.all()).map(({ sequence }) => sequence)).toEqual([3, 2]);
  });

  it("reads the whole plan again after a failed removal", async () => {
    const storage = new WatchedMemory();
    const manager = opened(storage, 2);
    for (const n of [1, 2]) await manager.save("t", n);
    storage.beforeRemoval = () => Promise.reject(new Error("busy"));
    await manager.save("t", 3);
    expect(await storage.all()).toHaveLength(3);
    await manager.save("t", 4);
    expect((await storage.all()).map(({ sequence }) => sequence)).toEqual([4, 3]);
  });

  it("removes the same as the plan would, for any task, with damage and other writers", async () => {
    const few = fc.integer({ min: 1, max: 4 });
    const property = fc.asyncProperty(few, fc.array(anyStep, { maxLength: 25 }), async (keepLast, steps) => {
      const trial = new Trial(keepLast);
      for (const step of steps) await trial.take(step);
    });
    await fc.assert(property, {
      numRuns: casesOf(1000),
      examples: [
        [1, RESTARTED_NUMBERING],
        [2, REMOVED_AT_ONCE],
      ],
    });
  });
});

const SAVE = { do: "save", transient: false, replaces: false, meanwhile: [] } as const;

/** Steps that restart the task's numbering, so that a damaged checkpoint gets the remembered sequence. */
const RESTARTED_NUMBERING: Step[] = [
  SAVE,
  { do: "remove the task" },
  { do: "save by another", transient: false, damaged: true },
  SAVE,
];

/**
 * Steps in which another process removes a checkpoint right after its save, while a damaged one makes the count the
 * same.
 */
const REMOVED_AT_ONCE: Step[] = [
  SAVE,
  { do: "save by another", transient: false, damaged: true },
  SAVE,
  { ...SAVE, meanwhile: [{ do: "remove", at: 0 }] },
];

/** The actions of another process. `at` counts back from the newest checkpoint. */
type Foreign =
  | { readonly do: "save by another"; readonly transient: boolean; readonly damaged: boolean }
  | { readonly do: "remove" | "complete"; readonly at: number }
  | { readonly do: "remove the task" };
type Step =
  | Foreign
  /** Saves. With `replaces`, removes the newest transient checkpoint: an auto-save, a step or a save of a run. */
  | {
      readonly do: "save";
      readonly transient: boolean;
      readonly replaces: boolean;
      readonly meanwhile: readonly Foreign[];
    }
  | { readonly do: "damage"; readonly at: number }
  | { readonly do: "restart" };

const at = fc.nat(9);
const anyForeign: fc.Arbitrary<Foreign> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("save by another" as const),
      transient: fc.boolean(),
      damaged: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("remove" as const, "complete" as const), at }) },
  { weight: 1, arbitrary: fc.constant({ do: "remove the task" as const }) },
);
const savedWith = (meanwhile: fc.Arbitrary<Foreign[]>): fc.Arbitrary<Step> =>
  fc.record({ do: fc.constant("save" as const), transient: fc.boolean(), replaces: fc.boolean(), meanwhile });
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: savedWith(fc.constant([])) },
  { weight: 2, arbitrary: savedWith(fc.array(anyForeign, { maxLength: 2 })) },
  { weight: 3, arbitrary: anyForeign },
  { weight: 1, arbitrary: fc.constant({ do: "restart" as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("damage" as const), at }) },
);

/** Saves of one process, each followed by {@link KeepLast}, while other processes use the same storage. */
class Trial {
  readonly #storage = new WatchedMemory();
  readonly #keepLast: number;
  #applied: KeepLast;
  #states = 0;
  /** True until others change checkpoints that this process has read. After that, fewer may be removed. */
  #isExact = true;

  constructor(keepLast: number) {
    this.#keepLast = keepLast;
    this.#applied = this.#made();
  }

  async take(step: Step): Promise<void> {
    if (step.do === "save") return this.#save(step);
    if (step.do === "restart") return this.#restart();
    const met = "at" in step ? (await this.#storage.all())[step.at] : undefined;
    if (step.do !== "damage") return this.#other(step, met);
    if (met !== undefined) this.#storage.damaged.add(met.id);
    // A header isn't read again.
    this.#restart();
  }

  async #save({ transient, replaces, meanwhile }: Extract<Step, { do: "save" }>): Promise<void> {
    const storage = this.#storage;
    this.#states += 1;
    const id = `own-${this.#states}`;
    const replaced = replaces ? (await storage.all()).find(isTransient)?.id : undefined;
    const made = draft("t", id, transient ? { metadata: transientMetadata(replaced) } : {});
    await storage.append(made, undefined, { replaces: replaced });
    const [saved] = await storage.all();
    for (const step of meanwhile) await this.#other(step, (await storage.all())["at" in step ? step.at : 0]);
    const before = await storage.all();
    if (saved === undefined) throw new Error("The checkpoint wasn't saved.");
    await this.#applied.afterSave(saved, () => this.#applyPlan());

    const left = new Set(idsOf(await storage.all()));
    const gone = idsOf(before).filter((known) => !left.has(known));
    const { keep, remove } = this.#plan(before);
    expect(idsOf(remove)).toEqual(expect.arrayContaining(gone));
    // Checkpoints newer than the saved one are noticed at the next save.
    if (this.#isExact && before[0]?.id === id)
      expect(left).toEqual(new Set([...idsOf(keep), ...this.#damagedIn(before)]));
  }

  #made(): KeepLast {
    const storage = this.#storage;
    return new KeepLast(this.#keepLast, storage, { prune: ({ taskId, ids }) => storage.remove(taskId, ids) });
  }

  async #applyPlan(): Promise<KeptCheckpoints | undefined> {
    const storage = this.#storage;
    const before = await storage.all();
    const { keep, remove } = this.#plan(before);
    await storage.remove("t", idsOf(remove));
    return this.#damagedIn(before).length === 0
      ? { checkpoints: keep, mayHaveRecords: false, cleanUpTo: 0 }
      : undefined;
  }

  #plan(newestFirst: readonly CheckpointSummary[]) {
    const readable = newestFirst.filter(({ id }) => !this.#storage.damaged.has(id));
    const { keep, remove } = planRetention("t", readable, { keepLast: this.#keepLast }, Date.now());
    return { keep: keep.map(({ checkpoint }) => checkpoint), remove: remove.map(({ checkpoint }) => checkpoint) };
  }

  #restart(): void {
    this.#applied = this.#made();
    this.#isExact = true;
  }

  async #other(step: Foreign, met: CheckpointSummary | undefined): Promise<void> {
    const storage = this.#storage;
    if (step.do === "save by another") {
      this.#states += 1;
      const id = `other-${this.#states}`;
      await storage.append(draft("t", id, step.transient ? { metadata: transientMetadata(undefined) } : {}));
      if (step.damaged) storage.damaged.add(id);
    } else if (step.do === "remove the task") {
      await storage.remove("t", "all");
      this.#isExact = false;
    } else if (met !== undefined && step.do === "remove") await storage.remove("t", [met.id]);
    else if (met !== undefined && met.status !== "completed") {
      await storage.setStatus("t", met.id, { status: "completed" });
      this.#isExact = false;
    }
  }

  #damagedIn(summaries: readonly CheckpointSummary[]): string[] {
    return idsOf(summaries).filter((id) => this.#storage.damaged.has(id));
  }
}
