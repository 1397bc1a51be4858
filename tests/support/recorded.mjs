// @ts-check
import { mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { recordHistory } from "waymark/testing";

/**
 * The storage, which writes its calls into a file of this folder. A line is one write, so it is whole after a kill.
 *
 * @param {import("waymark").StorageAdapter} storage
 * @param {string} folder
 * @param {string} process
 */
export function recorded(storage, folder, process) {
  mkdirSync(folder, { recursive: true });
  const file = openSync(join(folder, process), "a");
  return recordHistory(storage, { process, write: (line) => writeSync(file, line) });
}
