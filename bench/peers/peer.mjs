// @ts-check
import { statSync } from "node:fs";

/**
 * A storage to compare: Waymark's, another package's, or a bare driver as the lower limit.
 *
 * @typedef {object} Peer
 * @property {string} name
 * @property {readonly string[]} packages - The packages that the peer's user installs.
 * @property {readonly string[]} [imports] - The modules that the peer's user imports; missing if they are part of Node.
 * @property {(place: string) => Promise<Store>} open - Opens a separate store for each place.
 */

/**
 * The operations of a peer. A missing operation is shown as "–" in the table.
 *
 * @typedef {object} Store
 * @property {(task: string, state: object) => unknown} save - Saves as durably as the peer can.
 * @property {(tasks: readonly string[], state: object) => unknown} [saveAtOnce] - Default: a `save` for each, awaited together.
 * @property {(task: string) => unknown} [latest] - The whole state, read from the storage.
 * @property {(task: string) => Promise<number>} [list] - Reads the description of each checkpoint, and counts them.
 * @property {(state: { messages: readonly string[] }, turn: number) => unknown} [saveTurn] - Saves a turn of a history,
 * and keeps the earlier turns.
 * @property {() => Promise<number>} [bytes] - Returns the bytes that the storage takes on the disk.
 * @property {(count: number) => Promise<void>} [addTasks] - Adds this many tasks, one in a hundred of them incomplete.
 * @property {() => Promise<number>} [findIncomplete] - Finds the 20 newest incomplete tasks, and counts them.
 * @property {() => unknown} close
 */

export const HISTORY = "P1.M3.T2.S4";
export const INCOMPLETE = 20;

/** @param {number} task */
export function isIncomplete(task) {
  return task % 100 === 0;
}

/** @param {string} path */
export function allocated(path) {
  return statSync(path).blocks * 512;
}

/** @param {AsyncIterable<unknown> | Iterable<unknown>} values */
export async function count(values) {
  let found = 0;
  for await (const _value of values) found += 1;
  return found;
}
