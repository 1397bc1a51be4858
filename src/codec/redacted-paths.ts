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

/** The stack without the message that it begins with. */
export function withoutMessage(stack: string | undefined, message: string, censor: string): string | undefined {
  return message === "" ? stack : stack?.replaceAll(message, () => censor);
}

/** Whether the steps match the pattern's beginning. */
function matches(pattern: PathPattern, steps: readonly PathStep[]): boolean {
  return steps.every((step, index) => {
    const name = nameOf(step);
    return name !== undefined && (pattern[index] === ANY_STEP || pattern[index] === name);
  });
}

/** `undefined` for steps that no path has: to a Map's key, or not taken yet. */
function nameOf(step: PathStep): string | undefined {
  if (typeof step === "object") return step.into === "keys" ? undefined : String(step.at);
  return typeof step === "string" || typeof step === "number" ? String(step) : undefined;
}
