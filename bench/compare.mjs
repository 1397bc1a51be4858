// @ts-check
import { performance } from "node:perf_hooks";

/**
 * Something to measure. Makes one call, and resolves when the call is done.
 *
 * @typedef {() => unknown} Contestant
 */

/**
 * Measures contestants in turns: each round calls every contestant once, in a new random order. This way, other work of
 * the machine or earlier work of the disk slows all contestants equally. (mitata measures one function after another,
 * and can't take turns.)
 *
 * @template {string} Name
 * @param {Record<Name, Contestant>} contestants
 * @param {{ rounds: number, warmup?: number }} options
 * @returns {Promise<Record<Name, number>>} The median of each, in milliseconds.
 */
export async function medians(contestants, { rounds, warmup = Math.ceil(rounds / 10) }) {
  const entries = /** @type {[Name, Contestant][]} */ (Object.entries(contestants));
  const samples = entries.map(() => /** @type {number[]} */ ([]));
  for (let round = -warmup; round < rounds; round++) {
    for (const index of shuffled(entries.length)) {
      const contestant = entries[index]?.[1] ?? (() => undefined);
      const start = performance.now();
      const result = contestant();
      // Awaits only promises, because a turn of the microtask queue would be charged to a synchronous contestant.
      if (result instanceof Promise) await result;
      const elapsed = performance.now() - start;
      if (round >= 0) samples[index]?.push(elapsed);
    }
  }
  return /** @type {Record<Name, number>} */ (
    Object.fromEntries(entries.map(([name], index) => [name, median(samples[index] ?? [])]))
  );
}

/** @param {readonly number[]} samples */
export function median(samples) {
  const sorted = samples.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? (sorted[middle] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

/** @param {number} count */
export function shuffled(count) {
  const order = Array.from({ length: count }, (_, index) => index);
  for (let last = count - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    [order[last], order[other]] = [order[other] ?? 0, order[last] ?? 0];
  }
  return order;
}
