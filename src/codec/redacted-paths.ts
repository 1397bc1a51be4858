import type { PathStep } from "./path.js";

/** A path to secrets, taken apart. {@link ANY_STEP} stands for `*`, since a property may have that name. */
export type PathPattern = readonly (string | typeof ANY_STEP)[];
export const ANY_STEP = Symbol("any");

/** Paths into one value, to what is never stored. */
export class RedactedPaths {
  readonly #patterns: readonly PathPattern[];
  /** The text that is stored instead. */
  readonly censor: string;

  constructor(patterns: readonly PathPattern[], censor: string) {
    this.#patterns = patterns;
    this.censor = censor;
  }

  /** Whether what these steps lead to is a secret. */
  covers(steps: readonly PathStep[]): boolean {
    return this.#patterns.some((pattern) => pattern.length === steps.length && matches(pattern, steps));
  }

  /** Whether an item of what these steps lead to is a secret. */
  coversItemsOf(steps: readonly PathStep[]): boolean {
    return this.#patterns.some((pattern) => pattern.length === steps.length + 1 && matches(pattern, steps));
  }
}

/**
 * The stack without the message (or the name) that it begins with. The lines that say where calls were made stay as they
 * are: a short message may be part of them.
 */
export function withoutMessage(stack: string | undefined, message: string, censor: string): string | undefined {
  if (message === "" || stack === undefined) return stack;
  // A message of several lines may have one that looks like a call, so it is replaced as a whole.
  if (message.includes("\n")) return stack.replaceAll(message, () => censor);
  const lines = stack.split("\n").map((line, at) => {
    if (at > 0 && /^\s+at /.test(line)) return line;
    const isHead = at === 0 && line.endsWith(`: ${message}`);
    return isHead ? line.slice(0, -message.length) + censor : line.replaceAll(message, () => censor);
  });
  return lines.join("\n");
}

/** Whether the steps match the pattern's beginning. */
function matches(pattern: PathPattern, steps: readonly PathStep[]): boolean {
  return steps.every((step, index) => {
    const name = textOfStep(step);
    return name !== undefined && (pattern[index] === ANY_STEP || pattern[index] === name);
  });
}

/** `undefined` for steps that no path has: to a Map's key, or not taken yet. */
function textOfStep(step: PathStep): string | undefined {
  if (typeof step === "object") return step.into === "keys" ? undefined : String(step.at);
  return typeof step === "string" || typeof step === "number" ? String(step) : undefined;
}
