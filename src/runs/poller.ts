import type { RunStore } from "./run-store.js";

/** The longest pause. A machine that sleeps stops the timers of its processes. */
const MAX_QUIET_MS = 60_000;
/** The pauses of {@link Poller.pauseForChange} if changes end it: at least, and at most by default. */
const [HINTED_MS, SLOW_MS] = [20, 2000];
/** The first pause if changes don't end it, and the last one. */
const [FIRST_BLIND_MS, LAST_BLIND_MS] = [50, 500];
/** Unless it is the longest one, such a pause takes at least so many times as long as the poll before it. */
const IDLE_TIMES = 10;

/** Polls for what other managers and processes store. If the storage notifies of each change, only after one. */
export class Poller {
  readonly #store: RunStore;
  readonly #key: string;
  readonly #stopListening: () => void;
  readonly #stopWatching: (() => void) | undefined;
  #begunMs = 0;
  #isWoken = false;
  #hasChanged = false;
  #isQuiet = false;

  /**
   * @param key - A task's id, or {@link ANY_TASK}: its wakes end the pauses.
   * @param options - `usesHints`: whether changes end pauses, too, if the storage doesn't notify of all of them.
   */
  constructor(store: RunStore, key: string, { usesHints = false }: { readonly usesHints?: boolean } = {}) {
    this.#store = store;
    this.#key = key;
    this.#stopListening = store.onWake(key, () => {
      this.#isWoken = true;
    });
    this.#stopWatching = store.watchChanges(() => this.#noteChange(), usesHints);
  }

  /** Whether changes end pauses. */
  get isNotified(): boolean {
    return this.#stopWatching !== undefined;
  }

  /** Call it before each poll. */
  begin(): void {
    this.#begunMs = this.#store.options.runtime.elapsedMs();
    this.#isWoken = false;
    this.#hasChanged = false;
  }

  /** Pauses for `ms` milliseconds, unless the key was woken since the poll began. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#isWoken) await this.#store.pause(this.#key, ms, signal);
  }

  /** The same, unless the storage has changed, too, or doesn't notify. */
  async pauseUntilChange(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.isNotified || this.#hasChanged || ms <= 0) return;
    this.#isQuiet = true;
    await this.pause(Math.min(ms, MAX_QUIET_MS), signal);
    this.#isQuiet = false;
  }

  /**
   * Pauses until the storage has probably changed.
   *
   * @param options - `idlePolls`: how many polls in a row have found nothing; `mostMs`: the longest pause, if other processes
   *   may change the storage unnoticed.
   */
  async pauseForChange(
    signal: AbortSignal,
    { idlePolls, mostMs = SLOW_MS }: { readonly idlePolls: number; readonly mostMs?: number },
  ): Promise<void> {
    const tookMs = this.#store.options.runtime.elapsedMs() - this.#begunMs;
    const blindMs = Math.min(FIRST_BLIND_MS * 1.5 ** idlePolls, LAST_BLIND_MS);
    const leastMs = Math.min(mostMs, Math.max(this.isNotified ? HINTED_MS : blindMs, IDLE_TIMES * tookMs));
    await this.pause(leastMs, signal);
    await this.pauseUntilChange(this.#store.isMultiProcess ? mostMs - leastMs : Number.POSITIVE_INFINITY, signal);
  }

  end(): void {
    this.#stopListening();
    this.#stopWatching?.();
  }

  #noteChange(): void {
    this.#hasChanged = true;
    if (this.#isQuiet) this.#store.wake(this.#key);
  }
}
