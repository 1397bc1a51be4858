import { setTimeout as sleep } from "node:timers/promises";
import { copyRecord } from "../../src/contract/checkpoint.js";
import { isBusy } from "./errors.js";
import type { Append, Outcome } from "./writer.js";

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 20;
/**
 * The most appends of one transaction. Its payloads have at most about {@link MOST_BYTES}. Both limit the memory of
 * waiting appends.
 */
const MOST_APPENDS = 256;
const MOST_BYTES = 4 * 1024 * 1024;

/** The caller that waits for an append. */
interface Caller {
  readonly resolve: (sequence: number) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Puts an adapter's calls in order. Appends that are called in one turn of the event loop share a transaction, and so
 * one sync of the disk. While another process has locked the database, calls are tried again without blocking this
 * process.
 */
export class WriteQueue {
  readonly #timeoutMs: number;
  readonly #commit: (appends: readonly Append[]) => readonly Outcome[];
  #appends: Append[] = [];
  /** The caller of each append. Callers are kept apart from the drafts, so that stored drafts can be freed. */
  #callers: Caller[] = [];
  #bytes = 0;
  #lastWrite: Promise<unknown> | undefined;
  #lastSuccessMs = Number.NEGATIVE_INFINITY;
  #idle: Promise<unknown> = Promise.resolve();

  /**
   * @param timeoutMs - How long a call is tried again. The time counts from the call, or if it is later, from the last
   *   success of another call.
   * @param commit - Makes the appends in one transaction.
   */
  constructor(timeoutMs: number, commit: (appends: readonly Append[]) => readonly Outcome[]) {
    this.#timeoutMs = timeoutMs;
    this.#commit = commit;
  }

  /** Queues an append. It is made in the next microtask, with all others that are queued until then. */
  append({ draft, condition, options }: Append): Promise<number> {
    return new Promise((resolve, reject) => {
      // The arguments are copied, because the caller may change them as soon as it has its promise.
      this.#appends.push({ draft: copyRecord(draft), condition: { ...condition }, options: { ...options } });
      this.#callers.push({ resolve, reject });
      this.#bytes += draft.sizeBytes;
      if (this.#appends.length === MOST_APPENDS || this.#bytes >= MOST_BYTES) this.flush();
      else if (this.#appends.length === 1) queueMicrotask(() => this.flush());
    });
  }

  /** Calls `work` at once, or once all earlier calls are done and the database is free. */
  write<Result>(work: () => Result): Promise<Result> {
    this.flush();
    return this.#inTurn(work);
  }

  /** Calls `work` at once, or as soon as the database can be read. */
  async read<Result>(work: () => Result): Promise<Result> {
    this.flush();
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw error;
      return this.#untilFree(work);
    }
  }

  /** Starts the waiting appends, so that other calls come after them. */
  flush(): void {
    const [appends, callers] = [this.#appends, this.#callers];
    if (appends.length === 0) return;
    this.#appends = [];
    this.#callers = [];
    this.#bytes = 0;
    void settle(
      this.#inTurn(() => this.#commit(appends)),
      callers,
    );
  }

  /** Resolves once no call that was made so far is waiting. */
  get idle(): Promise<unknown> {
    return this.#idle;
  }

  async #inTurn<Result>(work: () => Result): Promise<Result> {
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

async function settle(made: Promise<readonly Outcome[]>, callers: readonly Caller[]): Promise<void> {
  try {
    for (const [index, outcome] of (await made).entries()) {
      if ("error" in outcome) callers[index]?.reject(outcome.error);
      else callers[index]?.resolve(outcome.sequence);
    }
  } catch (error) {
    for (const { reject } of callers) reject(error);
  }
}

async function untilFree<Result>(work: () => Result, leftMs: () => number): Promise<Result> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return work();
    } catch (error) {
      const mostMs = leftMs();
      if (!isBusy(error) || mostMs <= 0) throw error;
      // The pauses are random, so that waiting processes don't meet again and again.
      await sleep(Math.min(pauseMs * (0.5 + Math.random()), mostMs));
    }
  }
}
