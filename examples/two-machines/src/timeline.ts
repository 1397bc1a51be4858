import type { Machine } from "./worker-process.js";

const AT_WIDTH = 6;
const COLUMN_WIDTH = 36;

/** Prints each event with its time when it happens, in the column of its machine. */
export class Timeline {
  readonly #startedAtMs = performance.now();

  constructor() {
    console.log(`${"".padEnd(AT_WIDTH + 4)}${"machine A".padEnd(COLUMN_WIDTH)}machine B`);
  }

  add(machine: Machine, what: string): void {
    const at = ((performance.now() - this.#startedAtMs) / 1000).toFixed(1).padStart(AT_WIDTH);
    console.log(`${at} s  ${"".padEnd(machine === "A" ? 0 : COLUMN_WIDTH)}${what}`);
  }
}
