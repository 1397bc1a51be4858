import { setTimeout as sleep } from "node:timers/promises";
import { isBusy } from "./errors.js";

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 20;

/**
 * Makes calls again into a database that another process has locked, without blocking this one. Writes stay in call
 * order.
 */
export class LockQueue {
  readonly #timeoutMs: number;
  readonly #waiting = new Set<Promise<unknown>>();
  #lastWrite: Promise<unknown> | undefined;

  /** @param timeoutMs - How long after its call a work may be tried again. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Whether a write waits: the next ones then wait behind it. */
  get hasWrites(): boolean {
    return this.#lastWrite !== undefined;
  }

  /** Does the work, with a copy of its arguments, once all writes before it are done and the database is free. */
  async write<Args extends readonly unknown[], Result>(work: (...args: Args) => Result, args: Args): Promise<Result> {
    const deadline = performance.now() + this.#timeoutMs;
    // The caller may change what it has given as soon as it has its promise.
    const copies = structuredClone(args);
    const turn = Promise.resolve(this.#lastWrite).then(() => untilFree(() => work(...copies), deadline));
    const ended = settled(turn);
    this.#lastWrite = ended;
    try {
      return await this.#awaited(turn);
    } finally {
      if (this.#lastWrite === ended) this.#lastWrite = undefined;
    }
  }

  /** Does the work as soon as the database can be read. */
  async read<Result>(work: () => Result): Promise<Result> {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
    return this.#awaited(untilFree(work, performance.now() + this.#timeoutMs));
  }

  /** Resolves when nothing waits any more. */
  async idle(): Promise<void> {
    while (this.#waiting.size > 0) await Promise.allSettled(this.#waiting);
  }

  async #awaited<Result>(turn: Promise<Result>): Promise<Result> {
    this.#waiting.add(turn);
    try {
      return await turn;
    } finally {
      this.#waiting.delete(turn);
    }
  }
}

async function untilFree<Result>(work: () => Result, deadline: number): Promise<Result> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return work();
    } catch (error) {
      const leftMs = deadline - performance.now();
      if (!isBusy(error) || leftMs <= 0) throw error;
      // Not all at the same time: processes that wait for each other would meet again and again.
      await sleep(Math.min(pauseMs * (0.5 + Math.random()), leftMs));
    }
  }
}

/** When the promise has settled, however. */
function settled(promise: Promise<unknown>): Promise<void> {
  return promise.then(
    () => undefined,
    () => undefined,
  );
}
