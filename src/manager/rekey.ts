import { type MadePayload, openToRenew } from "../codec/payload.js";
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
import { nextTurn } from "../contract/runtime.js";
import { anySignal } from "./abort-signals.js";
import { checkOptions } from "./check-options.js";
import { ifIntact } from "./damage.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";

/** The options of `rekey`. */
export interface RekeyOptions {
  /** Only tasks whose id begins with this. */
  readonly prefix?: string | undefined;
  /** Stops after the checkpoint, or the batch of records, in progress. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called before the first checkpoint or record and after each one, with the result so far. All calls pass the same
   * `refusals`, which grow. Records come in batches of at most 1,000.
   */
  readonly onProgress?: ((soFar: RekeyResult) => void) | undefined;
}

/** The result of a rekey, so far or at its end. All numbers count checkpoints and records of logs. */
export interface RekeyResult {
  readonly total: number;
  /** Visited so far. */
  readonly done: number;
  /** Rewritten with the current key and transforms. */
  readonly rewritten: number;
  /** Not visited yet. */
  readonly left: number;
  /** Left unchanged, because they already had the current key and transforms. */
  readonly current: number;
  /** Left unchanged, because no configured key decrypts them, or the storage refused the new payload. */
  readonly refused: number;
  /** Left unchanged, because they can't be read. Each was reported as `corrupt`. */
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

/** `undefined`: another process has rewritten or removed the checkpoint or record since it was read. */
type Outcome = "rewritten" | "current" | Refusal | CorruptRecord | undefined;

/** A checkpoint or record whose new payload isn't stored yet. */
interface Renewed {
  readonly record: StoredCheckpoint | LogRecord;
  readonly made: MadePayload;
}

const MAX_REFUSALS = 100;
/** The limits of one step's records: their number and their bytes. On files, each step rewrites the whole log. */
const MAX_BATCH = 1000;
const MAX_BATCH_BYTES = 16 * 1024 * 1024;

/**
 * @internal Rewrites the checkpoints and records that the transforms would store differently now.
 *
 * @param closing - Aborted when the manager closes.
 */
export async function rekeyStorage(
  { storage, transforms, runtime }: ResolvedOptions,
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
  if (storage.replacePayload === undefined || (storage.log && storage.log.replacePayloads === undefined)) {
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
    return { ...counts, total, left: total - counts.done, refusals };
  };
  /**
   * The places of damage that was reported, because the list of tasks and the task itself may yield the same record.
   */
  const damagedPlaces = new Set<string>();
  const reportDamage = (record: CorruptRecord) => {
    if (!damagedPlaces.has(record.location)) reader.reportDamage(record);
    counts.damaged = damagedPlaces.add(record.location).size;
  };
  const note = (outcome: Outcome) => {
    if (typeof outcome === "string") counts[outcome] += 1;
    else if (outcome !== undefined && isCorrupt(outcome)) reportDamage(outcome);
    else if (outcome !== undefined) {
      counts.refused += 1;
      if (refusals.length < MAX_REFUSALS) refusals.push(outcome);
    }
    counts.done += 1;
    onProgress?.(progress());
  };
  onProgress?.(progress());
  for await (const task of storage.tasks({ order: "taskId", prefix })) {
    if (stop.aborted) break;
    if (isCorrupt(task)) {
      reportDamage(task);
      continue;
    }
    const renewed: Renewed[] = [];
    let bytes = 0;
    const storeRenewed = async () => {
      bytes = 0;
      for (const outcome of await replaceTogether(storage, renewed.splice(0))) note(outcome);
    };
    for await (const record of readItems(storage, task)) {
      if (stop.aborted) break;
      const outcome = await renewPayload(transforms, record);
      if (isRenewed(outcome)) renewed.push(outcome);
      else note(outcome);
      bytes += isRenewed(outcome) ? outcome.made.sizeBytes : 0;
      const isFull = renewed.length >= MAX_BATCH || bytes >= MAX_BATCH_BYTES;
      if (isFull || !("kind" in record)) await storeRenewed();
      // Reading and replacing may be synchronous inside. Here, other work can run in between.
      await nextTurn(runtime);
    }
    await storeRenewed();
  }
  // Checkpoints that were removed during the rekey don't count as left.
  return { ...progress(), ...(stop.aborted ? undefined : { total: counts.done, left: 0 }) };
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
  // What is saved from now on is current already. If it were also visited, the rekey might never end.
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
 * Encodes a checkpoint's or record's payload as it would be stored now. Errors that concern all payloads are thrown.
 */
async function renewPayload(
  transforms: readonly Transform[],
  record: StoredCheckpoint | LogRecord | CorruptRecord,
): Promise<Renewed | Outcome> {
  if (isCorrupt(record)) return record;
  try {
    const opened = await ifIntact(record, async () => ({
      renew: await openToRenew(record.payload, { transforms, context: record }),
    }));
    if (isCorrupt(opened)) return opened;
    return opened.renew === undefined ? "current" : { record, made: await opened.renew() };
  } catch (error) {
    return refuse(record, error);
  }
}

function isRenewed(outcome: Renewed | Outcome): outcome is Renewed {
  return typeof outcome === "object" && "made" in outcome;
}

/** Stores new payloads in one step: the payload of one checkpoint, or the payloads of several records of a task. */
async function replaceTogether(storage: StorageAdapter, renewed: readonly Renewed[]): Promise<readonly Outcome[]> {
  const [first] = renewed;
  if (first === undefined) return [];
  const { taskId, sequence, id, payload } = first.record;
  const changes = renewed.map(({ record, made }) => ({
    sequence: record.sequence,
    payload: made.payload,
    expectedSha256: record.payload.sha256,
  }));
  try {
    const isCheckpoint = !isRecord(first.record) && id !== undefined;
    const isReplaced = isCheckpoint && (await storage.replacePayload?.(taskId, id, first.made.payload, payload.sha256));
    const replaced = isCheckpoint
      ? isReplaced
        ? [sequence]
        : []
      : await storage.log?.replacePayloads?.(taskId, changes);
    const sequences = new Set(replaced);
    return changes.map((change) => (sequences.has(change.sequence) ? "rewritten" : undefined));
  } catch (error) {
    return renewed.map(({ record }) => refuse(record, error));
  }
}

/** @throws The error, if it concerns more than this checkpoint or record. */
function refuse({ taskId, id, sequence }: StoredCheckpoint | LogRecord, error: unknown): Refusal {
  const concernsAll = error instanceof KeyUnavailableError || error instanceof StorageError;
  if (error instanceof ClosedError || concernsAll || !(error instanceof CheckpointError)) throw error;
  return { taskId, ...(id !== undefined && { id }), sequence, error };
}
