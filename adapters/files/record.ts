import { basename } from "node:path";
import { setImmediate } from "node:timers/promises";
import { type CheckpointQuery, matchesQuery } from "../../src/contract/adapter.js";
import {
  brokenSeal,
  type CheckpointSummary,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type Payload,
  type SealedSummary,
  type StoredCheckpoint,
  toSummary,
} from "../../src/contract/checkpoint.js";
import type { TaskPosition } from "../../src/contract/conditions.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { isStackOverflow, StorageError } from "../../src/contract/errors.js";
import { parseSummary, type StoredFields } from "../../src/contract/parse-summary.js";
import { isTransient, replacedBy } from "../../src/contract/transient.js";
import { SLICE, UnreadableError } from "./file-io.js";
import type { FolderLock } from "./lock.js";
import { toFileName } from "./names.js";

/**
 * @internal Loads the checkpoints of a task's folder. @param lock - Given if the checkpoints are loaded for a write.
 */
export type LoadTask = (folder: string, lock?: FolderLock) => LoadedTask;

/** The range, the order and the skipped checkpoints of a query. */
export type RecordQuery = Pick<CheckpointQuery, "order" | "skip" | "beforeSequence" | "afterSequence">;

/**
 * @internal A task's checkpoints as they were when its folder was loaded. If damage hides the last sequence,
 * `lastSequence` throws.
 */
export interface LoadedTask extends TaskPosition {
  /** The number of checkpoints, damaged ones included. */
  readonly count: number;
  find(id: string): RecordSource | undefined;
  /** Returns an unreadable checkpoint without a known id: it may have any id. */
  findDamaged?(): RecordSource | undefined;
  /** Returns the checkpoints in the query's range and order, after the skipped ones. */
  select(query: RecordQuery): Iterable<RecordSource>;

  // The methods below write. Each write is durable once its promise resolves, and must be the last call under its lock.
  /** @param replaced - The checkpoints to remove once the record is stored. */
  add(record: StoredCheckpoint, lock: FolderLock, replaced: readonly RecordSource[]): Promise<void>;
  replace(entry: RecordSource, record: StoredCheckpoint, lock: FolderLock): Promise<void>;
  /**
   * Removes checkpoints, and keeps the numbering unless `doomed` is "all".
   *
   * @param doomed - The checkpoints to remove. They may come from an earlier load of the same task.
   * @returns The number of removed checkpoints.
   */
  remove(doomed: readonly RecordSource[] | "all", lock: FolderLock): Promise<number>;
}

/** A stored checkpoint, which is read on demand. */
export interface RecordSource {
  readonly location: string;
  /** The fields that are known even if the checkpoint can't be read. */
  readonly known: { readonly id?: string; readonly sequence?: number };
  /**
   * Returns the checkpoint's bytes, which repair keeps if the checkpoint is damaged.
   *
   * @throws {UnreadableError} The entry isn't a file.
   */
  bytes(): Uint8Array | undefined;
  /** `undefined` if the entry was removed. @throws {UnreadableError | StorageError} As {@link assertOwner} does. */
  head(): RecordHead | undefined;
  /** `undefined` if the entry was removed. @throws {UnreadableError | StorageError} As {@link assertOwner} does. */
  checkpoint(): StoredCheckpoint | undefined;
}

/** The fields of a checkpoint in a file, without its body. */
export interface RecordHead extends SealedSummary {
  /** Set if the body is bytes, which the file contains as base64 text. */
  readonly bodyIs?: "base64";
  /** The size of the body in a file written with `pretty`, in bytes. */
  readonly stateBytes?: number;
}

/** Renders the body as one line of JSON. `bodyIs` tells how to read the line. */
export function renderBody({ body }: Payload): Pick<RecordHead, "bodyIs"> & { readonly text: string } {
  if (typeof body === "string") return { text: body };
  return { bodyIs: "base64", text: JSON.stringify(Buffer.from(body).toString("base64")) };
}

/**
 * Returns the text that a JSON value had before another program formatted its file. `JSON.stringify` wrote that text
 * and renders it the same way again. If the value was changed, the digest won't match.
 *
 * @throws {UnreadableError}
 */
export function renderValue(value: JsonValue): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!isStackOverflow(error)) throw error;
    throw new UnreadableError("its state is nested too deeply to read", { cause: error });
  }
}

export function measureEmbedded({
  bodyIs,
  sizeBytes,
}: {
  readonly bodyIs?: string;
  readonly sizeBytes: number;
}): number {
  return bodyIs === "base64" ? 2 + 4 * Math.ceil(sizeBytes / 3) : sizeBytes;
}

export function joinRecord(head: RecordHead, bodyText: string): StoredCheckpoint {
  const body = head.bodyIs === "base64" ? new Uint8Array(Buffer.from(bodyText.slice(1, -1), "base64")) : bodyText;
  return { ...toSummary(head), payload: { ...head.payload, body }, seal: head.seal };
}

/**
 * Checks that a record belongs to its folder's task. It may belong to another one, because people copy folders, and on
 * some disks names that differ only in case are the same folder.
 *
 * @throws {StorageError} The record belongs to another task.
 */
export function assertOwner(taskId: string, folder: string, location: string): void {
  const name = basename(folder);
  if (taskId === name || toFileName(taskId) === name) return;
  throw new StorageError(
    `${location} belongs to task ${JSON.stringify(taskId)}, but is in another task's folder. Nothing was changed. ` +
      "If two task ids differ only in case, this disk gives them the same folder. Then rename one of them. " +
      "Otherwise the file was copied there, so move it away.",
  );
}

/**
 * Reads an entry. Returns a CorruptRecord if the entry can't be read, and `undefined` if it was removed. Throws all
 * other errors.
 */
export function readEntry<Item>(
  { location, known }: RecordSource,
  taskId: string | undefined,
  read: () => Item | undefined,
): Item | CorruptRecord | undefined {
  const item = attempt(read);
  if (!(item instanceof UnreadableError)) return item;
  return {
    corrupt: true,
    location,
    reason: item.message,
    ...(taskId === undefined ? undefined : { taskId }),
    ...known,
    ...(item.cause === undefined ? undefined : { cause: item.cause }),
  };
}

/**
 * @internal Finds the transient checkpoint with this id, and earlier transient checkpoints that a kill left although
 * they were replaced. Each checkpoint names the one that it replaced.
 */
export function findReplaced(task: LoadedTask, id: string | undefined): readonly RecordSource[] {
  const found: RecordSource[] = [];
  for (let [next, before] = [id, Number.POSITIVE_INFINITY]; next !== undefined; ) {
    const entry = task.find(next);
    const head = attempt(() => entry?.head());
    if (entry === undefined || head === undefined || head instanceof UnreadableError) break;
    if (!isTransient(head) || head.sequence >= before) break;
    found.push(entry);
    [next, before] = [replacedBy(head), head.sequence];
  }
  return found;
}

/** Parses a head from a file's fields. Checks the type of each field, and the seal. @throws {UnreadableError} */
export function parseHead(
  fields: StoredFields & { readonly bodyIs?: JsonValue | undefined; readonly stateBytes?: JsonValue | undefined },
): RecordHead {
  const { bodyIs, stateBytes } = fields;
  const summary = parseSummary(fields);
  if (typeof summary === "string") throw new UnreadableError(summary);
  if (bodyIs !== undefined && bodyIs !== "base64") throw new UnreadableError("its body has an unknown form");
  const broken = brokenSeal(summary);
  if (broken !== undefined) throw new UnreadableError(broken);
  return {
    ...summary,
    ...(bodyIs === undefined ? undefined : { bodyIs }),
    ...(typeof stateBytes === "number" && { stateBytes }),
  };
}

/**
 * Parses a JSON object. The text may begin with a byte order mark, which some editors add. @throws {UnreadableError} It
 * isn't a JSON object.
 */
export function parseObject(source: string): JsonObject {
  const value = parseJson(source);
  if (!isJsonObject(value)) throw new UnreadableError("it isn't a JSON object");
  return value;
}

const BYTE_ORDER_MARK = "\uFEFF";

/** @throws {UnreadableError} */
export function parseJson(source: string): JsonValue {
  try {
    // `JSON.parse` always returns a JsonValue.
    return JSON.parse(source.startsWith(BYTE_ORDER_MARK) ? source.slice(1) : source) as JsonValue;
  } catch (error) {
    throw new UnreadableError("it is cut short or isn't JSON", { cause: error });
  }
}

/**
 * @internal Yields `read(entry)` for each entry that the query finds, and leaves out removed entries. If the first
 * entry is gone, another process removed it after the task was loaded, and may have saved a newer checkpoint first.
 * The task is then loaded again, since it could otherwise seem empty although it always had a checkpoint.
 */
export function* readEntries<Item>(
  load: () => LoadedTask | undefined,
  query: RecordQuery,
  read: (entry: RecordSource) => Item | undefined,
): Generator<Item, void, void> {
  const gone = new Set<string>();
  for (let isOutdated = true; isOutdated; ) {
    isOutdated = false;
    let isFirst = true;
    for (const entry of load()?.select(query) ?? []) {
      const item = read(entry);
      if (item !== undefined) {
        isFirst = false;
        yield item;
      } else if (isFirst && !gone.has(entry.location)) {
        // The task is loaded again once per file at most, because a dangling link always seems to be gone.
        gone.add(entry.location);
        isOutdated = true;
        break;
      }
    }
  }
}

/** @internal Yields the results of `read` that match a query, and CorruptRecords. */
export async function* selectRecords<Item extends CheckpointSummary>(
  load: () => LoadedTask | undefined,
  query: CheckpointQuery,
  read: (entry: RecordSource) => Item | undefined,
): AsyncGenerator<Item | CorruptRecord, void, void> {
  let [left, seen] = [query.limit ?? Number.POSITIVE_INFINITY, 0];
  if (left === 0) return;
  let last: number | undefined;
  // A page never ends between two checkpoints with the same sequence, because the next page would skip the second one.
  const next = (entry: RecordSource) =>
    left <= 0 && entry.known.sequence !== last ? "over" : readEntry(entry, query.taskId, () => read(entry));
  for (const item of readEntries(load, query, next)) {
    if (item === "over") return;
    if (isCorrupt(item)) yield item;
    else if (matchesQuery(item, query)) {
      left -= 1;
      last = item.sequence;
      yield item;
    }
    seen += 1;
    if (seen % SLICE === 0) await setImmediate();
  }
}

export function attempt<Result>(parse: () => Result): Result | UnreadableError {
  try {
    return parse();
  } catch (error) {
    if (error instanceof UnreadableError) return error;
    if (error instanceof RangeError) return new UnreadableError("it nests too deep");
    throw error;
  }
}
