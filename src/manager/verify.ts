import { type CorruptRecord, isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { checkBoolean, checkFunction, checkKeys, checkSignal, keysOf } from "../contract/arguments.js";
import type { CheckpointSummary, StoredCheckpoint } from "../contract/checkpoint.js";
import type { CheckedRecord, StorageFinding } from "../contract/findings.js";
import { makeFinding } from "../contract/header-index.js";
import { isEventsTask } from "../contract/task-events.js";
import { eitherOf } from "./abort-signals.js";
import { placeOf } from "./reader.js";

/** The options of `verify`. */
export interface VerifyOptions {
  /** If true, payloads aren't read. Then damage that only a payload's digest shows is not found. Default false. */
  readonly quick?: boolean | undefined;
  /** Stops at the next checkpoint; `verify` then throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each checkpoint and each finding, with the counts so far. */
  readonly onProgress?: ((soFar: Omit<VerifyResult, "findings"> & { readonly findings: number }) => void) | undefined;
}

/** The result of `verify`. */
export interface VerifyResult {
  readonly tasks: number;
  /** The number of the tasks' checkpoints, damaged ones included. */
  readonly checkpoints: number;
  /** The number of events that were sent to the tasks. */
  readonly events: number;
  /** The size of the payloads whose size could be read, in bytes. */
  readonly bytes: number;
  /** Empty if nothing is wrong. */
  readonly findings: readonly StorageFinding[];
}

/**
 * Checks everything in a storage and changes nothing. Only the findings are kept in memory.
 *
 * @param closing - Aborted when the manager closes.
 */
export async function verifyStorage(
  storage: StorageAdapter,
  options: VerifyOptions,
  closing: AbortSignal,
): Promise<VerifyResult> {
  const { quick = false, onProgress, signal } = checked(options);
  const stop = signal === undefined ? closing : eitherOf(closing, signal);
  const findings: StorageFinding[] = [];
  const counts = { tasks: 0, checkpoints: 0, events: 0, bytes: 0 };
  let current: CheckedRecord | undefined;
  stop.throwIfAborted();
  for await (const item of storage.maintenance?.verify({ quick }) ?? everyRecord(storage, quick)) {
    stop.throwIfAborted();
    if (item.kind === "checked") {
      if (item.taskId !== undefined && isEventsTask(item.taskId)) counts.events += 1;
      else {
        if (current === undefined || current.taskId !== item.taskId) counts.tasks += 1;
        counts.checkpoints += 1;
      }
      counts.bytes += item.sizeBytes;
      current = item;
    } else findings.push(item);
    onProgress?.({ ...counts, findings: findings.length });
  }
  return { ...counts, findings };
}

/** Verifies a storage that has no `maintenance`, by checking every record that it returns. */
async function* everyRecord(
  storage: StorageAdapter,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  let last: string | undefined;
  for await (const task of storage.tasks({ order: "taskId" })) {
    const { taskId } = task;
    if (taskId === undefined) {
      const finding = isCorrupt(task) ? makeFinding(task, () => task.location) : undefined;
      if (finding) yield finding;
    } else if (taskId !== last) {
      // A task's CorruptRecord comes before the task, or alone if the task has nothing intact. Each task is checked
      // only once.
      last = taskId;
      const query = { taskId, order: "oldest" } as const;
      const records: AsyncIterable<StoredCheckpoint | CheckpointSummary | CorruptRecord> = quick
        ? storage.list(query)
        : storage.read(query);
      for await (const record of records) {
        yield { kind: "checked", taskId, sizeBytes: isCorrupt(record) ? 0 : record.sizeBytes };
        const finding = makeFinding(record, () => (isCorrupt(record) ? record.location : placeOf(record)));
        if (finding) yield finding;
      }
    }
  }
}

function checked(options: VerifyOptions): VerifyOptions {
  checkKeys("VerifyOptions", options, keysOf<VerifyOptions>({ quick: true, signal: true, onProgress: true }));
  const { quick, onProgress, signal } = options;
  checkBoolean("VerifyOptions.quick", quick);
  checkFunction("VerifyOptions.onProgress", onProgress);
  checkSignal("VerifyOptions.signal", signal);
  return options;
}
