import { join } from "node:path";
import { CheckpointManager, type CheckpointManagerOptions, type StorageAdapter, StorageError } from "waymark";
import type { RecordDraft, TaskLog } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import type { EncodingSchema } from "../../../src/manager/schema.js";
import { readRun } from "../../../src/runs/run-view.js";
import { newStore } from "../../support/postgres.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";
import { withMembers } from "../../support/with-members.js";

export const STORAGES: Record<string, () => Promise<StorageAdapter>> = {
  memory: async () => new MemoryAdapter(),
  "json-file": async () => openStorage(`files:${join(await tempFolder(), "store")}`),
  "task-file": async () => openStorage(`tasks:${join(await tempFolder(), "store")}`),
  sqlite: async () => openStorage(`sqlite:${join(await tempFolder(), "store.db")}`),
  postgres: async () => (await newStore()).adapter,
};

/** Makes a manager that leaves its storage open, with a logger that keeps its lines. */
export function managerOn<State = unknown>(
  storage: StorageAdapter = new MemoryAdapter(),
  options: Partial<CheckpointManagerOptions<EncodingSchema<State>>> = {},
) {
  const logger = recordingLogger();
  const manager = new CheckpointManager({ storage, ownsStorage: false, logger, ...options });
  return { manager, storage, logger };
}

/** Reads the records of the run of a task's newest checkpoint. */
export async function runOf(manager: Pick<CheckpointManager, "latest" | "records">, taskId: string) {
  const newest = await manager.latest(taskId);
  return newest && readRun(manager, newest);
}

/**
 * Wraps a storage so that its writes of checkpoints and records pass through `write`. `isLazy`: the records needn't be
 * durable. `titles`: the kinds and names of the records.
 */
export function withWrites(
  storage: StorageAdapter,
  write: (call: () => Promise<number>, isLazy: boolean, titles: readonly string[]) => Promise<number>,
): StorageAdapter {
  const { log } = storage;
  const titlesOf = (records: readonly RecordDraft[] = []) => records.map(({ kind, name = "" }) => `${kind} ${name}`);
  const append: StorageAdapter["append"] = (...args) =>
    write(() => storage.append(...args), false, titlesOf(args[2]?.records));
  const appendRecords = (of: TaskLog): TaskLog["append"] => {
    return (...args) => write(() => of.append(...args), args[3]?.lazy === true, titlesOf(args[1]));
  };
  return withMembers(storage, { append, log: log && withMembers(log, { append: appendRecords(log) }) });
}

/**
 * Makes a storage that dies after `left` durable writes: a run on it ends as if it was killed, except that its lease is
 * free.
 */
export function dyingAfter(left: number, storage: StorageAdapter): StorageAdapter {
  let rest = left;
  return withWrites(storage, async (call, isLazy) => {
    rest -= Number(!isLazy);
    if (rest < 0) throw new StorageError("The process was killed.");
    return call();
  });
}
