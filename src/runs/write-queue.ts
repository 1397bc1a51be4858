import { AsyncResource } from "node:async_hooks";

const NOW = Promise.resolve();

/** Makes writes one after another, in call order. The failure of one belongs to its own caller. */
export class WriteQueue {
  /** The writes that wait for the one under way. */
  readonly #waiting: (() => Promise<void>)[] = [];
  #isWriting = false;

  /** Calls `write` after the writes before it. Its callbacks take less than a chain of promises. */
  run<Result>(write: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const begin = () => write().then(resolve, reject);
      // The write before it begins it. Bound, so that it runs in its own caller's asynchronous context.
      this.#waiting.push(this.#isWriting ? AsyncResource.bind(begin) : begin);
      if (this.#isWriting) return;
      this.#isWriting = true;
      this.#beginSoon();
    });
  }

  /** Begins once all promises that are settled have called back: what they record at the same moment joins the write. */
  #beginSoon(): void {
    // A tick alone may come before the promises.
    void NOW.then(() => process.nextTick(() => this.#beginNext()));
  }

  #beginNext(): void {
    const begin = this.#waiting.shift();
    if (begin === undefined) this.#isWriting = false;
    else void begin().then(() => this.#beginSoon());
  }
}
