import type { TaskQuery } from "../../src/contract/adapter.js";
import { compareTaskIds } from "../../src/contract/checkpoint.js";

/** Ids from `from` on and below `below`, in the order of their UTF-8 bytes. */
export interface TaskRange {
  readonly from: string;
  readonly below: string | Uint8Array;
}

/** To SQLite, every text is below every blob. */
const ABOVE_EVERY_TEXT: Uint8Array = Buffer.of(0);

/** The tasks that a query is about. */
export function rangeOf({ prefix = "", after }: Pick<TaskQuery, "prefix" | "after">): TaskRange {
  // The first text after an id is that id and the first character of all.
  const first = after === undefined ? "" : `${after}\0`;
  return { from: compareTaskIds(first, prefix) > 0 ? first : prefix, below: endOf(prefix) };
}

/** All strings that begin with the prefix are below it, and all others that come after them are not. */
function endOf(prefix: string): string | Uint8Array {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    // No character stands for a surrogate, nor for anything above U+10FFFF.
    if (last < 0x10ffff) return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
  }
  return ABOVE_EVERY_TEXT;
}
