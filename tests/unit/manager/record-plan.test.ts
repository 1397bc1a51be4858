// Tests which records of a task's log are removed with which checkpoint.
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, planRetention, type RetentionPolicy, type StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { resolveOptions } from "../../../src/manager/options.js";
import type { PlanRecord } from "../../../src/manager/record-plan.js";
import { collect } from "../../support/collect.js";
import { draftRecord, type NewRecord } from "../../support/draft-record.js";
import { tempFolder } from "../../support/temp-folder.js";

const STORAGES: Record<string, () => StorageAdapter | Promise<StorageAdapter>> = {
  memory: () => new MemoryAdapter(),
  sqlite: async () => openStorage(`sqlite:${join(await tempFolder(), "store.db")}`),
};

async function managerOn(open: () => StorageAdapter | Promise<StorageAdapter>, retention?: RetentionPolicy) {
  const storage = await open();
  const time = { ms: 0 };
  const clock = () => time.ms;
  const manager = new CheckpointManager({
    storage,
    clock,
    retention,
    createId: ({ nowMs, stage }) => stage ?? `c${nowMs}`,
  });
  onTestFinished(() => manager.close());
  const log = async (kind: NewRecord["kind"], fields: Partial<NewRecord> = {}) =>
    storage.log?.append("t", [
      await draftRecord(resolveOptions({ storage, clock }), { taskId: "t", kind, value: "123456", ...fields }),
    ]);
  const save = (stage: string, status: "running" | "completed" = "running") => manager.save("t", 1, { stage, status });
  const left = async () =>
    (await collect(manager.records("t"))).map((item) =>
      item.kind === "checkpoint" ? item.id : `${item.kind} ${item.sequence}`,
    );
  return { storage, manager, time, log, save, left };
}

describe.each(Object.entries(STORAGES))("retention of a log on %s", (_name, open) => {
  it("removes records with the milestone that follows them, and leaves those above the newest one", async () => {
    const { manager, log, save, left } = await managerOn(open);
    await log("run");
    await log("mark");
    await save("a");
    await log("step", { recordKey: "1/x", name: "x" });
    await save("b");
    await log("step", { recordKey: "2/x", name: "x" });
    const plan = await manager.retention.plan("t", { keepLast: 1 });
    expect(plan.remove).toMatchObject([{ checkpoint: { id: "a" }, recordBytes: 16 }]);
    expect(plan.keep).toMatchObject([{ checkpoint: { id: "b" }, recordBytes: 8 }]);
    expect(plan).toMatchObject({ keepBytes: 9, removeBytes: 17 });
    // A plan may be written to a file and read again.
    const result = await manager.retention.apply(JSON.parse(JSON.stringify(plan)));
    expect(result).toMatchObject({ removed: 1, removedBytes: 17 });
    expect(await left()).toEqual(["step 4", "b", "step 6"]);
    expect(await manager.retention.apply(plan)).toMatchObject({ removed: 0, removedBytes: 0 });
  });

  it("removes a record that names a checkpoint with that one, and not by its position", async () => {
    const { manager, log, save, left } = await managerOn(open);
    await save("a");
    await log("step", { name: "a" });
    await save("b");
    await log("step", { name: "b" });
    await log("step", { name: "a" });
    // A name with a key is a step's.
    await log("step", { name: "b", recordKey: "1/b" });
    await save("c");
    await manager.retention.prune("t", { keepStages: ["a", "c"] });
    expect(await left()).toEqual(["a", "step 2", "step 5", "step 6", "c"]);
    await manager.retention.prune("t", { keepLast: 1 });
    expect(await left()).toEqual(["step 6", "c"]);
  });

  it("never removes an event that no run has received, or its value", async () => {
    const { manager, log, save, left } = await managerOn(open);
    await log("event", { name: "go", id: "e1" });
    await log("step", { name: "x", recordKey: "1" });
    await save("a");
    await save("b");
    await manager.retention.prune("t", { keepLast: 1 });
    expect(await left()).toEqual(["event 1", "b"]);
    expect(await collect(manager.records("t", { kinds: ["event"] }))).toMatchObject([{ value: "123456" }]);
  });

  it("removes the records of a transient checkpoint's time with the milestone after it", async () => {
    const { manager, log, save, left } = await managerOn(open);
    await save("a");
    await log("step", { recordKey: "1" });
    await manager.autoSave("t", () => ({ n: 1 }), { stage: "auto" }).stop();
    await log("step", { recordKey: "2" });
    await manager.retention.prune("t", { keepLast: 1 });
    expect(await left()).toEqual(["a", "step 2", "auto", "step 4"]);
    await save("b");
    await manager.retention.prune("t", { keepLast: 1 });
    expect(await left()).toEqual(["step 2", "step 4", "b"]);
  });

  it("counts records towards maxBytes", async () => {
    const { manager, log, save, left } = await managerOn(open);
    for (const stage of ["a", "b", "c"]) {
      await log("step", { recordKey: stage });
      await save(stage);
    }
    await manager.retention.prune("t", { maxBytes: 18 });
    expect(await left()).toEqual(["step 3", "b", "step 5", "c"]);
  });

  it("removes old chunks, and chunks over a size, before their checkpoint", async () => {
    const { manager, time, log, save, left } = await managerOn(open);
    await log("chunk", { name: "model" });
    await log("step", { recordKey: "1" });
    time.ms = 1000;
    for (let count = 0; count < 3; count++) await log("chunk", { name: "model" });
    await save("a");
    await log("chunk", { name: "model" });
    const plan = await manager.retention.plan("t", { chunks: { keepWithinMs: 500 } });
    expect(plan).toMatchObject({ remove: [], removeBytes: 8, keepBytes: 33 });
    expect(await manager.retention.apply(plan)).toMatchObject({ removed: 0, removedBytes: 8 });
    expect(await left()).toEqual(["step 2", "chunk 3", "chunk 4", "chunk 5", "a", "chunk 7"]);
    await manager.retention.prune("t", { chunks: { maxBytes: 16 } });
    expect(await left()).toEqual(["step 2", "chunk 5", "a", "chunk 7"]);
  });

  it("removes the whole task with its last checkpoint, and its numbering", async () => {
    const { manager, storage, log, save } = await managerOn(open);
    await log("event", { name: "go", id: "e1" });
    await save("a");
    await save("b", "completed");
    const removed: unknown[] = [];
    manager.on("removed", (event) => removed.push(event));
    expect(await manager.retention.prune("t", { maxBytes: 0 })).toMatchObject({ removed: 2 });
    expect(removed).toEqual([{ taskId: "t", ids: "all", by: "request" }]);
    expect(await collect(storage.tasks({ order: "taskId" }))).toEqual([]);
    expect((await save("c")).sequence).toBe(1);
  });

  it.each(["a save", "an event"])("leaves a completed task that %s has reopened since the plan", async (what) => {
    const { manager, storage, log, save, left } = await managerOn(open);
    await log("step", { recordKey: "1" });
    await save("a", "completed");
    const remove = storage.remove.bind(storage);
    let isReopened = false;
    storage.remove = async (...parameters) => {
      if (parameters[0] === "t" && !isReopened) {
        isReopened = true;
        await (what === "a save" ? save("b") : log("event", { name: "go", id: "e1" }));
      }
      return remove(...parameters);
    };
    await manager.retention.prune("t", { maxBytes: 0 });
    expect(await left()).toEqual([what === "a save" ? "b" : "event 3"]);
  });

  it("removes records before their checkpoint, so that the next plan finds what a kill has left", async () => {
    const { manager, storage, log, save, left } = await managerOn(open);
    await log("step", { recordKey: "1" });
    await save("a");
    await save("b");
    const records = storage.log ?? expect.fail();
    const remove = records.remove.bind(records);
    records.remove = async () => {
      throw new Error("killed");
    };
    await expect(manager.retention.prune("t", { keepLast: 1 })).rejects.toThrow("killed");
    expect(await left()).toEqual(["step 1", "a", "b"]);
    records.remove = remove;
    await manager.retention.prune("t", { keepLast: 1 });
    expect(await left()).toEqual(["b"]);
  });

  it("leaves the records of a task that was removed and begun again since the plan", async () => {
    const { manager, log, save, left } = await managerOn(open);
    await log("step", { recordKey: "1" });
    await save("a", "completed");
    const plan = await manager.retention.plan("t", { maxBytes: 0 });
    expect(plan).toMatchObject({ keep: [], removeRecords: [{ afterSequence: 0, beforeSequence: 2 }] });
    await manager.removeTask("t");
    await log("step", { recordKey: "1" });
    await save("b");
    expect(await manager.retention.apply(plan)).toMatchObject({ removed: 0, removedBytes: 0 });
    expect(await left()).toEqual(["step 1", "b"]);
  });

  it("reports the gap to followers, and continues after each save", async () => {
    const { storage, log, save, left } = await managerOn(open, { keepLast: 2 });
    for (const stage of ["a", "b", "c", "d"]) {
      await log("step", { recordKey: stage });
      await save(stage);
    }
    expect(await left()).toEqual(["step 5", "c", "step 7", "d"]);
    const [task] = await collect(storage.tasks({ order: "taskId" }));
    expect(task).toMatchObject({ taskId: "t", removedUpTo: 3 });
  });
});

describe("the log of a task that is saved", () => {
  /** Counts the reads of the log. */
  async function watchedManager(retention: RetentionPolicy) {
    const storage = new MemoryAdapter();
    const watched = await managerOn(() => storage, retention);
    const reads = { count: 0, afterSequence: 0 };
    const read = storage.log.read.bind(storage.log);
    storage.log.read = (query) => {
      reads.count += 1;
      reads.afterSequence = query.afterSequence ?? 0;
      return read(query);
    };
    return { ...watched, reads };
  }

  it.each<[string, RetentionPolicy]>([
    ["keepLast alone", { keepLast: 3 }],
    ["another policy", { keepLast: 3, keepStages: ["a"], maxAgeMs: 1000 }],
  ])("is read only if a checkpoint goes, by %s", async (_policy, retention) => {
    const { log, save, left, reads } = await watchedManager(retention);
    for (const stage of ["x", "y", "z"]) {
      await log("chunk", { name: stage });
      await save(stage);
    }
    expect(reads.count).toBe(0);
    await log("chunk", { name: "last" });
    await save("last");
    expect(reads.count).toBe(1);
    expect(await left()).toEqual(["chunk 3", "y", "chunk 5", "z", "chunk 7", "last"]);
  });

  it("is read from the newest checkpoint that has continued, so that a save costs the same at any length", async () => {
    const { log, save, left, reads } = await watchedManager({ keepLast: 2 });
    for (let n = 1; n <= 6; n++) {
      // Events stay.
      await log("event", { id: `e${n}`, name: "e" });
      await log("chunk");
      await save(`s${n}`);
      // The previous save has removed the checkpoint three positions before this one.
      expect(reads.afterSequence).toBe(3 * Math.max(0, n - 3));
    }
    const rest = (await left()).filter((item) => !item.startsWith("event"));
    expect(rest).toEqual(["chunk 14", "s5", "chunk 17", "s6"]);
  });

  it("is read if a checkpoint goes, even if no record came since the last save", async () => {
    const { log, save, left } = await watchedManager({ keepLast: 2 });
    await log("chunk");
    for (const stage of ["x", "y", "z"]) await save(stage);
    expect(await left()).toEqual(["y", "z"]);
  });

  it.each<[string, RetentionPolicy]>([
    ["chunks", { chunks: { maxBytes: 8 } }],
    ["maxBytes", { maxBytes: 17 }],
  ])("is read after each save if the policy has %s", async (_rule, retention) => {
    const { log, save, left } = await watchedManager(retention);
    await log("chunk");
    await save("x");
    await log("chunk");
    await save("y");
    expect((await left()).slice(-2)).toEqual(["chunk 3", "y"]);
    expect(await left()).not.toContain("chunk 1");
  });
});

describe("a plan with records", () => {
  it("refuses a policy for chunks that is empty or misspelled, and a plan that removes a checkpoint by its sequence", async () => {
    const plan = (chunks: object) => planRetention("t", [], { chunks }, 0);
    expect(() => plan({})).toThrow(TypeError);
    expect(() => plan({ keepDays: 1 })).toThrow(TypeError);
    expect(() => plan({ maxBytes: -1 })).toThrow(RangeError);
    const { manager } = await managerOn(() => new MemoryAdapter());
    const changed = {
      ...(await manager.retention.plan("t", { keepLast: 1 })),
      removeRecords: [{ afterSequence: 0, beforeSequence: 9, kinds: ["checkpoint"] }],
    };
    // @ts-expect-error A plan may come from a file.
    await expect(manager.retention.apply(changed)).rejects.toThrow(TypeError);
  });

  it("puts each record into at most one range, and no record that stays into any", () => {
    const item = fc.record({
      kind: fc.constantFrom("checkpoint", "step", "chunk", "run", "mark", "event"),
      owner: fc.option(fc.nat(8), { nil: undefined }),
      isKeyed: fc.boolean(),
      gap: fc.nat(2),
    });
    const scenario = fc.tuple(fc.array(item, { maxLength: 30 }), fc.integer({ min: 1, max: 3 }), fc.nat(40));
    fc.assert(
      fc.property(scenario, ([items, keepLast, maxBytes]) => {
        let sequence = 0;
        const at = items.map(({ gap, ...rest }) => {
          sequence += gap + 1;
          return { ...rest, sequence };
        });
        const summaries = at
          .filter(({ kind }) => kind === "checkpoint")
          .map(({ sequence }, index) => ({
            taskId: "t",
            id: `c${index}`,
            sequence,
            createdAt: "1970-01-01T00:00:00.000Z",
            status: "running" as const,
            stateVersion: 1,
            sizeBytes: 1,
          }));
        const records = at.flatMap(({ kind, owner, isKeyed, sequence }): PlanRecord[] =>
          kind === "checkpoint"
            ? []
            : [
                {
                  sequence,
                  kind: kind as PlanRecord["kind"],
                  name: `c${owner}`,
                  recordKey: isKeyed ? "k" : undefined,
                  createdAt: "1970-01-01T00:00:00.000Z",
                  sizeBytes: 10,
                },
              ],
        );
        const plan = planRetention("t", summaries, { keepLast, chunks: { maxBytes } }, 0, records.toReversed());
        const removed = new Set(plan.remove.map(({ checkpoint }) => checkpoint.id));
        let chunkBytes = 0;
        for (const record of records.toReversed()) {
          const { name = "", recordKey, kind } = record;
          const isNamed = recordKey === undefined && summaries.some(({ id }) => id === name);
          const owner = isNamed ? name : summaries.find((summary) => summary.sequence > record.sequence)?.id;
          if (kind === "chunk") chunkBytes += 10;
          const isOld = kind === "chunk" && chunkBytes > maxBytes && owner !== undefined;
          const goes = kind !== "event" && owner !== undefined && (removed.has(owner) || isOld);
          const ranges = (plan.removeRecords ?? []).filter(
            ({ afterSequence, beforeSequence, kinds }) =>
              record.sequence > afterSequence && record.sequence < beforeSequence && kinds.includes(kind),
          );
          expect(ranges.length > 0).toBe(goes);
        }
      }),
    );
  });
});
