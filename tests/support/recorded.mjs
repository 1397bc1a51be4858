// @ts-check
import { mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { recordHistory } from "waymark/testing";

/**
 * Wraps a storage so that it writes its calls to a file in the folder. Each line is a single write, so a kill leaves no
 * half lines.
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
