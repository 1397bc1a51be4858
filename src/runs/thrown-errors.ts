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
   * The failed steps to try again after the error `thrown` has ended the run: the steps whose errors it contains, then
   * those that failed since the function last began a step. The other errors stay recorded, because the function may
   * have acted on them.
   */
  toRetryAfter(thrown: unknown): ReadonlySet<Entry> {
    return new Set([...partsOf(thrown).flatMap((part) => this.#entries.get(part) ?? []), ...this.#last]);
  }
}

/** A thrown value, its causes, and the errors of an AggregateError. */
function partsOf(thrown: unknown, seen: Set<unknown> = new Set()): readonly unknown[] {
  if (seen.has(thrown)) return [];
  seen.add(thrown);
  // A cause may also be a list of errors.
  if (Array.isArray(thrown)) return thrown.flatMap((part: unknown) => partsOf(part, seen));
  if (!isError(thrown)) return [thrown];
  return [
    thrown,
    ...[thrown.cause, ...errorsIn(thrown)].flatMap((part) => (part === undefined ? [] : partsOf(part, seen))),
  ];
}
