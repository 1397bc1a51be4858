import type { PathStep } from "./path.js";

/**
 * A parsed path to secrets. {@link ANY_STEP} stands for the wildcard `*`, and {@link ANY_DEPTH} for `**`: any number of
 * steps. They are symbols, since a property may be named `*`.
 */
export type PathPattern = readonly (string | typeof ANY_STEP | typeof ANY_DEPTH)[];
export const ANY_STEP = Symbol("any step");
export const ANY_DEPTH = Symbol("any depth");

/** Paths to the secrets in one value. */
export class RedactedPaths {
  readonly #patterns: readonly PathPattern[];
  /** The text that is stored in place of a secret. */
  readonly censor: string;

  constructor(patterns: readonly PathPattern[], censor: string) {
    this.#patterns = patterns;
    this.censor = censor;
  }

  /** Whether the value at the path is secret. */
  covers(steps: readonly PathStep[]): boolean {
    return this.#patterns.some((pattern) => matches(pattern, steps));
  }

  /** Whether any item of the Set at the path is secret. */
  coversItems(steps: readonly PathStep[]): boolean {
    return this.#patterns.some((pattern) => {
      const last = pattern.at(-1);
      const isItem = last === ANY_STEP || (typeof last === "string" && /^\d+$/.test(last));
      return isItem && matches(pattern.slice(0, -1), steps);
    });
  }
}

/** Returns what remains of a pattern after a first step to `name`. Empty if the pattern doesn't lead there. */
export function followPattern(pattern: PathPattern, name: string): readonly PathPattern[] {
  const [step, ...rest] = pattern;
  if (step === ANY_DEPTH) return [pattern, ...followPattern(rest, name)];
  return step === ANY_STEP || step === name ? [rest] : [];
}

/**
 * Replaces `message` (an error's message or name) in the stack with the censor. The lines with call sites stay as they
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

/** Compares from the end, because most steps differ there. */
function matches(pattern: PathPattern, steps: readonly PathStep[], at = pattern.length, end = steps.length): boolean {
  if (at === 0) return end === 0;
  const expected = pattern[at - 1];
  if (expected === ANY_DEPTH) {
    return matches(pattern, steps, at - 1, end) || (end > 0 && matches(pattern, steps, at, end - 1));
  }
  const name = end === 0 ? undefined : nameStep(steps[end - 1]);
  return name !== undefined && (expected === ANY_STEP || expected === name) && matches(pattern, steps, at - 1, end - 1);
}
/**
 * Returns the name of a step in patterns. `undefined` if no pattern can name the step: it leads to a Map's key or to a
 * symbol, or isn't taken yet.
 */
function nameStep(step: PathStep): string | undefined {
  if (typeof step === "object") return step.into === "keys" ? undefined : String(step.at);
  return typeof step === "string" || typeof step === "number" ? String(step) : undefined;
}
