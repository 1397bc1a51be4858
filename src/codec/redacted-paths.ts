import type { PathStep } from "./path.js";

/**
 * A parsed path to secrets. {@link ANY_STEP} stands for the wildcard `*`. It is a symbol, since a property may be named
 * `*`.
 */
export type PathPattern = readonly (string | typeof ANY_STEP)[];
export const ANY_STEP = Symbol("any");

/** Paths to the secrets in one value. */
export class RedactedPaths {
  readonly #patterns: readonly PathPattern[];
  /** The text that is stored instead. */
  readonly censor: string;

  constructor(patterns: readonly PathPattern[], censor: string) {
    this.#patterns = patterns;
    this.censor = censor;
  }

  /** Whether the value at the path is secret. @param levels - 1: whether something one level below it is. */
  covers(steps: readonly PathStep[], levels: 0 | 1 = 0): boolean {
    return this.#patterns.some((pattern) => pattern.length === steps.length + levels && matches(pattern, steps));
  }
}

/**
 * Replaces `message` (an error's message or name) in the stack by the censor. The lines with call sites stay as they
 * are, since they may contain a short message by chance.
 */
export function withoutMessage(stack: string | undefined, message: string, censor: string): string | undefined {
  if (message === "" || stack === undefined) return stack;
  // A line of a longer message may look like a call site. So a message of several lines is replaced everywhere.
  if (message.includes("\n")) return stack.replaceAll(message, () => censor);
  const lines = stack.split("\n").map((line, at) => {
    if (at > 0 && /^\s+at /.test(line)) return line;
    const isHead = at === 0 && line.endsWith(`: ${message}`);
    return isHead ? line.slice(0, -message.length) + censor : line.replaceAll(message, () => censor);
  });
  return lines.join("\n");
}

function matches(pattern: PathPattern, steps: readonly PathStep[]): boolean {
  return steps.every((step, index) => {
    const name = nameStep(step);
    return name !== undefined && (pattern[index] === ANY_STEP || pattern[index] === name);
  });
}

/**
 * The name of a step in patterns. `undefined` if no pattern can name it: a step to a Map's key, to a symbol, or not
 * taken yet.
 */
function nameStep(step: PathStep): string | undefined {
  if (typeof step === "object") return step.into === "keys" ? undefined : String(step.at);
  return typeof step === "string" || typeof step === "number" ? String(step) : undefined;
}
