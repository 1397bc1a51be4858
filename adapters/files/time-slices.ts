import { setImmediate } from "node:timers/promises";

const SLICE_MS = 5;

/**
 * Lets a long run of synchronous calls pause, so that timers, sockets and other tasks get their turn. Synchronous
 * calls in slices read many small files several times faster than asynchronous ones.
 */
export class TimeSlices {
  #beganMs = performance.now();

  /** True every few milliseconds: then `await pause()`. */
  get due(): boolean {
    return performance.now() - this.#beganMs >= SLICE_MS;
  }

  async pause(): Promise<void> {
    await setImmediate();
    this.#beganMs = performance.now();
  }
}
