import { CommandError, ExitCode } from "./exit-code.js";
import type { PlainJson } from "./plain-json.js";

/** A step into a state: a key, or an index. A negative index counts from the end. */
export type PathStep = string | number;

/**
 * Parses a path such as `messages[3].role`. A leading `$`, as in errors of the SDK, is allowed. A key that is not a
 * plain word needs brackets and quotes: `files["a b.txt"]`.
 *
 * @throws {CommandError} The text isn't a path.
 */
export function parsePath(text: string): PathStep[] {
  const steps: PathStep[] = [];
  let rest = text.replace(/^\$(?=$|\.|\[)/, "");
  if (/^[^.[]/.test(rest)) rest = `.${rest}`;
  while (rest !== "") {
    const [all, key, index, quoted] = STEP.exec(rest) ?? [];
    if (all === undefined) throw noPath(text, rest);
    steps.push(key ?? (index === undefined ? unquoted(quoted ?? "", text) : Number(index)));
    rest = rest.slice(all.length);
  }
  return steps;
}

/** Returns the path as text that `parsePath` reads; empty for the state itself. */
export function formatPath(steps: readonly PathStep[]): string {
  return steps
    .map((step) => {
      if (typeof step === "number") return `[${step}]`;
      return WORD.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
    })
    .join("")
    .replace(/^\./, "");
}

/**
 * Returns the part of a state at the path.
 *
 * @throws {CommandError} Nothing is there. The message names the first missing part, and what is there instead.
 */
export function partAt(state: PlainJson, steps: readonly PathStep[]): PlainJson {
  let part = state;
  for (const [depth, step] of steps.entries()) {
    const next = child(part, step);
    if (next === undefined) throw nothingAt(steps, depth, part);
    part = next;
  }
  return part;
}

const STEP = /^(?:\.([^.[\]"\s]+)|\[(-?\d{1,15})\]|\[("(?:[^"\\]|\\.)*")\])/;
const WORD = /^[^.[\]"\s$]+$/;
const SHOWN_KEYS = 8;

function child(part: PlainJson, step: PathStep): PlainJson | undefined {
  if (Array.isArray(part)) return typeof step === "number" ? part.at(step) : undefined;
  if (typeof part !== "object" || part === null) return undefined;
  return Object.hasOwn(part, step) ? part[step] : undefined;
}

function nothingAt(steps: readonly PathStep[], depth: number, part: PlainJson): CommandError {
  const where = depth === 0 ? "The state" : formatPath(steps.slice(0, depth));
  return new CommandError(
    ExitCode.notFound,
    `The state has nothing at ${formatPath(steps.slice(0, depth + 1))}. ${where} is ${described(part)}.`,
  );
}

function described(part: PlainJson): string {
  if (Array.isArray(part)) return `an array of ${part.length}`;
  if (typeof part !== "object" || part === null) return part === null ? "null" : `a ${typeof part}`;
  const keys = Object.keys(part);
  const more = keys.length > SHOWN_KEYS ? `, and ${keys.length - SHOWN_KEYS} more` : "";
  return keys.length === 0 ? "an object without keys" : `an object with ${keys.slice(0, SHOWN_KEYS).join(", ")}${more}`;
}

function unquoted(quoted: string, text: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch {
    throw noPath(text, quoted);
  }
}

function noPath(text: string, rest: string): CommandError {
  return new CommandError(
    ExitCode.usage,
    `${JSON.stringify(text)} is not a path: ${JSON.stringify(rest)} can't be read. Write messages[3].role, or ["a key"] for any other key.`,
  );
}
