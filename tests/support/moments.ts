import { type FSWatcher, watch } from "node:fs";

/**
 * Moments of another process's work that can be seen from outside: each creation, write, rename or removal of a file in
 * one of the folders. A kill at such a moment hits the work on both fast and slow machines. Some moments are in the
 * middle of a save, so kills fall between the steps of a save as well as between saves.
 */
export class Moments {
  readonly #watchers: readonly FSWatcher[];
  readonly #onMoment: (count: number) => void;
  #count = 0;

  /** @param onMoment - Called with the number of moments so far. */
  constructor(folders: readonly string[], onMoment: (count: number) => void = () => {}) {
    this.#onMoment = onMoment;
    this.#watchers = folders.map((folder) => watch(folder, () => this.add()));
  }

  get count(): number {
    return this.#count;
  }

  /** Counts another kind of moment, such as a line of output. */
  add(): void {
    this.#count += 1;
    this.#onMoment(this.#count);
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.close();
  }
}

/** Chooses one of `count` moments by the seed, with mulberry32. */
export function momentOf(seed: number, count: number): number {
  let a = (seed + 1) * 0x6d2b79f5;
  a = Math.imul(a ^ (a >>> 15), a | 1);
  a ^= a + Math.imul(a ^ (a >>> 7), a | 61);
  return 1 + Math.floor((((a ^ (a >>> 14)) >>> 0) / 2 ** 32) * count);
}
