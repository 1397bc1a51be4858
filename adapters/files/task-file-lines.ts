import { attempt, decodeText } from "./sealed-record.js";
import { UnreadableError } from "./stored-file.js";

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** A line that holds something, without the carriage return that Git puts there on Windows. */
export interface Line {
  /** Bytes where it isn't UTF-8. */
  readonly content: string | Buffer;
  /** From 1. */
  readonly number: number;
}

/** The lines that hold something, one at a time: a file may have as many as it has bytes. */
export function* linesOf(bytes: Buffer): Generator<Line, void, void> {
  const whole = attempt(() => decodeText(bytes));
  if (typeof whole === "string") {
    for (const { start, end, number } of spansOf(inText(whole))) yield { content: whole.slice(start, end), number };
    return;
  }
  for (const { start, end, number } of spansOf(inBytes(bytes))) {
    const line = bytes.subarray(start, end);
    const decoded = attempt(() => decodeText(line));
    yield { content: decoded instanceof UnreadableError ? line : decoded, number };
  }
}

/** How many lines hold something from `start` to `end`; `undefined` where there are more than `most`. */
export function countLines(bytes: Buffer, start: number, end: number, most: number): number | undefined {
  let count = 0;
  for (const _ of spansOf(inBytes(bytes.subarray(start, end)))) {
    count += 1;
    if (count > most) return undefined;
  }
  return count;
}

/** Text or bytes. */
interface Source {
  readonly length: number;
  readonly codeAt: (at: number) => number | undefined;
  /** -1 for none. */
  readonly lineFeedFrom: (at: number) => number;
}

function inText(text: string): Source {
  return { length: text.length, codeAt: (at) => text.charCodeAt(at), lineFeedFrom: (at) => text.indexOf("\n", at) };
}

function inBytes(bytes: Buffer): Source {
  return { length: bytes.length, codeAt: (at) => bytes[at], lineFeedFrom: (at) => bytes.indexOf(LINE_FEED, at) };
}

function* spansOf(source: Source) {
  const { length, codeAt, lineFeedFrom } = source;
  let number = 0;
  for (let start = 0; start < length; start++) {
    const first = codeAt(start);
    if (first === LINE_FEED || first === CARRIAGE_RETURN) {
      const empty = emptyLines(source, start);
      number += empty.count;
      start = empty.end;
      if (start >= length) return;
    }
    number += 1;
    const lineFeed = lineFeedFrom(start);
    const next = lineFeed === -1 ? length : lineFeed;
    const end = codeAt(next - 1) === CARRIAGE_RETURN ? next - 1 : next;
    if (end > start) yield { start, end, number };
    start = next;
  }
}

/** Those from `start` on, of which there may be millions: without a search for the end of each. */
function emptyLines({ codeAt }: Source, start: number): { readonly end: number; readonly count: number } {
  let [end, count] = [start, 0];
  for (;;) {
    const code = codeAt(end);
    if (code === LINE_FEED) end += 1;
    else if (code === CARRIAGE_RETURN && codeAt(end + 1) === LINE_FEED) end += 2;
    else return { end, count };
    count += 1;
  }
}
