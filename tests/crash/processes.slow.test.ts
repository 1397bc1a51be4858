import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { isCorrupt, type StoredCheckpoint } from "waymark/adapter";
import { findRecordDamage, isRecord } from "../../src/contract/log.js";
import { historyIn } from "../chaos/history.js";
import { recorded } from "../support/recorded.mjs";
import { randomFrom, SEED } from "../support/seeded.js";
import { tempFolder } from "../support/temp-folder.js";
import { collect, draft, isWhole } from "../unit/adapters/files/drafts.js";
import { count } from "./counts.js";
import { openAdapter } from "./open-adapter.mjs";
import { STORES, type StoreKind } from "./operations.js";

const PROCESSES = 8;
const VICTIMS = 2;
const KILLS = 30;
/** At most this many acknowledgements come between two kills: few, so that kills meet different calls. */
const MOST_BETWEEN = 25;
/** A real disk: in memory, the writers would save ten thousand times before the next process has started. */
const DISK = "/var/tmp";
const STALL_MS = 15_000;

/** Counts the acknowledged saves as they come: while a process starts slowly, the others may save 100,000 times. */
class Saved {
  /** The sequences by task and id. Ids contain the names of their processes. */
  readonly sequences = new Map<string, number>();
  /** The number of saves to the task that all processes save to. */
  shared = 0;

  add(taskId: string, id: string, sequence: number): void {
    this.sequences.set(`${taskId} ${id}`, sequence);
    if (taskId === "shared") this.shared++;
  }

  get all(): number {
    return this.sequences.size;
  }
}

describe.each(STORES)(`eight processes that save to %s (WAYMARK_SEED=${SEED})`, (kind) => {
  it("lose nothing and number each task's checkpoints once, while two of them are killed and started again", async () => {
    const folder = await tempFolder(DISK);
    const histories = await tempFolder();
    const saved = new Saved();
    const random = randomFrom(SEED);
    const writers = await Promise.all(
      Array.from({ length: PROCESSES }, (_, at) => Writer.start([kind, folder, `p${at}`, histories], saved)),
    );
    let killed = 0;
    for (; killed < KILLS; killed++) {
      await Writer.more(saved, "all", 1 + Math.floor(random() * MOST_BETWEEN));
      const victim = Math.floor(random() * VICTIMS);
      await writers[victim]?.kill();
      // The killed process may have held the lock. The others must continue; a failure would end them.
      await Writer.more(saved, "shared", PROCESSES);
      writers[victim] = await Writer.start([kind, folder, `p${victim}-again${killed}`, histories], saved);
    }
    for (const writer of writers) expect(await writer.stop()).toEqual({ code: 0, stderr: "" });

    const { wrong, found } = await wrongsIn(kind, folder, histories, saved);
    count({ what: "processes killed", store: kind, operation: "append", tried: killed, lost: wrong.length });
    count({
      what: "acknowledged meanwhile",
      store: kind,
      operation: "append",
      tried: saved.all,
      lost: wrong.length,
    });
    expect(wrong).toEqual([]);
    expect(found).toBeGreaterThanOrEqual(saved.all);
    const { violations, calls } = historyIn(histories);
    expect(violations.slice(0, 3)).toEqual([]);
    expect(calls).toBeGreaterThan(saved.all);
  });
});

// The event loop stands still for three times as long as a lock stays fresh, which the documentation promises to
// survive.
describe("a process whose event loop stands still for 15 s in a save", () => {
  const stalls = [
    ["json-file", "fsync"],
    ["json-file", "rename"],
    ["task-file", "fsync"],
    ["task-file", "rename"],
    ["sqlite", "COMMIT"],
  ] as const;
  it("loses no save that was acknowledged to another process", async () => {
    // The stalls run in parallel, because they mostly wait.
    await Promise.all(stalls.map(([kind, call]) => saveWhileStalled(kind, call)));
  });
});

async function saveWhileStalled(kind: StoreKind, call: string): Promise<void> {
  const folder = await tempFolder();
  const stalled = startScript("stalled.mjs", [kind, folder, call, String(STALL_MS)]);
  const errors = text(stalled.stderr);
  const lines = createInterface({ input: stalled.stdout })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toBe("stalled");

  const adapter = await openAdapter(kind, folder);
  onTestFinished(() => adapter.close());
  let isOver = false;
  const answered = lines.next().then(({ value }) => {
    isOver = true;
    return JSON.parse(String(value)) as unknown[];
  });
  let other: number | undefined;
  while (other === undefined) {
    other = await adapter.append(draft("t", "other")).catch((error: unknown) => {
      // SQLite uses the system's lock, which can't be taken from a live process.
      expect({ kind, error }).toMatchObject({ kind: "sqlite", error: { code: "STORAGE_FAILED", retryable: true } });
      return undefined;
    });
  }
  // A lock of files is free once it is stale, long before its holder continues.
  if (kind !== "sqlite") expect({ kind, call, other, isOver }).toEqual({ kind, call, other: 2, isOver: false });
  const answers = await answered;
  expect(await errors).toBe("");

  const stored = await collect(adapter.read({ taskId: "t", order: "oldest" }));
  const sequences = Object.fromEntries(stored.map(({ id, sequence }) => [String(id), sequence]));
  expect(sequences).toEqual({ before: answers[0], stalled: answers[1], after: answers[2], other });
  expect(new Set(Object.values(sequences)).size).toBe(4);
  count({ what: "event loops stalled for 15 s", store: kind, operation: `append, at ${call}`, tried: 1, lost: 0 });
}

/** A process that saves until it is stopped or killed. */
class Writer {
  static readonly #listeners = new Set<() => void>();
  /** The processes that ended by themselves. */
  static readonly #errors: string[] = [];
  #isEnding = false;
  /** Whether the writer's first save was acknowledged. */
  #isSaving = false;
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  readonly #stderr: Promise<string>;

  private constructor(child: ReturnType<typeof startScript>, saved: Saved) {
    this.#child = child;
    this.#closed = once(child, "close");
    this.#stderr = text(child.stderr);
    void this.#closed.then(async () => {
      if (!this.#isEnding) Writer.#errors.push(await this.#stderr);
      for (const listener of Writer.#listeners) listener();
    });
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [taskId = "", id = "", sequence] = line.split(" ");
      // A save whose line was cut short doesn't count as acknowledged.
      if (sequence !== undefined) saved.add(taskId, id, Number(sequence));
      this.#isSaving = true;
      for (const listener of Writer.#listeners) listener();
    });
  }

  /** Starts a process, and waits for its first save. */
  static async start(args: readonly [StoreKind, folder: string, name: string, histories: string], saved: Saved) {
    const writer = new Writer(startScript("writer.mjs", args), saved);
    await Writer.#until(() => writer.#isSaving);
    return writer;
  }

  /** Waits for `times` more acknowledgements, for the shared task or for all tasks. */
  static more(saved: Saved, of: "shared" | "all", times: number): Promise<void> {
    const enough = saved[of] + times;
    return Writer.#until(() => saved[of] >= enough);
  }

  async kill(): Promise<void> {
    this.#isEnding = true;
    this.#child.kill("SIGKILL");
    await this.#closed;
  }

  async stop(): Promise<{ readonly code: number | null; readonly stderr: string }> {
    this.#isEnding = true;
    this.#child.stdin?.end();
    await this.#closed;
    return { code: this.#child.exitCode, stderr: await this.#stderr };
  }

  static #until(condition: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const [error] = Writer.#errors;
        if (error === undefined && !condition()) return;
        Writer.#listeners.delete(look);
        if (error === undefined) resolve();
        else reject(new Error(`A process that should have continued saving ended: ${error}`));
      };
      Writer.#listeners.add(look);
      look();
    });
  }
}

function startScript(name: string, args: readonly string[]) {
  const script = fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(process.execPath, [script, ...args], { stdio: "pipe" });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

/** Checks a store against its acknowledged saves in a new process. Returns the violations. */
async function wrongsIn(kind: StoreKind, folder: string, histories: string, saved: Saved) {
  // The last killed process must leave no lock, because there is no time to wait for one.
  const adapter = recorded(await openAdapter(kind, folder), histories, "reader");
  onTestFinished(() => adapter.close());
  const wrong: string[] = [];
  const found = new Map<string, Pick<StoredCheckpoint, "sequence">>();
  for (const { taskId } of (await collect(adapter.tasks({ order: "taskId" }))) as { taskId: string }[]) {
    let last = 0;
    for (const one of await collect(adapter.read({ taskId, order: "oldest" }))) {
      if (isCorrupt(one) || !isWhole(one)) wrong.push(`not whole: ${JSON.stringify(one)}`);
      else if (one.sequence <= last) wrong.push(`${one.id} of ${taskId} has ${one.sequence}, after ${last}`);
      else found.set(`${taskId} ${one.id}`, one);
      last = one.sequence ?? last;
    }
    let lastItem = 0;
    for await (const item of adapter.log?.read({ taskId, order: "oldest" }) ?? []) {
      if (isCorrupt(item) || (isRecord(item) && findRecordDamage(item)))
        wrong.push(`not whole: ${JSON.stringify(item)}`);
      else if (item.sequence <= lastItem) wrong.push(`${item.id} of ${taskId} has ${item.sequence}, after ${lastItem}`);
      else if (item.id !== undefined) found.set(`${taskId} ${item.id}`, item);
      lastItem = item.sequence ?? lastItem;
    }
    await adapter.append(draft(taskId, "after-all"));
  }
  for (const [save, sequence] of saved.sequences) {
    const there = found.get(save)?.sequence;
    if (there !== sequence) wrong.push(`${save} was acknowledged as ${sequence}, and there is ${there}`);
  }
  return { wrong, found: found.size };
}
