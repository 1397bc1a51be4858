import { MAX_NESTING } from "./tag-format.js";

/**
 * The longest text that is parsed without being looked through first: it makes JSON.parse take some 45 MB and a tenth of a
 * second, whatever it holds. A longer one may take as much for each megabyte.
 */
const UNCHECKED_LENGTH = 1024 ** 2;
/** More than any file has around what is saved. How deep that may be to the level is held by whoever walks through it. */
const LEVELS_AROUND = 20;

/** What there is too much of in a text: levels of arrays and objects in each other, or values. */
export type JsonExcess = "levels" | "values";

/**
 * Why a text that anybody may have stored isn't given to JSON.parse, which takes time and memory for every bracket before
 * it comes to the one that is wrong; `undefined` where it may be. One pass, which ends where the excess begins.
 *
 * @param maxValues - For texts of which no program of ours writes more. Default: as many as the text has room for.
 */
export function excessOf(text: string, maxValues = Number.POSITIVE_INFINITY): JsonExcess | undefined {
  return text.length <= UNCHECKED_LENGTH ? undefined : scan(text, maxValues).excess;
}

/** How many values there are in a JSON text, a few more rather than less: its opening brackets and its commas. */
export function countValues(text: string): number {
  return scan(text, Number.POSITIVE_INFINITY).values;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
/** Brackets and braces differ in this bit alone. */
const BRACE_BIT = 0x20;
const OPENING = 0x7b;
const CLOSING = 0x7d;

function scan(text: string, maxValues: number): { readonly values: number; readonly excess: JsonExcess | undefined } {
  let [levels, values] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfText(text, at);
    else if (code === COMMA) values += 1;
    else if ((code | BRACE_BIT) === CLOSING) levels -= 1;
    else if ((code | BRACE_BIT) === OPENING) {
      levels += 1;
      values += 1;
      if (levels > MAX_NESTING + LEVELS_AROUND) return { values, excess: "levels" };
    }
    if (values > maxValues) return { values, excess: "values" };
  }
  return { values, excess: undefined };
}

/** Where the text that begins at a quote ends. */
function endOfText(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) return at;
  }
  return text.length;
}
