import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { CheckpointError, type StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { findRecordDamage, isRecord } from "../../src/contract/log.js";
import { historyIn } from "../chaos/history.js";
import { newSchema, openAdapter, untilIdle } from "../support/postgres.js";
import { recorded } from "../support/recorded.mjs";
import { SEED } from "../support/seeded.js";
import { tempFolder } from "../support/temp-folder.js";
import { count } from "./counts.js";
import { tenth } from "./extent.js";
import { type Call, perform } from "./operations.js";

const KILLS = tenth === undefined ? 60 : 10;
const PROCESSES = ["a", "b"];

it.each(["files", "tasks", "sqlite"])(
  `%s: tasks keep what they have, whenever their processes are killed (WAYMARK_SEED=${SEED})`,
  {
    timeout: 300_000,
  },
  async (kind) => {
    const url = `${kind}:${await tempFolder()}/store.db`;
    await killAtRandom({ url, schema: "" }, () => openStorage(url));
  },
);

it(`postgres: tasks keep what they have, whenever their processes are killed (WAYMARK_SEED=${SEED})`, {
  timeout: 300_000,
}, async () => {
  const place = await newSchema();
  await killAtRandom(place, () => openAdapter(place));
});

/** A call and its result: see {@link comparable}. */
interface DoneCall {
  readonly call: Call;
  readonly result: unknown;
}

/** The calls of a killed process. */
interface Calls {
  readonly done: readonly DoneCall[];
  /** The call that the kill interrupted, if any. */
  readonly begun: Call | undefined;
}

/**
 * Lets two processes make random calls of the storage, and kills them again and again. The content of their own tasks
 * must equal that of a model in memory on which the same calls were made.
 */
async function killAtRandom(place: { url: string; schema: string }, open: () => StorageAdapter): Promise<void> {
  const model = new MemoryAdapter();
  const histories = await tempFolder();
  const shared = new Map<string, number>();
  let [calls, refused] = [0, 0];
  for (let kill = 0; kill < KILLS; kill++) {
    const ended = await Promise.all(
      PROCESSES.map((name, at) => runUntilKilled(place, 2 * (SEED + kill) + at, name, { shared, histories })),
    );
    // A server may still be running a killed process's calls.
    if (place.schema !== "") await untilIdle(place.url, place.schema);
    const storage = recorded(open(), histories, `reader-${kill}`);
    for (const [at, { done, begun }] of ended.entries()) {
      const tasks = ["one", "two"].map((own) => `${PROCESSES[at]}-${own}`);
      for (const { call, result } of done) expect([await performOn(model, call), call]).toEqual([result, call]);
      calls += done.length;
      refused += done.filter(({ result }) => isRefusal(result)).length;
      const found = await readTasks(storage, tasks, storage.log);
      const readModel = () => readTasks(model, tasks, storage.log && model.log);
      // The interrupted call was made completely or not at all.
      if (begun !== undefined && JSON.stringify(found) !== JSON.stringify(await readModel()))
        await performOn(model, begun);
      expect(found).toEqual(await readModel());
    }
    const numbered = await readSequences(storage, "shared");
    expect([...shared].filter(([id, sequence]) => numbered.get(id) !== sequence)).toEqual([]);
    expect(new Set(numbered.values()).size).toBe(numbered.size);
    await storage.close();
  }
  const history = historyIn(histories);
  expect(history.violations.slice(0, 3)).toEqual([]);
  expect(history.calls).toBeGreaterThan(calls);
  expect(refused).toBeGreaterThan(0);
  const store = place.url.split(":")[0] ?? "";
  count({ what: "calls before kills of histories", store, operation: "any", tried: calls, lost: 0 });
}

/** Runs a process until it is killed. Adds the acknowledged sequences of the shared task to `shared`. */
async function runUntilKilled(
  place: { url: string; schema: string },
  seed: number,
  name: string,
  { shared, histories }: { readonly shared: Map<string, number>; readonly histories: string },
): Promise<Calls> {
  const done: DoneCall[] = [];
  let begun: Call | undefined;
  const program = fileURLToPath(new URL("random-calls.mjs", import.meta.url));
  const child = spawn(process.execPath, [program, place.url, place.schema, String(seed), name, histories]);
  const stderr = text(child.stderr);
  const closed = once(child, "close");
  const wanted = 1 + ((seed * 7919) % 90);
  for await (const line of createInterface({ input: child.stdout })) {
    const read = JSON.parse(line) as Call | { readonly result: unknown };
    if (!("result" in read)) begun = read;
    else if (begun !== undefined) {
      const id = findSharedId(begun);
      if (id === undefined) done.push({ call: begun, result: comparable(begun, read.result) });
      else shared.set(id, Number(read.result));
      begun = undefined;
    }
    if (done.length === wanted) child.kill("SIGKILL");
  }
  await closed;
  expect(await stderr).toBe("");
  return { done, begun: begun !== undefined && findSharedId(begun) === undefined ? begun : undefined };
}

/** Makes a call on the model. */
async function performOn(model: StorageAdapter, call: Call): Promise<unknown> {
  return perform(model, call).then(
    (result) => comparable(call, result),
    (error: unknown) =>
      error instanceof CheckpointError && isRefusal(error.code) ? error.code : Promise.reject(error),
  );
}

/** Returns a call's result, or the code of its refusal. Leaves out sequences, which may have gaps. */
function comparable([method]: Call, result: unknown): unknown {
  const isSequence = typeof result === "number" && (method === "append" || method === "log.append");
  return isSequence ? "sequence" : (result ?? null);
}

function isRefusal(result: unknown): boolean {
  return result === "CHECKPOINT_CONFLICT" || result === "LEASE_LOST";
}

/** Returns the id of the item that a call appends to the shared task; `undefined` for another task. */
function findSharedId(call: Call): string | undefined {
  if (call[0] === "log.append" && call[1] === "shared") return call[2][0]?.id;
  return call[0] === "append" && call[1].taskId === "shared" ? call[1].id : undefined;
}

/** Reads all records and checkpoints of the tasks in order, and the tasks' rows, without sequences, which may have gaps. */
async function readTasks(
  storage: StorageAdapter,
  tasks: readonly string[],
  log: StorageAdapter["log"],
): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const task of storage.tasks({ order: "taskId" })) {
    if (isCorrupt(task)) all.push(task.reason);
    if (isCorrupt(task) || !tasks.includes(task.taskId)) continue;
    const { taskId, count, newest, last, dueAt, removedUpTo } = task;
    all.push({ taskId, count, newest: newest && [newest.id, newest.status], last: last && [last.kind, last.name] });
    all.push({ taskId, dueAt, isRemoved: removedUpTo !== undefined });
  }
  for (const taskId of tasks) {
    for await (const one of storage.read({ taskId, order: "oldest" })) {
      all.push(isCorrupt(one) ? one.reason : [one.id, one.status, one.payload.sha256, one.payload.body]);
    }
    let last = 0;
    for await (const item of log?.read({ taskId, order: "oldest" }) ?? []) {
      if (isCorrupt(item)) all.push(item.reason);
      else if (isRecord(item)) all.push(findRecordDamage(item) ?? [item.kind, item.name, item.id, item.payload]);
      else all.push(item.id);
      expect(item.sequence).toBeGreaterThan(last);
      last = item.sequence ?? last;
    }
  }
  return all;
}

async function readSequences(storage: StorageAdapter, taskId: string): Promise<Map<string, number>> {
  const sequences = new Map<string, number>();
  const items = storage.log?.read({ taskId, order: "oldest" }) ?? storage.list({ taskId, order: "oldest" });
  for await (const item of items) if (item.id !== undefined) sequences.set(item.id, item.sequence ?? 0);
  return sequences;
}
