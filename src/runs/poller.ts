import { ANY_TASK, type RunStore } from "./run-store.js";

/** The longest pause. It is limited because timers stop while the machine sleeps. */
const MAX_QUIET_MS = 60_000;
/** The shortest pause, so that many changes in a row cost one poll. */
const FIRST_MS = 20;
/** The longest pause if the storage reports changes. It is limited because a change may be missed. */
const SLOW_MS = 2000;
/** The first and the longest pause if the storage doesn't report changes. */
const [FIRST_BLIND_MS, LAST_BLIND_MS] = [50, 500];
/**
 * With many pollers, each one pauses this many milliseconds per poller, so that together they poll once in that time.
 */
const [SLOW_SHARE_MS, BLIND_SHARE_MS] = [100, 5];
/** The multiples of the golden ratio, modulo 1, are spread evenly. */
const GOLDEN = 0.618034;
/**
 * A pause takes at least this many times as long as the poll before it: `BUSY_TIMES` if a change ends the pause, else
 * `IDLE_TIMES`.
 */
const [BUSY_TIMES, IDLE_TIMES] = [3, 10];

/**
 * Paces the polls for changes by other managers and processes. If the storage reports changes, a poll follows each
 * change. Even without a report, polls continue at intervals.
 */
export class Poller {
  readonly #store: RunStore;
  readonly #key: string;
  readonly #end: readonly (() => void)[];
  #begunMs = 0;
  #isWoken = false;
  #hasChanged = false;
  #isQuiet = false;
  /** A factor from 0.5 to 1.5, so that a thousand pollers that began together don't poll together. */
  readonly #spread: number;
  /** Whether the storage reports changes, including those by other processes. */
  #isTold: boolean;

  /** @param key - A task's id, or {@link ANY_TASK}: its changes and wakes end the pauses. */
  constructor(store: RunStore, key: string) {
    this.#store = store;
    this.#key = key;
    const stopListening = store.onWake(key, () => {
      this.#isWoken = true;
    });
    this.#isTold = !store.isMultiProcess && store.hasWatch;
    const stopWatching = store.watchChanges((isOwn) => this.#noteChange(isOwn), key === ANY_TASK ? undefined : key);
    this.#spread = 0.5 + ((store.pollers.size * GOLDEN) % 1);
    store.pollers.add(this);
    this.#end = [stopListening, stopWatching, () => store.pollers.delete(this)];
  }

  /** Call this before each poll. */
  begin(): void {
    this.#begunMs = this.#store.options.runtime.elapsedMs();
    this.#isWoken = false;
    this.#hasChanged = false;
  }

  /** Pauses for `ms` milliseconds, unless the key was woken since the poll began. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#isWoken) await this.#store.pause(this.#key, ms, signal);
  }

  /** Pauses for `ms` milliseconds, unless the key was woken or the storage has changed since the poll began. */
  async pauseUntilChange(ms: number, signal: AbortSignal): Promise<void> {
    await this.#pauseQuietly(Math.min(ms, MAX_QUIET_MS), signal);
  }

  /**
   * Pauses until the storage has probably changed.
   *
   * @param options - `idlePolls`: how many polls in a row have found nothing; `mostMs`: the longest pause.
   * @returns True if a change was reported or the key was woken; false if the pause just ended.
   */
  async pauseForChange(
    signal: AbortSignal,
    { idlePolls, mostMs = Number.POSITIVE_INFINITY }: { readonly idlePolls: number; readonly mostMs?: number },
  ): Promise<boolean> {
    const tookMs = this.#store.options.runtime.elapsedMs() - this.#begunMs;
    const slowMs = Math.min(mostMs, SLOW_MS);
    const leastMs = Math.min(slowMs, Math.max(FIRST_MS, BUSY_TIMES * tookMs));
    await this.pause(leastMs, signal);
    const longestMs = Math.max(this.#longestMs(idlePolls), Math.min(slowMs, IDLE_TIMES * tookMs));
    await this.#pauseQuietly(Math.min(mostMs, longestMs) - leastMs, signal);
    return this.#hasChanged || this.#isWoken;
  }

  end(): void {
    for (const end of this.#end) end();
  }

  #longestMs(idlePolls: number): number {
    const { isMultiProcess, pollers } = this.#store;
    if (!this.#isTold) {
      const lastMs = Math.max(LAST_BLIND_MS, BLIND_SHARE_MS * pollers.size);
      return Math.min(FIRST_BLIND_MS * 1.5 ** idlePolls, lastMs);
    }
    if (!isMultiProcess) return MAX_QUIET_MS;
    return Math.max(SLOW_MS, SLOW_SHARE_MS * pollers.size * this.#spread);
  }

  async #pauseQuietly(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#hasChanged || ms <= 0) return;
    this.#isQuiet = true;
    await this.pause(ms, signal);
    this.#isQuiet = false;
  }

  #noteChange(isOwn = false): void {
    if (!isOwn) this.#isTold = true;
    this.#hasChanged = true;
    if (this.#isQuiet) this.#store.wake(this.#key);
  }
}
