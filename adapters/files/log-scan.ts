import { readSync } from "node:fs";
import { UnreadableError } from "./file-io.js";
import { type Companion, type FirstLine, findSequence, type LogLine, parseFirstLine, parseLine } from "./log-line.js";
import { attempt } from "./record.js";

/** A line that counts, or a damaged line. */
export interface LogEntry {
  /** The line's offset in the file, in bytes. */
  readonly offset: number;
  /** The line without its line feed. */
  readonly bytes: Buffer;
  /** The line's sequence. If a damaged line's sequence can't be read, it is estimated. */
  readonly sequence: number;
  /** The parsed line; `undefined` if the line is damaged, or is line one. */
  readonly line?: LogLine;
  readonly damage?: string;
}

/** A batch that counts only if its checkpoint was stored. */
export interface PendingBatch {
  readonly with: Companion;
  readonly entries: readonly LogEntry[];
}

/** The state of a scan between two lines, from which another scan can begin. */
export interface ScanPosition {
  /** The log's id, from line one. */
  readonly log: string | undefined;
  /** The offset of the next line. */
  readonly offset: number;
  /** The highest sequence, including those of damaged lines. */
  readonly lastSequence: number;
  /** The last line that counts: its sequence, its `check`, and its end. */
  readonly last: { readonly sequence: number; readonly check: string; readonly end: number };
}

const START: ScanPosition = { log: undefined, offset: 0, lastSequence: 0, last: { sequence: 0, check: "", end: 0 } };

/**
 * Decides which lines of a log count. {@link LogScan.take} takes each line in order, and returns the lines that have
 * been decided: they count, or are damaged.
 *
 * - A batch counts once its last line is there. If the batch names a checkpoint, it counts once the `commit` line
 *   follows.
 * - Text that isn't a line is damage, unless the `follows` of the next call's line names the line before the text. Then
 *   the text never counted: a killed writer left it, or a power cut left NULs in place of unsynced data.
 * - An intact line at another offset than its `at` was written too late, after another writer took its place, and
 *   doesn't count. But if its sequence is above all earlier ones, it is damage: two files were merged, or line ends
 *   were changed.
 */
export class LogScan {
  first: FirstLine | undefined;
  /** The damage to line one. */
  firstDamage: string | undefined;
  /** Whether the writer of the last line that counts left it unsynced. */
  isLazy = false;
  #log: string | undefined;
  #offset: number;
  #lastSequence: number;
  #last: ScanPosition["last"];
  /** The lines so far of a batch whose last line is missing, and the number of the batch's next line. */
  #batch: { readonly entries: LogEntry[]; next: number } | undefined;
  #pending: PendingBatch | undefined;
  /** Whether a power cut destroyed lines after the last batch began, so that the rest of their batch doesn't count. */
  #isTorn = false;
  /** Texts that aren't lines, until the next line decides whether they are damage. */
  #broken: LogEntry[] = [];
  readonly #path: string;

  constructor(path: string, position: ScanPosition = START) {
    this.#path = path;
    this.#log = position.log;
    this.#offset = position.offset;
    this.#lastSequence = position.lastSequence;
    this.#last = position.last;
  }

  get position(): ScanPosition {
    return { log: this.#log, offset: this.#offset, lastSequence: this.#lastSequence, last: this.#last };
  }

  /** The offset of the next line. */
  get offset(): number {
    return this.#offset;
  }

  /** The highest sequence, including those of damaged lines. */
  get lastSequence(): number {
    return this.#lastSequence;
  }

  /** The batch at the end that counts only if its checkpoint was stored. */
  get pending(): PendingBatch | undefined {
    return this.#pending;
  }

  /** Whether the position is between two calls' lines, so that another scan can begin here. */
  get isBetween(): boolean {
    return this.#batch === undefined && this.#pending === undefined && this.#broken.length === 0 && !this.#isTorn;
  }

  /** @throws {UnsupportedFormatError} A newer program wrote the file. */
  take(bytes: Buffer, offset: number, line = parseLine(bytes)): readonly LogEntry[] {
    const end = offset + bytes.length + 1;
    this.#offset = end;
    if (offset === 0) return this.#takeFirst(bytes, end);
    const log = this.#log ?? line?.log;
    const last = this.#last;
    if (line === undefined || (line.at === offset && line.log === log && !line.isWhole)) {
      if (isLost(bytes)) [this.#batch, this.#isTorn] = [undefined, true];
      const next = (this.#broken.at(-1)?.sequence ?? this.#lastSequence) + 1;
      const sequence = line?.sequence ?? Math.max(next, findSequence(bytes) ?? 0);
      const damage = line ? "its value was cut short or changed" : NO_MATCH;
      this.#broken.push({ offset, bytes, sequence, damage });
      return [];
    }
    const entry = { offset, bytes, sequence: line.sequence, line };
    if (line.at !== offset || line.log !== log) {
      const first = line.sequence - line.of[0] + 1;
      if (first <= last.sequence || (line.follows === last.check && line.at >= last.end)) return [];
      const damage = "it isn't in its place in the file";
      return [...this.#finishBroken(), ...this.#put({ offset, bytes, sequence: line.sequence, damage })];
    }
    // If line one is damaged, take the log's id from this line: every line has it.
    this.#log = log;
    // This line is in a batch that lost a line. The line after the batch decides whether that is damage.
    if (this.#isTorn && line.of[0] > 1) return [];
    if (line.of[0] === 1 && line.follows === last.check) this.#broken = [];
    const damaged = this.#finishBroken();
    const counting = this.#takeCounting(entry, line, end);
    return damaged.length === 0 ? counting : [...damaged, ...counting];
  }

  /** Ends the scan. Returns the damage at the end. */
  finish(): readonly LogEntry[] {
    this.#broken = this.#broken.filter(({ bytes }) => !isLost(bytes));
    return this.#finishBroken();
  }

  #takeFirst(bytes: Buffer, end: number): readonly LogEntry[] {
    const first = attempt(() => parseFirstLine(bytes, this.#path));
    if (first instanceof UnreadableError) {
      this.firstDamage = first.message;
      return [{ offset: 0, bytes, sequence: 0, damage: first.message }];
    }
    this.first = first;
    this.#log = first.log;
    this.#last = { sequence: 0, check: first.check, end };
    const rest = bytes.subarray(first.size);
    // More than one byte is left (one would be a carriage return), so the line feed was damaged and the rest is the
    // next line.
    if (rest.length > 1) this.#broken.push({ offset: first.size, bytes: rest, sequence: 1, damage: NO_MATCH });
    return [];
  }

  #takeCounting(entry: LogEntry, line: LogLine, end: number): readonly LogEntry[] {
    const [number, count] = line.of;
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending && line.kind === "commit" && isSame(line.with, pending.with)) {
      this.#count([...pending.entries, entry], line, end);
      return pending.entries;
    }
    if (number === 1) this.#isTorn = false;
    if (this.#isTorn) return [];
    if (this.#batch?.next !== number) this.#batch = { entries: [], next: number };
    this.#batch.entries.push(entry);
    this.#batch.next += 1;
    if (number < count) return [];
    const { entries } = this.#batch;
    this.#batch = undefined;
    this.#count(line.with && line.kind !== "commit" ? [] : entries, line, end);
    if (line.kind === "barrier" || line.kind === "commit") return [];
    if (line.with === undefined) return entries;
    this.#pending = { with: line.with, entries };
    return [];
  }

  /** Notes that a call's lines are complete with this line. */
  #count(entries: readonly LogEntry[], { sequence, check, isLazy }: LogLine, end: number): void {
    this.isLazy = isLazy;
    for (const entry of entries) this.#lastSequence = Math.max(this.#lastSequence, entry.sequence);
    this.#last = { sequence: Math.max(this.#last.sequence, sequence), check, end };
  }

  #finishBroken(): readonly LogEntry[] {
    const broken = this.#broken;
    this.#broken = [];
    if (broken.length === 0) return [];
    // A commit line or a barrier follows a pending batch. If that line is damaged, it is assumed to be a commit, since
    // a barrier follows only a failed call.
    const pending = this.#pending?.entries ?? [];
    this.#pending = undefined;
    return [...pending, ...broken].flatMap((entry) => this.#put(entry));
  }

  /**
   * Returns a damaged entry. If its line is inside a batch, returns nothing until the batch is complete, and then the
   * whole batch.
   */
  #put(entry: LogEntry): readonly LogEntry[] {
    this.#lastSequence = Math.max(this.#lastSequence, entry.sequence);
    const batch = this.#batch;
    if (batch === undefined) return [entry];
    batch.entries.push(entry);
    batch.next += 1;
    const count = batch.entries.find(({ line }) => line)?.line?.of[1] ?? 0;
    if (batch.next <= count) return [];
    this.#batch = undefined;
    return batch.entries;
  }
}

const NO_MATCH = "it doesn't match its checksum";

/** Whether a power cut left NULs in place of the text. A single NUL counts as a changed byte. */
function isLost(bytes: Buffer): boolean {
  return bytes.includes("\0\0");
}

function isSame(a: Companion | undefined, b: Companion): boolean {
  return a?.id === b.id && a.seal === b.seal;
}

const CHUNK_BYTES = 256 * 1024;
const LINE_FEED = 0x0a;

/** Yields the complete lines of an open file between two offsets, without their line feeds. */
export function* readLines(
  file: number,
  from: number,
  to: number,
): Generator<{ readonly bytes: Buffer; readonly offset: number }, void, void> {
  let size = CHUNK_BYTES;
  for (let offset = from; offset < to; ) {
    const chunk = Buffer.allocUnsafe(Math.min(size, to - offset));
    const read = chunk.subarray(0, readSync(file, chunk, 0, chunk.length, offset));
    let start = 0;
    for (let end = read.indexOf(LINE_FEED); end !== -1; end = read.indexOf(LINE_FEED, start)) {
      yield { bytes: read.subarray(start, end), offset: offset + start };
      start = end + 1;
    }
    // A chunk without a line feed is a part of a longer line, which is incomplete if the file ends here.
    if (start === 0 && offset + read.length >= to) return;
    if (read.length === 0) return;
    size = start === 0 ? 4 * size : CHUNK_BYTES;
    offset += start;
  }
}
