import { closeSync, fstatSync, readSync, type Stats } from "node:fs";
import { setImmediate } from "node:timers/promises";
import type { CheckpointSummary, SealedSummary } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { RecordHeader, StoredEvent } from "../../src/contract/log.js";
import { findDueTime } from "../../src/contract/transient.js";
import { openToRead, readStats, UnreadableError } from "./file-io.js";
import { type DueMark, joinHeader, parseLine, type RenderedLine, toLogLine } from "./log-line.js";
import { type LogEntry, LogScan, type PendingBatch, readLines, type ScanPosition } from "./log-scan.js";
import { shortDigest } from "./names.js";
import { assertOwner, type LoadedTask } from "./record.js";

/** After this many bytes, a scan lets timers, sockets and other tasks run. */
const SLICE_BYTES = 4 * 1024 * 1024;
/** A read begins at most about this many bytes before the first line that it needs. */
const SEGMENT_BYTES = 256 * 1024;
/** How many logs the cache holds. */
const MAX_LOGS = 1_000;

/** The summary of a log's lines up to an offset. It is cached, so that an append costs the same at any length. */
export class LogIndex {
  readonly path: string;
  readonly scan: LogScan;
  /** Positions where a read can begin. The first one is the beginning of the file. */
  readonly segments: ScanPosition[];
  /** The events, by id. */
  readonly events = new Map<string, StoredEvent>();
  lastEvent = 0;
  /** The number of records in the log. */
  count = 0;
  /** The last readable record. */
  last: RecordHeader | undefined;
  /** The file's size when it was last read. Bytes after the last line feed aren't a line. */
  size = 0;
  /** Whether the file was read up to `size`. */
  isComplete = false;
  /** The file's stats after the last complete read, or the last append. */
  #file: Pick<Stats, "ino" | "size" | "mtimeMs"> | undefined;
  #due: DueMark | undefined;
  /** The bytes of line one. */
  #beginning = Buffer.alloc(0);

  constructor(path: string) {
    this.path = path;
    this.scan = new LogScan(path);
    this.segments = [this.scan.position];
  }

  get taskId(): string | undefined {
    return this.scan.first?.taskId;
  }

  /** The highest sequence, including those of removed records. */
  get lastSequence(): number {
    return Math.max(this.scan.first?.lastSequence ?? 0, this.scan.lastSequence);
  }

  /** The highest removed sequence; 0 if none was removed. */
  get removedUpTo(): number {
    return this.scan.first?.removedUpTo ?? 0;
  }

  get due(): DueMark | undefined {
    return this.#due ?? this.scan.first?.due;
  }

  /** Whether an open file is this log. Inode numbers are reused, so line one decides. */
  isOf(file: number): boolean {
    const beginning = Buffer.alloc(this.#beginning.length);
    readSync(file, beginning, 0, beginning.length, 0);
    return beginning.length > 0 && beginning.equals(this.#beginning);
  }

  take(bytes: Buffer, offset: number, line = parseLine(bytes)): void {
    // Copied, so that the large buffer around these bytes can be freed.
    if (offset === 0) this.#beginning = Buffer.from(bytes);
    for (const entry of this.scan.take(bytes, offset, line)) this.#note(entry);
    const { scan } = this;
    const from = this.segments.at(-1)?.offset ?? 0;
    if (scan.offset - from >= SEGMENT_BYTES && scan.isBetween) this.segments.push(scan.position);
  }

  /** Takes lines that this process has appended to the file. @param file - The file's stats after the append. */
  extend(lines: readonly RenderedLine[], file: Stats): void {
    for (const line of lines) {
      const bytes = line.bytes.subarray(0, -1);
      this.take(bytes, this.size, toLogLine(line, bytes));
      this.size += line.bytes.length;
    }
    this.#file = file;
  }

  /** Notes that the log was read to the end of this file. */
  noteRead(file: Stats): void {
    this.#file = file;
  }

  /**
   * Whether the file seems to be unchanged since the last read. Inode numbers are reused, so writers and readers of
   * lines also compare line one.
   */
  isUnchanged(file: Stats | undefined): boolean {
    const known = this.#file;
    if (known === undefined || file === undefined) return false;
    return known.ino === file.ino && known.size === file.size && known.mtimeMs === file.mtimeMs;
  }

  /** Returns the time when the task is due, given its newest checkpoint. */
  findDueTime(newest: CheckpointSummary | undefined): string | undefined {
    const own = newest && findDueTime(newest);
    const isEarlier = own !== undefined && this.due !== undefined && this.due.at < own;
    return isEarlier && this.due?.for === digestForDue(newest) ? this.due?.at : own;
  }

  #note({ line, sequence }: LogEntry): void {
    const header = line && joinHeader(line, this.taskId ?? "");
    if (line === undefined || header === undefined) return;
    this.count += 1;
    this.last = header;
    const { id, name, payload } = header;
    if (id !== undefined) {
      this.events.set(id, { sequence, payload, ...(name !== undefined && { name }) });
      this.lastEvent = sequence;
    }
    const { due } = line;
    if (due && !(this.due?.for === due.for && this.due.at <= due.at)) this.#due = due;
  }
}

/**
 * Returns the last sequence that the task has taken. If the numbering of its checkpoints is damaged, the newest
 * checkpoint's sequence is used.
 */
export function findLastTaken(index: LogIndex | undefined, task: LoadedTask | undefined): number {
  const inLog = index?.lastSequence ?? 0;
  try {
    return Math.max(inLog, task?.lastSequence ?? 0);
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return Math.max(inLog, task?.newestSequence ?? 0);
    throw error;
  }
}

/**
 * Returns a digest of the newest checkpoint and its status. A due time that a record has set holds until the digest
 * changes.
 */
export function digestForDue(newest: CheckpointSummary | undefined): string {
  const { sequence, id, status, error } = newest ?? {};
  return shortDigest(Buffer.from(JSON.stringify([sequence, id, status, error])));
}

/** Whether a batch was stored with this checkpoint. */
export function isCompanion({ with: companion }: PendingBatch, head: SealedSummary | undefined): boolean {
  return head !== undefined && head.id === companion.id && head.seal === companion.seal;
}

/** The logs that this process has read. */
const known = new Map<string, LogIndex>();

/**
 * Reads the part of a log that this process hasn't read yet.
 *
 * @returns `undefined` if there is no log.
 * @throws {UnreadableError} The log isn't a file. @throws {UnsupportedFormatError} A newer program wrote the log.
 */
export async function readIndex(path: string): Promise<LogIndex | undefined> {
  const current = known.get(path);
  if (current?.isUnchanged(readStats(path))) return current;
  for (;;) {
    const index = withLog(path, (file, stats) => readSlice(path, file, stats));
    if (index === undefined) known.delete(path);
    if (index === undefined || index.isComplete) return index;
    await setImmediate();
  }
}

/** Runs `use` with the open log; returns `undefined` if there is none. */
export function withLog<Result>(path: string, use: (file: number, stats: Stats) => Result): Result | undefined {
  const file = openToRead(path);
  if (file === undefined) return undefined;
  try {
    const stats = fstatSync(file);
    if (!stats.isFile()) throw new UnreadableError("it is not a file");
    return use(file, stats);
  } finally {
    closeSync(file);
  }
}

/** Continues to read, to the end of the file or for {@link SLICE_BYTES}. */
function readSlice(path: string, file: number, stats: Stats): LogIndex {
  const { size } = stats;
  let index = known.get(path);
  if (index === undefined || index.size > size || !index.isOf(file)) {
    index = new LogIndex(path);
    if (known.size >= MAX_LOGS) known.clear();
    known.set(path, index);
  }
  const start = index.scan.offset;
  index.isComplete = true;
  index.size = size;
  for (const { bytes, offset } of readLines(file, start, size)) {
    index.take(bytes, offset);
    if (offset - start < SLICE_BYTES) continue;
    index.isComplete = false;
    break;
  }
  if (index.isComplete) index.noteRead(stats);
  return index;
}

/** @throws {StorageError} The log belongs to another task. */
export function requireOwner(index: LogIndex | undefined, folder: string): void {
  if (index?.taskId !== undefined) assertOwner(index.taskId, folder, index.path);
}
