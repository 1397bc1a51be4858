import { setTimeout as sleep } from "node:timers/promises";
import { isBusy } from "./errors.js";

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 20;

/** Makes calls again into a database that another process has locked, without blocking this one. */
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
    // The caller may change what it has given as soon as it has its promise.
    const copies = structuredClone(args);
    const turn = this.#untilFree(() => work(...copies), this.#lastWrite);
    this.#lastWrite = turn;
    try {
      return await turn;
    } finally {
      if (this.#lastWrite === turn) this.#lastWrite = undefined;
    }
  }

  /** Does the work as soon as the database can be read. */
  read<Result>(work: () => Result): Promise<Result> {
    return this.#untilFree(work, undefined);
  }

  /** Resolves when nothing waits any more. */
  async idle(): Promise<void> {
    while (this.#waiting.size > 0) await Promise.allSettled(this.#waiting);
  }

  #untilFree<Result>(work: () => Result, before: Promise<unknown> | undefined): Promise<Result> {
    const result = untilFree(work, performance.now() + this.#timeoutMs, before);
    this.#waiting.add(result);
    const done = () => this.#waiting.delete(result);
    result.then(done, done);
    return result;
  }
}

async function untilFree<Result>(
  work: () => Result,
  deadline: number,
  before: Promise<unknown> | undefined,
): Promise<Result> {
  await Promise.allSettled([before]);
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
