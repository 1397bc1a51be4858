import { isAbortSignal } from "./built-ins.js";

/** The longest task id, in UTF-16 units. */
export const MAX_TASK_ID_LENGTH = 512;
/** The longest checkpoint id, stage or parent id. An id may contain a whole task id. */
const MAX_ID_LENGTH = 1024;

/** @throws {TypeError | RangeError} The id isn't a string, is empty or too long, or isn't well-formed Unicode. */
export function checkTaskId(taskId: string): void {
  checkText("A taskId", taskId, 1, MAX_TASK_ID_LENGTH);
}

/** @throws {TypeError | RangeError} The id isn't a string, is empty or too long, or isn't well-formed Unicode. */
export function checkId(what: string, id: string): void {
  checkText(what, id, 1, MAX_ID_LENGTH);
}

/** Storage URLs. `openStorage` also has these schemes. */
const STORAGE_URL = /^(files|tasks|sqlite|memory|postgres|postgresql):(.*)$/is;

/**
 * Refuses a storage URL where an adapter needs a path. As a path, it would name a folder such as `sqlite:.waymark`.
 *
 * @param what - The name of the option, for the message: `SqliteAdapterOptions.path`.
 * @throws {TypeError} The path is a storage URL.
 */
export function checkNoStorageUrl(what: string, path: string): void {
  const [, scheme = "", rest = ""] = STORAGE_URL.exec(path) ?? [];
  if (scheme === "") return;
  const isServer = /^postgres/i.test(scheme);
  // The message leaves out a server's URL, since it may contain a password.
  const call = `openStorage(${isServer ? "url" : JSON.stringify(path)}) from waymark/adapters`;
  throw new TypeError(
    isServer || rest === ""
      ? `${what} is a storage URL (${scheme}:…). Open it: ${call}. Nothing was opened.`
      : `${what} is a storage URL. Pass the path, ${JSON.stringify(rest)}, or open the URL: ${call}. Nothing was opened.`,
  );
}

/** @throws {TypeError | RangeError} The text isn't a string, is too short or too long, or isn't well-formed Unicode. */
export function checkText(what: string, text: string, minLength = 0, maxLength = Number.POSITIVE_INFINITY): void {
  if (typeof text !== "string") throw new TypeError(`${what} must be a string, not ${typeName(text)}.`);
  if (text.length < minLength) throw new RangeError(`${what} must not be empty.`);
  if (text.length > maxLength) {
    throw new RangeError(`${what} must have at most ${maxLength} UTF-16 units; this one has ${text.length}.`);
  }
  // A lone surrogate has no UTF-8 form: two different texts could become the same bytes on disk.
  if (!text.isWellFormed()) throw new RangeError(`${what} must be well-formed Unicode; it has a lone surrogate.`);
}

/** Node's longest timer delay, 24.8 days. A timer with a longer delay fires at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1;

/** @throws {TypeError | RangeError} The value is given, and isn't a whole number from `min` to `max`. */
export function checkInteger(what: string, value: number | undefined, min: number, max?: number): void {
  if (value === undefined) return;
  if (typeof value !== "number") {
    const unit = /Ms\b/.test(what) ? " of milliseconds, such as 3000" : "";
    throw new TypeError(`${what} must be a number${unit}, not ${typeName(value)}.`);
  }
  if (Number.isSafeInteger(value) && value >= min && value <= (max ?? value)) return;
  const upTo = max === undefined ? "" : ` to ${max}`;
  throw new RangeError(`${what} must be a whole number from ${min}${upTo}; it is ${value}.`);
}

export function checkBoolean(what: string, value: unknown): void {
  requireKind(what, value, typeof value === "boolean", "true or false");
}

export function checkFunction(what: string, value: unknown): void {
  requireKind(what, value, typeof value === "function", "a function");
}

export function checkSignal(what: string, value: unknown): void {
  requireKind(what, value, isAbortSignal(value), "an AbortSignal");
}

/** @throws {TypeError} The value is given, and isn't of the kind. */
function requireKind(what: string, value: unknown, isOfKind: boolean, kind: string): void {
  if (value !== undefined && !isOfKind) throw new TypeError(`${what} must be ${kind}, not ${typeName(value)}.`);
}

export function checkWord(what: string, word: string | undefined, words: readonly string[]): void {
  if (word === undefined || words.includes(word)) return;
  throw new TypeError(`${what} must be one of ${words.join(", ")}, not ${JSON.stringify(word)}.`);
}

/**
 * Returns the keys of a type, in the given order: `listKeys<SaveOptions>({ id: true, … })`. If a key is missing, the
 * call doesn't compile.
 */
export function listKeys<Type extends object>(keys: Readonly<Record<keyof Type, true>>): readonly (keyof Type)[] {
  // Object.keys returns plain strings.
  return Object.keys(keys) as (keyof Type)[];
}

/**
 * Refuses options that aren't an object or have an unknown key, so that a misspelled option isn't ignored.
 *
 * @param what - The name of the options, for the message: `SqliteAdapterOptions`.
 * @param form - The options that the caller probably means, for the message: `{ path: "x.db" }`.
 * @throws {TypeError} The options aren't an object, or have an unknown key, which the message names.
 */
export function checkKeys(what: string, options: unknown, known: readonly PropertyKey[], form?: string): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`${what} must be an object${form === undefined ? "" : `: ${form}`}.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new TypeError(`${what} has no "${unknown}". Known keys: ${known.join(", ")}.`);
}

/**
 * Returns an example of the options, such as `{ path: "x.db" }`, with the bare value that the caller passed, if any.
 */
export function formWith(key: string, given: unknown): string {
  const isValue = typeof given === "string" || typeof given === "number";
  return `{ ${key}: ${isValue ? JSON.stringify(given) : "…"} }`;
}

function typeName(value: unknown): string {
  return value === null ? "null" : typeof value;
}

/** The end of the year 9999. Later times have a longer ISO 8601 form, which doesn't sort by time. */
const MAX_TIME_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** Reads the manager's time, in milliseconds since 1970. @throws {RangeError} The time isn't before the year 10000. */
export function readClock(clock: () => number): number {
  const nowMs = clock();
  if (Math.abs(nowMs) <= MAX_TIME_MS) return nowMs;
  throw new RangeError(`The clock returned ${nowMs}, which is not a time before the year 10000.`);
}
