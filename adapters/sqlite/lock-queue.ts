import { setTimeout as sleep } from "node:timers/promises";
import { isBusy } from "./errors.js";

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 20;

/** Calls again while another process has locked the database, without blocking this process. */
export class LockQueue {
  readonly #timeoutMs: number;
  #lastWrite: Promise<unknown> | undefined;
  #lastSuccessMs = Number.NEGATIVE_INFINITY;
  #idle: Promise<unknown> = Promise.resolve();

  /** @param timeoutMs - How long a call is tried again, since it was made, or since one before it has succeeded. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Calls `work` at once, or when all writes before it are done and the database is free. */
  async write<Result>(work: () => Result): Promise<Result> {
    try {
      if (this.#lastWrite === undefined) return work();
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
    const turn = this.#untilFree(work, this.#lastWrite);
    this.#lastWrite = turn;
    try {
      return await turn;
    } finally {
      if (this.#lastWrite === turn) this.#lastWrite = undefined;
    }
  }

  /** Calls `work` at once, or as soon as the database can be read. */
  async read<Result>(work: () => Result): Promise<Result> {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw error;
      return this.#untilFree(work);
    }
  }

  /** Resolves when none of the calls made so far waits any more. */
  get idle(): Promise<unknown> {
    return this.#idle;
  }

  #untilFree<Result>(work: () => Result, before?: Promise<unknown>): Promise<Result> {
    const calledMs = performance.now();
    const waitedMs = () => performance.now() - Math.max(calledMs, this.#lastSuccessMs);
    const result = Promise.allSettled([before])
      .then(() => untilFree(work, () => this.#timeoutMs - waitedMs()))
      .then((done) => {
        this.#lastSuccessMs = performance.now();
        return done;
      });
    this.#idle = Promise.allSettled([this.#idle, result]).then(() => undefined);
    return result;
  }
}

async function untilFree<Result>(work: () => Result, leftMs: () => number): Promise<Result> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return work();
    } catch (error) {
      const mostMs = leftMs();
      if (!isBusy(error) || mostMs <= 0) throw error;
      // At random times: processes that wait for each other would meet again and again.
      await sleep(Math.min(pauseMs * (0.5 + Math.random()), mostMs));
    }
  }
}
