import { setImmediate as nextTurn } from "node:timers/promises";
import { openToRenew } from "../codec/payload.js";
import type { Transform } from "../codec/transforms.js";
import type { StorageAdapter, StoredTask } from "../contract/adapter.js";
import { checkFunction, checkSignal, checkText } from "../contract/arguments.js";
import type { StoredCheckpoint } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import {
  CheckpointError,
  ClosedError,
  KeyUnavailableError,
  StorageError,
  UnsupportedOperationError,
} from "../contract/errors.js";
import { isRecord, type LogRecord, RECORD_KINDS, type RecordHeader, toRecordHeader } from "../contract/log.js";
import { anySignal } from "./abort-signals.js";
import { checkOptions } from "./check-options.js";
import { ifIntact } from "./damage.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";

/** The options of `rekey`. */
export interface RekeyOptions {
  /** Only tasks whose id begins with this. */
  readonly prefix?: string | undefined;
  /** Stops after the checkpoint or record in progress. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the first checkpoint or record and after each one. */
  readonly onProgress?: ((progress: Omit<RekeyResult, "refusals">) => void) | undefined;
}

/** The result of a rekey, or its progress. All numbers count checkpoints and records of logs. */
export interface RekeyResult {
  readonly total: number;
  /** Visited so far. */
  readonly done: number;
  /** Rewritten with the current key and transforms. */
  readonly rewritten: number;
  /** Not visited yet. */
  readonly left: number;
  /** Unchanged, because they already had the current key and transforms. */
  readonly current: number;
  /** Unchanged, because no configured key decrypts them, or the storage refused the new payload. */
  readonly refused: number;
  /** Unchanged, because they can't be read. Each was reported by a `corrupt` event. */
  readonly damaged: number;
  /** The first 100 checkpoints and records that couldn't be rewritten, with the reasons. */
  readonly refusals: readonly {
    readonly taskId: string;
    /** The id of a checkpoint or an event. Other records have none. */
    readonly id?: string;
    readonly sequence: number;
    /** Usually a DecryptionFailedError. */
    readonly error: CheckpointError;
  }[];
}

type Refusal = RekeyResult["refusals"][number];

const MAX_REFUSALS = 100;

/**
 * Rewrites the checkpoints and records that the transforms would store differently now.
 *
 * @param closing - Aborted when the manager closes.
 */
export async function rekeyStorage(
  { storage, transforms }: ResolvedOptions,
  reader: CheckpointReader,
  options: RekeyOptions,
  closing: AbortSignal,
): Promise<RekeyResult> {
  checkOptions("RekeyOptions", options, { prefix: checkText, signal: checkSignal, onProgress: checkFunction });
  const { prefix, onProgress } = options;
  const stop = anySignal(closing, options.signal);
  if (transforms.length === 0) {
    throw new TypeError("rekey needs transforms: new CheckpointManager({ transforms: [encrypt(…)], … }).");
  }
  if (storage.replacePayload === undefined || (storage.log && storage.log.replacePayload === undefined)) {
    throw new UnsupportedOperationError(
      `The ${storage.name} adapter can't replace payloads, so nothing was rekeyed. New saves use the current key; ` +
        "to rewrite old checkpoints, copy them to a storage that can replace payloads.",
    );
  }
  const counted = await countItems(storage, prefix);
  const counts = { done: 0, rewritten: 0, current: 0, refused: 0, damaged: 0 };
  const refusals: Refusal[] = [];
  const progress = () => {
    // Saves during the rekey add to the total.
    const total = Math.max(counted, counts.done);
    return { ...counts, total, left: total - counts.done };
  };
  /** The places of damage. They are kept because the list of tasks and the task itself may report the same record. */
  const damagedPlaces = new Set<string>();
  const reportDamage = (record: CorruptRecord) => {
    if (!damagedPlaces.has(record.location)) reader.reportDamage(record);
    counts.damaged = damagedPlaces.add(record.location).size;
  };
  onProgress?.(progress());
  for await (const task of storage.tasks({ order: "taskId", prefix })) {
    if (stop.aborted) break;
    if (isCorrupt(task)) {
      reportDamage(task);
      continue;
    }
    for await (const record of readItems(storage, task)) {
      if (stop.aborted) break;
      const outcome = await rewriteRecord(storage, transforms, record);
      if (typeof outcome === "string") counts[outcome] += 1;
      else if (outcome !== undefined && isCorrupt(outcome)) reportDamage(outcome);
      else if (outcome !== undefined) {
        counts.refused += 1;
        if (refusals.length < MAX_REFUSALS) refusals.push(outcome);
      }
      counts.done += 1;
      onProgress?.(progress());
      // Reading and replacing may be synchronous inside, so this lets other work run in between.
      await nextTurn();
    }
  }
  // Checkpoints that were removed during the rekey don't count as left.
  return { ...progress(), refusals, ...(stop.aborted ? undefined : { total: counts.done, left: 0 }) };
}

async function countItems(storage: StorageAdapter, prefix: string | undefined): Promise<number> {
  let count = 0;
  for await (const task of storage.tasks({ order: "taskId", prefix })) {
    if (isCorrupt(task)) continue;
    count += task.count;
    const query = { taskId: task.taskId, order: "oldest", kinds: RECORD_KINDS, headersOnly: true } as const;
    for await (const item of storage.log?.read(query) ?? []) {
      if (!isCorrupt(item) && isRecord(item) && toRecordHeader(item).sizeBytes > 0) count += 1;
    }
  }
  return count;
}

/** Yields a task's checkpoints, then its records. An event whose body was removed has nothing to rewrite. */
async function* readItems(
  storage: StorageAdapter,
  { taskId, newest, last }: StoredTask,
): AsyncGenerator<StoredCheckpoint | LogRecord | CorruptRecord, void, void> {
  // Those saved from now on are current already. If they were visited too, the rekey might never end.
  const beforeSequence = Math.max(newest?.sequence ?? 0, last?.sequence ?? 0) + 1;
  const query = { taskId, order: "oldest", beforeSequence } as const;
  yield* storage.read(query);
  for await (const item of storage.log?.read({ ...query, kinds: RECORD_KINDS }) ?? []) {
    if (isCorrupt(item)) yield item;
    else if (isRecord(item) && isWhole(item)) yield item;
  }
}

function isWhole(record: LogRecord | RecordHeader): record is LogRecord {
  return "body" in record.payload;
}

/**
 * Rewrites a checkpoint or record if needed. Returns `undefined` if another process has rewritten or removed it since it was read.
 *
 * @returns A Refusal if this record can't be rewritten. Errors that concern all records are thrown.
 */
async function rewriteRecord(
  storage: StorageAdapter,
  transforms: readonly Transform[],
  record: StoredCheckpoint | LogRecord | CorruptRecord,
): Promise<"rewritten" | "current" | Refusal | CorruptRecord | undefined> {
  if (isCorrupt(record)) return record;
  const { taskId, id, sequence, payload } = record;
  try {
    const opened = await ifIntact(record, async () => ({
      renew: await openToRenew(payload, { transforms, context: record }),
    }));
    if (isCorrupt(opened)) return opened;
    if (opened.renew === undefined) return "current";
    const made = await opened.renew();
    const isReplaced = isRecord(record)
      ? await storage.log?.replacePayload?.(taskId, sequence, made.payload, payload.sha256)
      : await storage.replacePayload?.(taskId, record.id, made.payload, payload.sha256);
    return isReplaced ? "rewritten" : undefined;
  } catch (error) {
    const concernsAll = error instanceof KeyUnavailableError || error instanceof StorageError;
    if (error instanceof ClosedError || concernsAll || !(error instanceof CheckpointError)) throw error;
    return { taskId, ...(id !== undefined && { id }), sequence, error };
  }
}
