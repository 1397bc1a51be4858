import { type StepHead, type StoredStep, textOfStep } from "../codec/run-body.js";
import { errorsIn } from "../contract/built-ins.js";
import { isError } from "../contract/errors.js";
import { bytesOfText } from "./step-values.js";

/** A recorded step of the turn. */
export interface Entry extends StoredStep {
  /** True if the function has called the step in this attempt. */
  isUsed: boolean;
  /** Grows with each record, so it tells which of two steps ended first. */
  readonly place: number;
}

type Key = Pick<StepHead, "name" | "occurrence" | "status">;

/** The recorded steps of a turn, ordered by when they ended, with their texts. */
export class StepEntries {
  readonly #entries: Map<string, Entry>;
  #nextPlace: number;
  /**
   * The joined texts of the steps. They are first made when a save needs them, because a resume may save nothing. Later
   * steps are appended.
   */
  #joined: { readonly text: string; readonly bytes: number } | undefined;

  constructor(steps: readonly StoredStep[]) {
    this.#entries = new Map(steps.map((step, place) => [keyOf(step.head), { ...step, isUsed: false, place }]));
    this.#nextPlace = steps.length;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#join().bytes;
  }

  get text(): string {
    return this.#join().text;
  }

  get textOfHeads(): string {
    return this.all()
      .map(({ head }) => textOfStep(head, undefined))
      .join(",");
  }

  all(): readonly Entry[] {
    return [...this.#entries.values()];
  }

  find(key: Key): Entry | undefined {
    return this.#entries.get(keyOf(key));
  }

  /** Adds a step that the function called. It replaces the record of the step's start, if there is one. */
  add(step: StoredStep): Entry {
    const entry = { ...step, isUsed: true, place: this.#nextPlace };
    this.#nextPlace += 1;
    const key = keyOf(step.head);
    // A step's place is where it ended, not where it started.
    if (this.#entries.delete(key)) this.#joined = undefined;
    const { text: before, bytes } = this.#join();
    const text = textOfStep(step.head, step.value);
    this.#entries.set(key, entry);
    this.#joined = { text: before === "" ? text : `${before},${text}`, bytes: bytes + bytesOfText(text) + 1 };
    return entry;
  }

  forget(is: (entry: Entry) => boolean): void {
    for (const [key, entry] of this.#entries) if (is(entry)) this.#entries.delete(key);
    this.#joined = undefined;
  }

  #join(): { readonly text: string; readonly bytes: number } {
    if (this.#joined !== undefined) return this.#joined;
    const text = this.all()
      .map(({ head, value }) => textOfStep(head, value))
      .join(",");
    this.#joined = { text, bytes: bytesOfText(text) };
    return this.#joined;
  }
}

function keyOf({ name, occurrence, status }: Key): string {
  return `${status === "saved" ? "save" : "step"} ${occurrence} ${name}`;
}

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
