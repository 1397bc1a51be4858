/** Runs the calls of one key one after another, in call order. Calls with different keys run at the same time. */
export class Turns {
  /** For each key with calls under way, a promise that resolves when the last of them ends. */
  readonly #last = new Map<string, Promise<void>>();

  /** Runs `work` once all earlier calls with this key have succeeded or failed. */
  run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const running = this.#last.get(key)?.then(work) ?? work();
    const dequeue = (): void => {
      if (this.#last.get(key) === ended) this.#last.delete(key);
    };
    // The next call runs even if this one fails.
    const ended = running.then(dequeue, dequeue);
    this.#last.set(key, ended);
    return running;
  }
}
