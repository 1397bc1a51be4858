import { types } from "node:util";
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
  /** Suspends a run that only waits. Given if a worker runs the task. */
  readonly suspend: ((waits: RunWaits) => void) | undefined;
}

/** A step or a wait that the function has called. */
export interface NamedStep {
  readonly name: string;
  readonly occurrence: number;
  readonly title: string;
  readonly isWait: boolean;
  /** The record of the call from an earlier attempt. */
  readonly recorded: { readonly step: RecordedStep; readonly value: StepValue } | undefined;
}

/** A failed step whose error the function received. */
interface FailedStep {
  readonly name: string;
  readonly occurrence: number;
  /** The sequence of the step's record. */
  readonly sequence: number;
  /** Whether the step is recorded as interrupted. Such a step isn't tried again by the next run. */
  readonly isInterrupted: boolean;
}

/** A call whose result is stored. */
interface StoredCall {
  /** The sequence of the record with the result. */
  readonly sequence: number;
  /** Passes the result to the caller. Returns a promise if that takes time. The promise never rejects. */
  proceed(): Promise<void> | void;
}

/**
 * Tracks the calls of a turn: their names, their errors, and the order in which they continue. Stored results are
 * returned in the order in which they were recorded, one per turn of the event loop. This holds in the attempt that
 * records them and in each resume, so `Promise.race` has the same winner. A call without a stored result begins only
 * after a turn of the event loop that returned no stored result, so that it can't overtake the other calls if the
 * storage is quick.
 */
export class TurnCalls {
  readonly #journal: RunJournal;
  readonly #stop: StopSignal;
  readonly #runtime: Runtime;
  /** How many times this turn has used each name of a step or wait, and each stage of a save. */
  readonly #occurrences = { step: new Map<string, number>(), save: new Map<string, number>() };
  readonly #names = new Set<string>();
  /** The recorded errors that the function received. */
  readonly #thrown = new Map<unknown, FailedStep>();
  /** The errors that the function received since it last began a step or a wait. */
  #lastThrown: FailedStep[] = [];
  /** Sorted by sequence, the highest first. */
  readonly #stored: StoredCall[] = [];
  #unrecorded: (() => void)[] = [];
  #isDelivering = false;
  /** Whether the turn is over, so that the methods of the run throw. */
  isOver = false;
  /** The steps, waits and saves under way. */
  underWay = 0;
  /** The waits under way. */
  waitsUnderWay = 0;

  constructor({ store, journal, stop }: AttemptParts) {
    this.#journal = journal;
    this.#stop = stop;
    this.#runtime = store.options.runtime;
    // The results of an earlier attempt come first.
    if (journal.recorded?.size) this.#deliverSoon();
  }

  /**
   * Counts a step or a wait, and refuses it while another call with the same name is under way. Resolves in the order
   * of the stored results or, if the call has no stored result, after all of them.
   *
   * @param what - The method of the run, for messages.
   */
  begin(what: string, name: string): Promise<NamedStep> {
    this.#assertOpen(what);
    if (this.#stop.signal.aborted) return this.#refuse(this.#stop.signal.reason);
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
    const occurrence = this.count("step", name);
    const step = this.#journal.recorded?.find({ name, occurrence });
    const call = { name, occurrence, title: stepTitle(name, occurrence), isWait, recorded: undefined };
    return step === undefined ? this.#afterStored(call) : this.inOrder(step.sequence, () => this.#load(call, step));
  }

  /** Call this when the step or wait has ended. */
  end({ name, isWait }: NamedStep): void {
    this.#names.delete(name);
    this.waitsUnderWay -= Number(isWait);
  }

  /** Returns how many times this turn has used the name, including this time. */
  count(of: "step" | "save", name: string): number {
    const counts = this.#occurrences[of];
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count;
  }

  /** Ends the turn. Afterwards the methods of the run throw. */
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
   * Resolves when this stored result is next in the order of results.
   *
   * @param sequence - The sequence of the result's record.
   * @param first - Called when the result is next. This call and later calls continue after `first` has ended.
   */
  inOrder(sequence: number): Promise<undefined>;
  inOrder<Result>(sequence: number, first: () => Result | Promise<Result>): Promise<Result>;
  inOrder<Result>(sequence: number, first?: () => Result | Promise<Result>): Promise<Result | undefined> {
    return new Promise((resolve, reject) => {
      const proceed = (): Promise<void> | void => {
        try {
          const result = first?.();
          if (types.isPromise(result)) return result.then(resolve, reject);
          resolve(result);
        } catch (error) {
          reject(error);
        }
      };
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

  /** Remembers a recorded error that the function receives, for {@link sortErrors}. Returns the error. */
  addThrown({ name, occurrence }: NamedStep, error: unknown, sequence: number, isInterrupted = false): unknown {
    const failed = { name, occurrence, sequence, isInterrupted };
    this.#thrown.set(error, failed);
    this.#lastThrown.push(failed);
    return error;
  }

  /**
   * Sorts the failed steps after the error `thrown` has ended the run. Dropped are the steps whose errors `thrown`
   * contains, and the steps that failed since the function last began a step or a wait: the next run tries these steps
   * again. The errors of the other steps are kept, because the function may have acted on them.
   */
  sortErrors(thrown: unknown): { readonly dropped: readonly FailedStep[]; readonly kept: readonly FailedStep[] } {
    const ended = errorParts(thrown).flatMap((part) => this.#thrown.get(part) ?? []);
    const dropped = new Set([...ended, ...this.#lastThrown]);
    const kept = [...this.#thrown.values()].filter((step) => !dropped.has(step) && !step.isInterrupted);
    return { dropped: [...dropped], kept };
  }

  /**
   * Rejects in a later turn of the event loop. Otherwise a function that catches the reason and calls again would keep
   * timers and signals from arriving.
   */
  async #refuse(reason: unknown): Promise<never> {
    await nextTurn(this.#runtime);
    throw reason;
  }

  /** Resolves after the stored results have been returned. */
  #afterStored(call: NamedStep): Promise<NamedStep> {
    const wait = () => new Promise<NamedStep>((resolve) => this.#unrecorded.push(() => resolve(call)));
    if (this.#isDelivering) return wait();
    // The other calls that are made in the same tick are registered first.
    return Promise.resolve().then(() => (this.#isDelivering ? wait() : call));
  }

  /**
   * Adds the recorded result to a call, unless the result was dropped meanwhile. If the result can't be loaded, stops
   * the run, since its function hasn't failed.
   */
  #load(call: NamedStep, step: RecordedStep): NamedStep | Promise<NamedStep> {
    const { recorded } = this.#journal;
    if (recorded?.find(step) !== step) return call;
    const stop = (error: unknown): never => {
      this.#stop.stop(error);
      throw error;
    };
    const join = (value: StepValue): NamedStep => ({ ...call, recorded: { step, value } });
    try {
      const value = recorded.loadStep(step);
      return types.isPromise(value) ? value.then(join, stop) : join(value);
    } catch (error) {
      return stop(error);
    }
  }

  #deliverSoon(): void {
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    this.#runtime.setImmediate(() => this.#deliverNext());
  }

  #deliverNext(): void {
    const call = this.#stored.pop();
    const end = (): void => {
      this.#isDelivering = false;
      if (call !== undefined) this.#deliverSoon();
      else for (const begin of this.#unrecorded.splice(0)) begin();
    };
    const proceeding = call?.proceed();
    if (proceeding === undefined) end();
    else void proceeding.then(end);
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

/** Lists a thrown value, its causes, and the errors of an AggregateError. */
function errorParts(thrown: unknown, seen: Set<unknown> = new Set()): readonly unknown[] {
  if (seen.has(thrown)) return [];
  seen.add(thrown);
  // A cause may also be a list of errors.
  if (Array.isArray(thrown)) return thrown.flatMap((part: unknown) => errorParts(part, seen));
  if (!isError(thrown)) return [thrown];
  const parts = [thrown.cause, ...errorsIn(thrown)].filter((part) => part !== undefined);
  return [thrown, ...parts.flatMap((part) => errorParts(part, seen))];
}
