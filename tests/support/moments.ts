import { type FSWatcher, watch } from "node:fs";

/**
 * Moments of another process's work that can be seen from outside: each time that a file is made, written, renamed or
 * removed in one of the folders. A kill at such a moment hits the work on any machine, fast or slow. Because moments
 * also come in the middle of a save, kills fall between a save's steps as well as between saves.
 */
export class Moments {
  readonly #watchers: readonly FSWatcher[];
  readonly #onMoment: (count: number) => void;
  #count = 0;

  /** @param onMoment - Gets the number of moments so far. */
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

/** The moment of that seed, out of `count`, by mulberry32. */
export function momentOf(seed: number, count: number): number {
  let a = (seed + 1) * 0x6d2b79f5;
  a = Math.imul(a ^ (a >>> 15), a | 1);
  a ^= a + Math.imul(a ^ (a >>> 7), a | 61);
  return 1 + Math.floor((((a ^ (a >>> 14)) >>> 0) / 2 ** 32) * count);
}
