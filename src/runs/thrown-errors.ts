import { errorsIn } from "../contract/built-ins.js";
import { isError } from "../contract/errors.js";
import type { Entry } from "./step-entries.js";

/** The errors of recorded steps that the run's function received. */
export class ThrownErrors {
  readonly #entries = new Map<unknown, Entry>();
  #last: Entry[] = [];

  add(error: unknown, entry: Entry): void {
    this.#entries.set(error, entry);
    this.#last.push(entry);
  }

  stepBegins(): void {
    this.#last = [];
  }

  /**
   * The failed steps to try again after the error `thrown` has ended the run: the first step whose error it contains,
   * and all steps that failed later. If it contains no step's error, the function threw an error of its own. Then they
   * are the steps that failed since the function last began a step. Steps with `atMostOnce` are never tried again.
   */
  toRetryAfter(thrown: unknown, entries: readonly Entry[]): ReadonlySet<Entry> {
    const parts = partsOf(thrown).flatMap((part) => this.#entries.get(part) ?? []);
    const fatal = new Set(parts.length === 0 ? this.#last : parts);
    const first = entries.findIndex((entry) => fatal.has(entry));
    const after = first === -1 ? [] : entries.slice(first);
    return new Set(after.filter(({ head }) => head.status === "failed" && !head.isOnce));
  }
}

/** A thrown value, its causes, and the errors of an AggregateError. */
function partsOf(thrown: unknown, seen: Set<unknown> = new Set()): readonly unknown[] {
  if (seen.has(thrown)) return [];
  seen.add(thrown);
  if (!isError(thrown)) return [thrown];
  return [
    thrown,
    ...[thrown.cause, ...errorsIn(thrown)].flatMap((part) => (part === undefined ? [] : partsOf(part, seen))),
  ];
}
