import { isAbortSignal } from "./built-ins.js";
import { CHECKPOINT_STATUSES, type CheckpointStatus } from "./checkpoint.js";

/** The longest task id, in UTF-16 units. */
export const MAX_TASK_ID_LENGTH = 512;
/** The longest checkpoint id, stage or parent id. An id may contain a whole task id. */
export const MAX_ID_LENGTH = 1024;

/** @throws {TypeError | RangeError} Not a string, empty, too long, or not well-formed Unicode. */
export function checkTaskId(taskId: string): void {
  checkText("A taskId", taskId, 1, MAX_TASK_ID_LENGTH);
}

/** @throws {TypeError | RangeError} Not a string, empty, too long, or not well-formed Unicode. */
export function checkId(what: string, id: string): void {
  checkText(what, id, 1, MAX_ID_LENGTH);
}

/** @throws {TypeError | RangeError} Not a string, too short or long, or not well-formed Unicode. */
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

/** @throws {TypeError | RangeError} Given, and not a whole number from `min` to `max`. */
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
  if (value === undefined || typeof value === "boolean") return;
  throw new TypeError(`${what} must be true or false, not ${typeName(value)}.`);
}

export function checkFunction(what: string, value: unknown): void {
  if (value === undefined || typeof value === "function") return;
  throw new TypeError(`${what} must be a function, not ${typeName(value)}.`);
}

export function checkSignal(what: string, value: unknown): void {
  if (value === undefined || isAbortSignal(value)) return;
  throw new TypeError(`${what} must be an AbortSignal, not ${typeName(value)}.`);
}

export function checkStatus(status: CheckpointStatus): void {
  if (CHECKPOINT_STATUSES.includes(status)) return;
  throw new TypeError(`A status must be one of ${CHECKPOINT_STATUSES.join(", ")}, not ${JSON.stringify(status)}.`);
}

export function checkWord(what: string, word: string | undefined, words: readonly string[]): void {
  if (word === undefined || words.includes(word)) return;
  throw new TypeError(`${what} must be one of ${words.join(", ")}, not ${JSON.stringify(word)}.`);
}

function typeName(value: unknown): string {
  return value === null ? "null" : typeof value;
}
