// The notes of the processes of random programs. Each process has a file with a line per fact. A line is a single
// write, so a kill leaves no half lines.
import { mkdirSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { nowMs } from "../chaos/ledger.js";
import type { Seen } from "./seen.js";

/** Returns a function that writes a note. The default of `atMs` is now. */
export function openSeen(folder: string, name: string): (seen: Seen, atMs?: number) => void {
  mkdirSync(folder, { recursive: true });
  const file = openSync(join(folder, name), "a");
  return (seen, atMs = nowMs()) => void writeSync(file, `${JSON.stringify({ ...seen, atMs })}\n`);
}

/** Reads the notes of all processes until now, each line once. */
export class SeenReader {
  readonly #folder: string;
  /** The number of bytes read of each file. */
  readonly #read = new Map<string, number>();
  readonly #seen: (Seen & { readonly atMs: number })[] = [];

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Returns the new notes in the order of their times. */
  read(): readonly Seen[] {
    for (const name of readdirSync(this.#folder)) {
      const bytes = readFileSync(join(this.#folder, name));
      // The last line of a process that is writing may be half a line.
      const end = bytes.lastIndexOf("\n") + 1;
      const lines = bytes.toString("utf8", this.#read.get(name) ?? 0, end).split("\n");
      this.#read.set(name, end);
      for (const line of lines) if (line !== "") this.#seen.push(JSON.parse(line));
    }
    return this.#seen.sort((a, b) => a.atMs - b.atMs);
  }
}

/** Returns the number of steps run by each task, including the steps of its child runs. */
export function countBodies(seen: readonly Seen[]): Map<string, number> {
  const bodies = new Map<string, number>();
  for (const line of seen) {
    if (line.is !== "body") continue;
    const task = line.task.split("/").slice(0, 2).join("/");
    bodies.set(task, (bodies.get(task) ?? 0) + 1);
  }
  return bodies;
}
