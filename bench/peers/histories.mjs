// @ts-check
import { performance } from "node:perf_hooks";
import { median, shuffled } from "../compare.mjs";
import { messages } from "../text.mjs";

export const TURNS = 1000;
const MESSAGE_BYTES = 500;
/** The number of turns whose median each point of the plot shows. */
const WINDOW = 25;

/**
 * A history after a turn: its bytes on the disk, and the median time of the recent saves.
 *
 * @typedef {object} Point
 * @property {number} turn
 * @property {number} bytes
 * @property {number} saveMs
 */

/**
 * Saves the same growing state in every store, turn by turn. The order of the stores changes each turn.
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
