import { errorsIn } from "../contract/built-ins.js";
import { isError } from "../contract/errors.js";
import { stepTitle } from "../contract/run-record.js";
import { nextTurn, type Runtime } from "../contract/runtime.js";
import type { RunWaits } from "../contract/transient.js";
import type { RunJournal } from "./journal.js";
import { findCallName } from "./nesting.js";
import type { RecordedStep, StepValue } from "./recorded-turn.js";
import type { RunEvents } from "./run-events.js";
import type { RunStore } from "./run-store.js";
import type { StepValues } from "./step-values.js";
import type { StopSignal } from "./stops.js";

/** The parts of an attempt that its turns, steps and waits use. */
export interface AttemptParts {
  readonly store: RunStore;
  readonly taskId: string;
  readonly journal: RunJournal;
  readonly values: StepValues;
  readonly events: RunEvents;
  readonly stop: StopSignal;
  /** Given if the run is suspended while it only waits. */
  readonly suspend: ((waits: RunWaits) => void) | undefined;
}

/** A step or a wait that the function has called. */
export interface NamedStep {
  readonly name: string;
  readonly occurrence: number;
  readonly title: string;
  readonly isWait: boolean;
  /** What an earlier attempt has recorded of it. */
  readonly recorded: { readonly step: RecordedStep; readonly value: StepValue } | undefined;
}

/** A failed step whose error the function received. */
interface FailedStep {
  readonly name: string;
  readonly occurrence: number;
  /** Of its record. */
  readonly sequence: number;
}

/** A call whose result is stored. */
interface StoredCall {
  /** Of its record. */
  readonly sequence: number;
  /** Resolves, or returns nothing, once the caller has the result. Never rejects. */
  proceed(): Promise<void> | void;
}

/**
 * The calls of a turn: their names, their errors, and the order in which they continue. Stored results are returned in
 * the order in which they were recorded, one in each turn of the event loop, in the attempt that records them and in each
 * resume. So `Promise.race` has the same winner. A call without a stored result begins after a turn that returned none:
 * otherwise a quick storage would let it overtake the others.
 */
export class TurnCalls {
  readonly #journal: RunJournal;
  readonly #stop: StopSignal;
  readonly #runtime: Runtime;
  /** For each name of a step and each stage of a save, how often it was used in this turn. */
  readonly #occurrences = new Map<string, number>();
  readonly #names = new Set<string>();
  /** The recorded errors that the function received. */
  readonly #thrown = new Map<unknown, FailedStep>();
  /** Those that it received since it last began a step or a wait. */
  #lastThrown: FailedStep[] = [];
  /** The call whose result was recorded first is the last one. */
  readonly #stored: StoredCall[] = [];
  #unrecorded: (() => void)[] = [];
  #isDelivering = false;
  /** Whether the methods of the run throw, since the turn is over. */
  isOver = false;
  /** The steps, waits and saves under way. */
  underWay = 0;
  /** The waits among them. */
  waitsUnderWay = 0;

  constructor({ store, journal, stop }: AttemptParts) {
    this.#journal = journal;
    this.#stop = stop;
    this.#runtime = store.options.runtime;
    // The results of an earlier attempt come first.
    if (journal.recorded?.size) this.#deliverSoon();
  }

  /**
   * Counts a step or a wait, and refuses it while another one with its name is under way. Resolves when it is its turn:
   * in the order of the stored results, or after them if it has none.
   *
   * @param what - The method of the run, for messages.
   */
  async begin(what: string, name: string): Promise<NamedStep> {
    this.#assertOpen(what);
    // A function that catches the reason and calls again would keep timers and signals from arriving.
    if (this.#stop.signal.aborted) await nextTurn(this.#runtime);
    this.#stop.signal.throwIfAborted();
    const isWait = what !== "run.step";
    if (this.#names.has(name)) {
      const advice =
        what === "run.waitFor"
          ? "Keep the promise of the open wait, or abort its `signal` and await it before the next one."
          : `Make their names differ: ${what}(\`${name} \${item.id}\`, …).`;
      throw new TypeError(
        `A ${isWait ? "wait" : "step"} named ${JSON.stringify(name)} is already under way in this turn, and a resume couldn't tell ` +
          `the two apart. ${advice}`,
      );
    }
    this.#names.add(name);
    this.waitsUnderWay += Number(isWait);
    this.#lastThrown = [];
    const occurrence = this.count(`step ${name}`);
    const step = this.#journal.recorded?.find({ name, occurrence });
    const title = stepTitle(name, occurrence);
    if (step !== undefined) {
      const value = await this.inOrder(step.sequence, () => this.#load(step));
      if (value !== undefined) return { name, occurrence, title, isWait, recorded: { step, value } };
    } else {
      // The calls that are made together with this one are registered first.
      await Promise.resolve();
      if (this.#isDelivering) await new Promise<void>((resolve) => this.#unrecorded.push(resolve));
    }
    return { name, occurrence, title, isWait, recorded: undefined };
  }

  /** Call it when the step or wait has ended. */
  end({ name, isWait }: NamedStep): void {
    this.#names.delete(name);
    this.waitsUnderWay -= Number(isWait);
  }

  /** How often the name was used in this turn, this time included. */
  count(name: string): number {
    const count = (this.#occurrences.get(name) ?? 0) + 1;
    this.#occurrences.set(name, count);
    return count;
  }

  /** From now on, the methods of the run throw. */
  close(): void {
    this.isOver = true;
  }

  /** @throws {TypeError} The turn is over, the call is made inside a step, or a step is under way. */
  assertNoStep(what: string): void {
    this.#assertOpen(what);
    if (this.underWay > this.waitsUnderWay) {
      const names = [...this.#names].map((name) => JSON.stringify(name)).join(", ");
      throw new TypeError(`${what} was called while a step is under way (${names}). Await it first.`);
    }
  }

  /**
   * Resolves when it is the turn of this result, which is stored.
   *
   * @param sequence - Of its record.
   * @param first - Called when it is its turn. This call, and later ones, continue after it.
   */
  inOrder(sequence: number): Promise<undefined>;
  inOrder<Result>(sequence: number, first: () => Promise<Result>): Promise<Result>;
  inOrder<Result>(sequence: number, first?: () => Promise<Result>): Promise<Result | undefined> {
    return new Promise((resolve, reject) => {
      const proceed = first === undefined ? () => resolve(undefined) : () => first().then(resolve, reject);
      let [from, to] = [0, this.#stored.length];
      while (from < to) {
        const middle = (from + to) >>> 1;
        if ((this.#stored[middle]?.sequence ?? 0) > sequence) from = middle + 1;
        else to = middle;
      }
      this.#stored.splice(from, 0, { sequence, proceed });
      this.#deliverSoon();
    });
  }

  /** Remembers a recorded error that the function receives, for {@link sortErrors}. Returns it. */
  addThrown({ name, occurrence }: NamedStep, error: unknown, sequence: number): unknown {
    const failed = { name, occurrence, sequence };
    this.#thrown.set(error, failed);
    this.#lastThrown.push(failed);
    return error;
  }

  /**
   * After the error `thrown` has ended the run, returns the failed steps whose errors it contains, and those that failed
   * since the function last began a step: the next run tries them again. The other errors stay recorded, because the
   * function may have acted on them.
   */
  sortErrors(thrown: unknown): { readonly dropped: readonly FailedStep[]; readonly kept: readonly FailedStep[] } {
    const ended = errorParts(thrown).flatMap((part) => this.#thrown.get(part) ?? []);
    const dropped = new Set([...ended, ...this.#lastThrown]);
    return { dropped: [...dropped], kept: [...this.#thrown.values()].filter((step) => !dropped.has(step)) };
  }

  /**
   * Loads a recorded result; `undefined` if it was dropped meanwhile. If that fails, the run is stopped, since its
   * function hasn't failed.
   */
  async #load(step: RecordedStep): Promise<StepValue | undefined> {
    const { recorded } = this.#journal;
    if (recorded?.find(step) !== step) return undefined;
    try {
      return await recorded.loadStep(step);
    } catch (error) {
      this.#stop.stop(error);
      throw error;
    }
  }

  #deliverSoon(): void {
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    this.#runtime.setImmediate(() => void this.#deliverNext());
  }

  async #deliverNext(): Promise<void> {
    const call = this.#stored.pop();
    await call?.proceed();
    this.#isDelivering = false;
    if (call !== undefined) this.#deliverSoon();
    else for (const begin of this.#unrecorded.splice(0)) begin();
  }

  /** @throws {TypeError} The turn is over, or the call was made inside one of its steps. */
  #assertOpen(what: string): void {
    if (this.isOver) {
      throw new TypeError(
        `${what} was called after its turn was over. Await every step, and return the value of run.next.`,
      );
    }
    const step = findCallName(this);
    if (step === undefined) return;
    throw new TypeError(
      `${what} was called inside step ${JSON.stringify(step)}: call it after the step, or start a separate run there ` +
        "with manager.run.",
    );
  }
}

/** A thrown value, its causes, and the errors of an AggregateError. */
function errorParts(thrown: unknown, seen: Set<unknown> = new Set()): readonly unknown[] {
  if (seen.has(thrown)) return [];
  seen.add(thrown);
  // A cause may also be a list of errors.
  if (Array.isArray(thrown)) return thrown.flatMap((part: unknown) => errorParts(part, seen));
  if (!isError(thrown)) return [thrown];
  const parts = [thrown.cause, ...errorsIn(thrown)].filter((part) => part !== undefined);
  return [thrown, ...parts.flatMap((part) => errorParts(part, seen))];
}
