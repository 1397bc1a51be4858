import { type CorruptRecord, checkKeys, isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { type CheckpointSummary, damageIn, type StoredCheckpoint } from "../contract/checkpoint.js";
import type { CheckedRecord, StorageFinding } from "../contract/findings.js";
import { checkFunction, checkSignal } from "./arguments.js";

/** How `verify` goes about it. */
export interface VerifyOptions {
  /** Leaves payloads unread: what only their digest would show isn't found. Default false. */
  readonly quick?: boolean | undefined;
  /** Ends it, with the signal's reason as the error. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each checkpoint and each finding, with the counts so far. */
  readonly onProgress?: ((soFar: VerifyCounts) => void) | undefined;
}

/** How much was looked at. */
export interface VerifyCounts {
  readonly tasks: number;
  /** Damaged ones count. */
  readonly checkpoints: number;
  /** Their payloads' bytes, as far as their sizes can be told. */
  readonly bytes: number;
  readonly findings: number;
}

/** What `verify` has found. */
export interface VerifyResult extends Omit<VerifyCounts, "findings"> {
  /** Empty where nothing is wrong. By task, in the order they were come across. */
  readonly findings: readonly StorageFinding[];
}

/** Looks at all that a storage holds and changes nothing; in constant memory but for what it finds. */
export async function verifyStorage(storage: StorageAdapter, options: VerifyOptions): Promise<VerifyResult> {
  const { quick = false, signal, onProgress } = checked(options);
  const findings: StorageFinding[] = [];
  const counts = { tasks: 0, checkpoints: 0, bytes: 0 };
  let current: CheckedRecord | undefined;
  signal?.throwIfAborted();
  for await (const item of storage.maintenance?.verify({ quick }) ?? everyRecord(storage, quick)) {
    signal?.throwIfAborted();
    if (item.kind === "checked") {
      if (current === undefined || current.taskId !== item.taskId) counts.tasks += 1;
      counts.checkpoints += 1;
      counts.bytes += item.sizeBytes;
      current = item;
    } else findings.push(item);
    onProgress?.({ ...counts, findings: findings.length });
  }
  return { ...counts, findings };
}

/** What can be told of any storage: every record that its contract gives, those of damaged tasks included. */
async function* everyRecord(
  storage: StorageAdapter,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  let last: string | undefined;
  for await (const task of storage.tasks({ order: "taskId" })) {
    const { taskId } = task;
    if (taskId === undefined) {
      if (isCorrupt(task)) yield corruptFinding(task);
    } else if (taskId !== last) {
      // A task comes after what is damaged of it; one of which nothing is intact doesn't come at all.
      last = taskId;
      const query = { taskId, order: "oldest" } as const;
      const records: AsyncIterable<StoredCheckpoint | CheckpointSummary | CorruptRecord> = quick
        ? storage.list(query)
        : storage.read(query);
      for await (const record of records) {
        yield { kind: "checked", taskId, sizeBytes: isCorrupt(record) ? 0 : record.sizeBytes };
        const finding = findingOf(record);
        if (finding) yield finding;
      }
    }
  }
}

function findingOf(record: StoredCheckpoint | CheckpointSummary | CorruptRecord): StorageFinding | undefined {
  if (isCorrupt(record)) return corruptFinding(record);
  const reason = "payload" in record ? damageIn(record) : undefined;
  if (reason === undefined) return undefined;
  const { taskId, id, sequence, createdAt } = record;
  const location = `checkpoint ${id} (sequence ${sequence}) of task ${JSON.stringify(taskId)}`;
  return { kind: "damaged", location, reason, taskId, id, sequence, createdAt };
}

function corruptFinding({ corrupt: _corrupt, cause: _cause, ...found }: CorruptRecord): StorageFinding {
  return { kind: "damaged", ...found };
}

/** @throws {TypeError} An option is misspelled, or of a wrong kind. */
function checked(options: VerifyOptions): VerifyOptions {
  checkKeys("VerifyOptions", options, ["quick", "signal", "onProgress"] satisfies (keyof VerifyOptions)[]);
  const { quick, onProgress, signal } = options;
  if (quick !== undefined && typeof quick !== "boolean")
    throw new TypeError("VerifyOptions.quick must be true or false.");
  checkFunction("VerifyOptions.onProgress", onProgress);
  checkSignal("VerifyOptions.signal", signal);
  return options;
}
