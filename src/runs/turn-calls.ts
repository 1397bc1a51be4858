import { setImmediate } from "node:timers";
import { stepTitle } from "../contract/run-record.js";
import { enclosing } from "./nesting.js";
import type { Entry, StepEntries } from "./step-entries.js";

/** A step or a wait that the function has called. */
export interface NamedStep {
  readonly name: string;
  readonly occurrence: number;
  readonly title: string;
  /** Resolves when the call continues: in the order of the stored results, or after them if it has none. */
  readonly turn: Promise<void>;
}

/** A call whose result is stored. */
interface StoredCall {
  readonly place: number;
  /** Resolves, or returns nothing, once the caller has the result. Never rejects. */
  proceed(): Promise<void> | void;
}

/**
 * The calls of a turn: their names, and the order in which they continue. Stored results are returned in the order in
 * which they were recorded, one in each turn of the event loop, in the attempt that records them and in each resume. So
 * `Promise.race` has the same winner. A call without a stored result begins after a turn that returned none: otherwise a
 * quick storage would let it overtake the others.
 */
export class TurnCalls {
  readonly #steps: StepEntries;
  readonly #signal: AbortSignal;
  /** For each name of a step and each stage of a save, how often it was used in this turn. */
  readonly #occurrences = new Map<string, number>();
  readonly #names = new Set<string>();
  /** The call whose result was recorded first is the last one. */
  readonly #stored: StoredCall[] = [];
  #unrecorded: (() => void)[] = [];
  #isTurning = false;
  #isOver = false;
  /** The steps, waits and saves under way. */
  underWay = 0;
  /** The waits among them. */
  waitsUnderWay = 0;

  constructor(steps: StepEntries, signal: AbortSignal) {
    this.#steps = steps;
    this.#signal = signal;
    // The results of an earlier attempt come first.
    if (steps.size > 0) this.#turnSoon();
  }

  /**
   * Counts a step or a wait, and refuses it while another one with its name is under way.
   *
   * @param what - The method of the run, for messages.
   */
  begin(what: string, name: string): NamedStep {
    this.#assertOpen(what);
    this.#signal.throwIfAborted();
    if (this.#names.has(name)) {
      throw new TypeError(
        `A step named ${JSON.stringify(name)} is already under way in this turn, and a resume couldn't tell the two apart. Make their ` +
          `names differ: ${what}(\`${name} \${item.id}\`, …).`,
      );
    }
    this.#names.add(name);
    const occurrence = this.count(`step ${name}`);
    const turn = this.#turnOf(this.#steps.find({ name, occurrence, status: "completed" }));
    return { name, occurrence, title: stepTitle(name, occurrence), turn };
  }

  /** Call it when the step or wait has ended. */
  end({ name }: NamedStep): void {
    this.#names.delete(name);
  }

  /** How often the name was used in this turn, this time included. */
  count(name: string): number {
    const count = (this.#occurrences.get(name) ?? 0) + 1;
    this.#occurrences.set(name, count);
    return count;
  }

  /** From now on, the methods of the run throw. */
  close(): void {
    this.#isOver = true;
  }

  /** @throws {TypeError} The turn is over, the call is made within a step, or a step is under way. */
  assertAlone(what: string): void {
    this.#assertOpen(what);
    if (this.underWay > this.waitsUnderWay) {
      const names = [...this.#names].map((name) => JSON.stringify(name)).join(", ");
      throw new TypeError(`${what} was called while a step is under way (${names}). Await it first.`);
    }
  }

  /**
   * Resolves when it is the turn of this result, which is stored.
   *
   * @param first - Called when it is its turn. This call, and later ones, continue after it.
   */
  inOrder({ place }: Entry, first?: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const proceed = first === undefined ? resolve : () => first().then(resolve, reject);
      let [from, to] = [0, this.#stored.length];
      while (from < to) {
        const middle = (from + to) >>> 1;
        if ((this.#stored[middle]?.place ?? 0) > place) from = middle + 1;
        else to = middle;
      }
      this.#stored.splice(from, 0, { place, proceed });
      this.#turnSoon();
    });
  }

  async #turnOf(entry: Entry | undefined): Promise<void> {
    if (entry !== undefined && hasResult(entry)) return this.inOrder(entry);
    // The calls that are made together with this one are registered first.
    await Promise.resolve();
    if (this.#isTurning) await new Promise<void>((resolve) => this.#unrecorded.push(resolve));
  }

  #turnSoon(): void {
    if (this.#isTurning) return;
    this.#isTurning = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    const call = this.#stored.pop();
    const proceeding = call?.proceed();
    const ended = (): void => {
      this.#isTurning = false;
      if (call !== undefined) this.#turnSoon();
    };
    if (proceeding !== undefined) void proceeding.then(ended);
    else ended();
    if (call !== undefined) return;
    const begin = this.#unrecorded;
    this.#unrecorded = [];
    for (const begins of begin) begins();
  }

  /** @throws {TypeError} The turn is over, or the call was made within one of its steps. */
  #assertOpen(what: string): void {
    if (this.#isOver) {
      throw new TypeError(
        `${what} was called after its turn was over. Await every step, and return the value of run.next.`,
      );
    }
    const step = enclosing(this);
    if (step === undefined) return;
    throw new TypeError(
      `${what} was called inside step ${JSON.stringify(step)}: call it after the step, or start a separate run there ` +
        "with manager.run.",
    );
  }
}

/** A wait that was under way has none. A step with `atMostOnce` that was interrupted has: its StepInterruptedError. */
function hasResult({ head }: Entry): boolean {
  return head.status !== "started" || head.waitsFor === undefined;
}
