// @ts-check
import { performance } from "node:perf_hooks";
import { median, shuffled } from "../compare.mjs";
import { messages } from "../text.mjs";

export const TURNS = 1000;
const MESSAGE_BYTES = 500;
/** So many turns make a point of the plot, by their median. */
const WINDOW = 25;

/**
 * How a history grew: after so many turns, what it takes on the disk, and what a save took lately.
 *
 * @typedef {object} Point
 * @property {number} turn
 * @property {number} bytes
 * @property {number} saveMs
 */

/**
 * Every store saves the same growing state, one turn after the other, each turn in another order.
 *
 * @param {ReadonlyMap<string, import("./peer.mjs").Store>} stores
 * @returns {Promise<Map<string, Point[]>>}
 */
export async function growHistories(stores) {
  const growing = [...stores].filter(([, store]) => store.saveTurn);
  const histories = new Map(growing.map(([name]) => [name, /** @type {Point[]} */ ([])]));
  const samples = growing.map(() => /** @type {number[]} */ ([]));
  const text = messages(MESSAGE_BYTES);
  /** @type {string[]} */
  const said = [];
  for (let turn = 1; turn <= TURNS; turn++) {
    said.push(text.next().value);
    for (const index of shuffled(growing.length)) {
      const start = performance.now();
      await growing[index]?.[1].saveTurn?.({ messages: said }, turn);
      samples[index]?.push(performance.now() - start);
    }
    if (turn % WINDOW !== 0) continue;
    for (const [index, [name, store]] of growing.entries()) {
      const saveMs = median(samples[index]?.splice(0) ?? []);
      histories.get(name)?.push({ turn, saveMs, bytes: (await store.bytes?.()) ?? 0 });
    }
  }
  return histories;
}
