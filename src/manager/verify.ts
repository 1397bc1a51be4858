import type { StorageAdapter } from "../contract/adapter.js";
import { checkBoolean, checkFunction, checkSignal } from "../contract/arguments.js";
import type { CheckpointSummary, StoredCheckpoint } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import type { CheckedRecord, DamagedFinding, StorageFinding } from "../contract/findings.js";
import { makeFinding } from "../contract/header-index.js";
import { findRecordDamage, isRecord, RECORD_KINDS, toRecordHeader } from "../contract/log.js";
import { anySignal } from "./abort-signals.js";
import { checkOptions } from "./check-options.js";
import { corruptRecord, describeLocation } from "./damage.js";

/** The options of `verify`. */
export interface VerifyOptions {
  /** If true, payloads aren't read. Then damage that only a payload's digest shows is not found. Default false. */
  readonly quick?: boolean | undefined;
  /** Stops at the next checkpoint; `verify` then throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called after each checkpoint, record and finding, with the result so far. All calls pass the same `findings`, which
   * grow.
   */
  readonly onProgress?: ((soFar: VerifyResult) => void) | undefined;
}

/** The result of `verify`. */
export interface VerifyResult {
  readonly tasks: number;
  /** The number of the tasks' checkpoints, damaged ones included. */
  readonly checkpoints: number;
  /** The number of records in the tasks' logs, damaged ones included. */
  readonly records: number;
  /** The size of the payloads whose size could be read, in bytes. */
  readonly bytes: number;
  /** Empty if nothing is wrong. */
  readonly findings: readonly StorageFinding[];
}

/**
 * @internal Checks everything in a storage and changes nothing. Only the findings are kept in memory.
 *
 * @param closing - Aborted when the manager closes.
 */
export async function verifyStorage(
  storage: StorageAdapter,
  options: VerifyOptions,
  closing: AbortSignal,
): Promise<VerifyResult> {
  checkOptions("VerifyOptions", options, { quick: checkBoolean, signal: checkSignal, onProgress: checkFunction });
  const { quick = false, onProgress, signal } = options;
  const stop = anySignal(closing, signal);
  const findings: StorageFinding[] = [];
  const counts = { tasks: 0, checkpoints: 0, records: 0, bytes: 0 };
  let lastTask: string | undefined | null = null;
  stop.throwIfAborted();
  for await (const item of storage.maintenance?.verify({ quick }) ?? everyRecord(storage, quick)) {
    stop.throwIfAborted();
    if (item.kind === "checked") {
      counts[item.isRecord ? "records" : "checkpoints"] += 1;
      if (item.taskId !== lastTask) counts.tasks += 1;
      counts.bytes += item.sizeBytes;
      lastTask = item.taskId;
    } else findings.push(item);
    onProgress?.({ ...counts, findings });
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
        const finding = makeFinding(record, () => (isCorrupt(record) ? record.location : describeLocation(record)));
        if (finding) yield finding;
      }
      yield* verifyLog(storage, taskId, quick);
    }
  }
}

async function* verifyLog(
  { log }: StorageAdapter,
  taskId: string,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  const query = { taskId, order: "oldest", kinds: RECORD_KINDS, headersOnly: quick } as const;
  for await (const item of log?.read(query) ?? []) {
    if (isCorrupt(item)) {
      yield { kind: "checked", isRecord: true, taskId, sizeBytes: 0 };
      yield toFinding(item);
    } else if (isRecord(item)) {
      yield { kind: "checked", isRecord: true, taskId, sizeBytes: toRecordHeader(item).sizeBytes };
      const reason = findRecordDamage(item);
      if (reason !== undefined) yield toFinding({ ...corruptRecord(item, reason), createdAt: item.createdAt });
    }
  }
}

function toFinding({
  corrupt: _corrupt,
  cause: _cause,
  ...known
}: CorruptRecord & { createdAt?: string }): DamagedFinding {
  return { kind: "damaged", ...known };
}
