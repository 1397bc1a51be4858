import { AsyncResource } from "node:async_hooks";

const NOW = Promise.resolve();

/** Runs writes one after another, in call order. If a write fails, only its own caller gets the error. */
export class WriteQueue {
  /** The writes that haven't begun. */
  readonly #waiting: (() => Promise<void>)[] = [];
  #isWriting = false;

  /** Calls `write` once all earlier writes have ended. Uses callbacks, which are faster than a chain of promises. */
  run<Result>(write: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const begin = () => write().then(resolve, reject);
      // The previous write begins this one. `bind` lets this one run in the asynchronous context of its own caller.
      this.#waiting.push(this.#isWriting ? AsyncResource.bind(begin) : begin);
      if (this.#isWriting) return;
      this.#isWriting = true;
      this.#beginSoon();
    });
  }

  /**
   * Begins the next write once the callbacks of all settled promises have run, so that their records join the write.
   */
  #beginSoon(): void {
    // nextTick() may run before the callbacks of promises, so a promise comes first.
    void NOW.then(() => process.nextTick(() => this.#beginNext()));
  }

  #beginNext(): void {
    const begin = this.#waiting.shift();
    if (begin === undefined) this.#isWriting = false;
    else void begin().then(() => this.#beginSoon());
  }
}
