import { setImmediate } from "node:timers";
import type { StepHead } from "../codec/run-body.js";
import type { RunJournal } from "./journal.js";
import type { Entry } from "./step-entries.js";

type Key = Pick<StepHead, "name" | "occurrence" | "status">;

/** A call whose result is recorded. */
interface Call {
  readonly key: Key;
  readonly entry: Entry;
  begins(): void;
}

/**
 * The order in which a pass's calls go on. Recorded results are given in the order in which they were recorded, one in
 * each turn of the event loop, so that `Promise.race` has the same winner as in the attempt that recorded them. Calls
 * without a recorded result begin after a turn that gave none, since a quick storage would let them overtake.
 */
export class Replay {
  readonly #journal: Pick<RunJournal, "find">;
  readonly #calls: Call[] = [];
  #isSorted = true;
  #unrecorded: (() => void)[] = [];
  #isUnderWay = false;

  constructor(journal: Pick<RunJournal, "find" | "entries">) {
    this.#journal = journal;
    if (journal.entries().length > 0) this.#turnSoon();
  }

  /** Resolves when the call goes on. Its record may have been forgotten meanwhile. */
  async turn(key: Key): Promise<void> {
    const entry = this.#journal.find(key);
    if (entry !== undefined && hasResult(entry)) {
      await new Promise<void>((resolve) => {
        this.#calls.push({ key, entry, begins: resolve });
        this.#isSorted = false;
        this.#turnSoon();
      });
    } else {
      // The calls that are made together with this one are registered first.
      await Promise.resolve();
      if (this.#isUnderWay) await new Promise<void>((resolve) => this.#unrecorded.push(resolve));
    }
  }

  #turnSoon(): void {
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#isUnderWay = false;
    for (let call = this.#takeFirst(); call !== undefined; call = this.#takeFirst()) {
      if (this.#journal.find(call.key) === call.entry) {
        call.begins();
        this.#turnSoon();
        return;
      }
      // Another step's input has changed, so this one runs again.
      this.#unrecorded.push(call.begins);
    }
    const begin = this.#unrecorded;
    this.#unrecorded = [];
    for (const begins of begin) begins();
  }

  /** Takes the call whose result was recorded first. */
  #takeFirst(): Call | undefined {
    if (!this.#isSorted) this.#calls.sort((a, b) => b.entry.place - a.entry.place);
    this.#isSorted = true;
    return this.#calls.pop();
  }
}

/** A wait that was under way has none. A step with `atMostOnce` that was interrupted has: its StepInterruptedError. */
function hasResult({ head }: Entry): boolean {
  return head.status !== "started" || head.waitsFor === undefined;
}
