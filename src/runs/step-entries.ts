import { Buffer } from "node:buffer";
import { encodeStep, type StepHead, type StoredStep } from "../codec/run-body.js";
import { errorsIn } from "../contract/built-ins.js";
import { isError } from "../contract/errors.js";

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
  readonly #entries = new Map<string, Entry>();
  #nextPlace = 0;
  /** Whether there may be {@link openWaits}. */
  hasWaits = false;
  /**
   * The joined texts of the steps. They are first made when a save needs them, because a resume may save nothing. Later
   * steps are appended.
   */
  #joined: { readonly text: string; readonly bytes: number } | undefined;

  constructor(steps: readonly StoredStep[]) {
    for (const step of steps) this.#set(step, false);
  }

  get size(): number {
    return this.#entries.size;
  }

  all(): readonly Entry[] {
    return [...this.#entries.values()];
  }

  /** The waits that the function has begun, and that haven't ended. */
  openWaits(): readonly StepHead[] {
    return this.all().flatMap(({ head, isUsed }) => (isUsed && isOpenWait(head) ? head : []));
  }

  find(key: Key): Entry | undefined {
    return this.#entries.get(keyOf(key));
  }

  /** Adds a step that the function called. It replaces the record of the step's start, if there is one. */
  add(step: StoredStep): Entry {
    // A step's place is where it ended, not where it started.
    if (this.#entries.delete(keyOf(step.head))) this.#joined = undefined;
    const { text: before, bytes } = this.joined();
    const text = encodeStep(step.head, step.value);
    this.#joined = { text: before === "" ? text : `${before},${text}`, bytes: bytes + Buffer.byteLength(text) + 1 };
    return this.#set(step, true);
  }

  forget(is: (entry: Entry) => boolean): void {
    for (const [key, entry] of this.#entries) if (is(entry)) this.#entries.delete(key);
    this.#joined = undefined;
  }

  /** The texts of the steps, joined by commas. */
  joined(): { readonly text: string; readonly bytes: number } {
    if (this.#joined !== undefined) return this.#joined;
    const text = this.all()
      .map(({ head, value }) => encodeStep(head, value))
      .join(",");
    this.#joined = { text, bytes: Buffer.byteLength(text) };
    return this.#joined;
  }

  /** Like {@link joined}, without results and errors. */
  joinedHeads(): string {
    return this.all()
      .map(({ head }) => encodeStep(head, undefined))
      .join(",");
  }

  #set(step: StoredStep, isUsed: boolean): Entry {
    const entry = { ...step, isUsed, place: this.#nextPlace };
    this.#nextPlace += 1;
    this.hasWaits ||= isOpenWait(step.head);
    this.#entries.set(keyOf(step.head), entry);
    return entry;
  }
}

function isOpenWait({ status, waitsFor }: StepHead): boolean {
  return status === "started" && waitsFor !== undefined;
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
