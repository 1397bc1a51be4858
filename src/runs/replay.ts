import { setImmediate } from "node:timers";
import type { Entry } from "./step-entries.js";

/** A call whose result is stored. */
interface Call {
  readonly place: number;
  /** Resolves, or returns nothing, once the caller has the result. Never rejects. */
  goesOn(): Promise<void> | void;
}

/**
 * The order in which a turn's calls go on. Stored results are given in the order in which they were recorded, one in
 * each turn of the event loop, in the attempt that records them and in each resume. So `Promise.race` has the same
 * winner. A call without a stored result begins after a turn that gave none: otherwise a quick storage would let it
 * overtake the others.
 */
export class Replay {
  /** The call whose result was recorded first is the last one. */
  readonly #calls: Call[] = [];
  #unrecorded: (() => void)[] = [];
  #isUnderWay = false;

  /** @param isResume - Whether results of an earlier attempt are stored. */
  constructor(isResume: boolean) {
    if (isResume) this.#turnSoon();
  }

  /**
   * Resolves when it is the turn of this result, which is stored.
   *
   * @param first - Called when it is its turn. This call, and later ones, go on after it.
   */
  inOrder({ place }: Entry, first?: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const goesOn = first === undefined ? resolve : () => first().then(resolve, reject);
      let [from, to] = [0, this.#calls.length];
      while (from < to) {
        const middle = (from + to) >>> 1;
        if ((this.#calls[middle]?.place ?? 0) > place) from = middle + 1;
        else to = middle;
      }
      this.#calls.splice(from, 0, { place, goesOn });
      this.#turnSoon();
    });
  }

  /** Resolves when the call goes on: in the order of the stored results, or after them if it has none. */
  async turn(entry: Entry | undefined): Promise<void> {
    if (entry !== undefined && hasResult(entry)) return this.inOrder(entry);
    // The calls that are made together with this one are registered first.
    await Promise.resolve();
    if (this.#isUnderWay) await new Promise<void>((resolve) => this.#unrecorded.push(resolve));
  }

  #turnSoon(): void {
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#isUnderWay = false;
    const call = this.#calls.pop();
    if (call !== undefined) {
      const going = call.goesOn();
      if (going === undefined) this.#turnSoon();
      else {
        this.#isUnderWay = true;
        void going.then(() => {
          this.#isUnderWay = false;
          this.#turnSoon();
        });
      }
      return;
    }
    const begin = this.#unrecorded;
    this.#unrecorded = [];
    for (const begins of begin) begins();
  }
}

/** A wait that was under way has none. A step with `atMostOnce` that was interrupted has: its StepInterruptedError. */
function hasResult({ head }: Entry): boolean {
  return head.status !== "started" || head.waitsFor === undefined;
}
