import { setImmediate as nextTurn } from "node:timers/promises";
import { openToRenew } from "../codec/payload.js";
import type { Transform } from "../codec/transforms.js";
import { type CorruptRecord, isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { checkFunction, checkKeys, checkSignal, checkText, keysOf } from "../contract/arguments.js";
import { brokenSeal, type StoredCheckpoint } from "../contract/checkpoint.js";
import {
  CheckpointCorruptError,
  CheckpointError,
  ClosedError,
  KeyUnavailableError,
  StorageError,
  UnsupportedOperationError,
} from "../contract/errors.js";
import type { ResolvedOptions } from "./options.js";
import { type CheckpointReader, corruptRecord } from "./reader.js";

/** The options of `rekey`. */
export interface RekeyOptions {
  /** Only tasks whose id begins with this. */
  readonly prefix?: string | undefined;
  /** Stops after the checkpoint in progress. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the first checkpoint and after each one. */
  readonly onProgress?: ((progress: Omit<RekeyResult, "refusals">) => void) | undefined;
}

/** The result of a rekey, or its progress. All numbers count checkpoints. */
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
  /** The first 100 checkpoints that couldn't be rewritten, with the reasons. */
  readonly refusals: readonly {
    readonly taskId: string;
    readonly id: string;
    readonly sequence: number;
    /** Usually a DecryptionFailedError. */
    readonly error: CheckpointError;
  }[];
}

type Refusal = RekeyResult["refusals"][number];

const MAX_REFUSALS = 100;

/**
 * Rewrites the checkpoints that the transforms would store differently now.
 *
 * @param closing - Aborted when the manager closes.
 */
export async function rekeyStorage(
  { storage, transforms }: ResolvedOptions,
  reader: CheckpointReader,
  options: RekeyOptions,
  closing: AbortSignal,
): Promise<RekeyResult> {
  checkOptions(options);
  const { prefix, signal, onProgress } = options;
  if (transforms.length === 0) {
    throw new TypeError("rekey needs transforms: new CheckpointManager({ transforms: [encrypt(…)], … }).");
  }
  if (storage.replacePayload === undefined) {
    throw new UnsupportedOperationError(
      `The ${storage.name} adapter can't replace payloads, so nothing was rekeyed. New saves use the current key; ` +
        "to rewrite old checkpoints, copy them to a storage that can replace payloads.",
    );
  }
  const counted = await countCheckpoints(storage, prefix);
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
    if (damagedPlaces.has(record.location)) return;
    damagedPlaces.add(record.location);
    counts.damaged += 1;
    reader.reportDamage(record);
  };
  onProgress?.(progress());
  for await (const task of storage.tasks({ order: "taskId", prefix })) {
    if (signal?.aborted || closing.aborted) return { ...progress(), refusals };
    if (isCorrupt(task)) {
      reportDamage(task);
      continue;
    }
    // Checkpoints saved from now on are current already. If they were visited too, the rekey might never end.
    if (task.newest === undefined) continue;
    const beforeSequence = task.newest.sequence + 1;
    for await (const record of storage.read({ taskId: task.taskId, order: "oldest", beforeSequence })) {
      if (signal?.aborted || closing.aborted) return { ...progress(), refusals };
      const outcome = await rewritten(storage, transforms, record);
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
  return { ...progress(), refusals, total: counts.done, left: 0 };
}

/**
 * Rewrites a record if needed. Returns `undefined` if the record was removed after it was read.
 *
 * @returns A Refusal if this record can't be rewritten. Errors that concern all records are thrown.
 */
async function rewritten(
  storage: StorageAdapter,
  transforms: readonly Transform[],
  record: StoredCheckpoint | CorruptRecord,
): Promise<"rewritten" | "current" | Refusal | CorruptRecord | undefined> {
  let now: StoredCheckpoint | CorruptRecord | undefined = record;
  // If another process rewrote the record after it was read, it is read and tried again.
  while (now !== undefined && !isCorrupt(now) && now.sequence === record.sequence) {
    const { taskId, id, sequence, payload } = now;
    let isRead = false;
    try {
      const broken = brokenSeal(now);
      if (broken !== undefined) return corruptRecord(now, broken);
      const renew = await openToRenew(payload, { transforms, context: now });
      isRead = true;
      if (renew === undefined) return "current";
      const made = await renew();
      if (await storage.replacePayload?.(taskId, id, made.payload, payload.sha256)) return "rewritten";
    } catch (error) {
      if (error instanceof CheckpointCorruptError && !isRead) return corruptRecord(now, error.reason, error);
      const concernsAll = error instanceof KeyUnavailableError || error instanceof StorageError;
      if (error instanceof ClosedError || concernsAll || !(error instanceof CheckpointError)) throw error;
      return { taskId, id, sequence, error };
    }
    now = await storage.get(taskId, id);
  }
  return now !== undefined && isCorrupt(now) ? now : undefined;
}

async function countCheckpoints(storage: StorageAdapter, prefix: string | undefined): Promise<number> {
  let count = 0;
  for await (const task of storage.tasks({ order: "taskId", prefix })) if (!isCorrupt(task)) count += task.count;
  return count;
}

function checkOptions(options: RekeyOptions): void {
  checkKeys("RekeyOptions", options, keysOf<RekeyOptions>({ prefix: true, signal: true, onProgress: true }));
  if (options.prefix !== undefined) checkText("RekeyOptions.prefix", options.prefix);
  checkFunction("RekeyOptions.onProgress", options.onProgress);
  checkSignal("RekeyOptions.signal", options.signal);
}
