import { readSync } from "node:fs";
import { UnreadableError } from "./file-io.js";
import { type Companion, type FirstLine, findSequence, type LogLine, parseFirstLine, parseLine } from "./log-line.js";
import { attempt } from "./record.js";

/** A line that counts, or a damaged one. */
export interface LogEntry {
  /** The line's offset in the file, in bytes. */
  readonly offset: number;
  /** The line without its line feed. */
  readonly bytes: Buffer;
  /** That of a damaged line is a guess if it can't be read. */
  readonly sequence: number;
  /** `undefined` if the line is damaged, or is line one. */
  readonly line?: LogLine;
  readonly damage?: string;
}

/** A batch that counts only if its checkpoint was stored. */
export interface PendingBatch {
  readonly with: Companion;
  readonly entries: readonly LogEntry[];
}

/** The state of a scan between two lines, where another scan can begin. */
export interface ScanPosition {
  /** The id of the file. */
  readonly log: string | undefined;
  /** The offset of the next line. */
  readonly offset: number;
  /** The highest sequence, also of damaged lines. */
  readonly lastSequence: number;
  /** The last line that counts: its sequence, its `check`, and its end. */
  readonly last: { readonly sequence: number; readonly check: string; readonly end: number };
}

const START: ScanPosition = { log: undefined, offset: 0, lastSequence: 0, last: { sequence: 0, check: "", end: 0 } };

/**
 * Decides which lines of a log count. {@link LogScan.take} gets each line in order, and returns the lines that now
 * count.
 *
 * - A batch counts with its last line. If the batch names a checkpoint, it counts with the `commit` line after it.
 * - Text that isn't a line is damage, unless the next call's line follows the line before it: then it never counted. It
 *   is the rest of a killed writer's line, or a power cut has left NULs in place of data that wasn't synced.
 * - An intact line in another place is that of a writer whose place was taken, unless its sequence is above all before
 *   it. Then it is damage: two files were merged, or line ends were changed.
 */
export class LogScan {
  first: FirstLine | undefined;
  /** The damage of line one. */
  firstDamage: string | undefined;
  /** Whether the last line that counts wasn't synced by its writer. */
  isLazy = false;
  #log: string | undefined;
  #offset: number;
  #lastSequence: number;
  #last: ScanPosition["last"];
  /** The lines of a batch without its last line, and the number of lines still missing. */
  #batch: { readonly entries: LogEntry[]; next: number } | undefined;
  #pending: PendingBatch | undefined;
  /** Whether a power cut has taken lines since the last batch began, so that the rest of their batch doesn't count. */
  #isTorn = false;
  /** Texts that aren't lines. The next line decides whether they are damage. */
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

  /** The highest sequence, also of damaged lines. */
  get lastSequence(): number {
    return this.#lastSequence;
  }

  /** The batch at the end whose checkpoint must be looked for. */
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
    // Line one is damaged. Every other line names the file, too.
    this.#log = log;
    // The rest of a batch with a lost line. The line after the batch decides whether that is damage.
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
    // Longer than the carriage return of a changed line end: the line feed was damaged, and this is the next line.
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

  /** Notes that a call's lines are complete: this is the last of them. */
  #count(entries: readonly LogEntry[], { sequence, check, isLazy }: LogLine, end: number): void {
    this.isLazy = isLazy;
    for (const entry of entries) this.#lastSequence = Math.max(this.#lastSequence, entry.sequence);
    this.#last = { sequence: Math.max(this.#last.sequence, sequence), check, end };
  }

  #finishBroken(): readonly LogEntry[] {
    const broken = this.#broken;
    this.#broken = [];
    if (broken.length === 0) return [];
    // A pending batch is followed by a commit line or a barrier. A damaged one is taken for a commit, since a barrier
    // follows only a failed call.
    const pending = this.#pending?.entries ?? [];
    this.#pending = undefined;
    return [...pending, ...broken].flatMap((entry) => this.#put(entry));
  }

  /** Returns an entry, or its whole batch if it stands for a damaged line in one. */
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

/** Whether a power cut has left NULs in place of the text. A single NUL is a changed byte. */
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
    // A line may be longer than the chunk. The rest of the file may be no whole line.
    if (start === 0 && offset + read.length >= to) return;
    if (read.length === 0) return;
    size = start === 0 ? 4 * size : CHUNK_BYTES;
    offset += start;
  }
}
