// What the processes of random programs see: a file per process, with a line per fact. A line is one write, so it is whole
// after a kill.
import { mkdirSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { nowMs } from "../chaos/ledger.js";
import type { Seen } from "./seen.js";

/** Returns a function that notes what was seen. `atMs`: by default now. */
export function openSeen(folder: string, name: string): (seen: Seen, atMs?: number) => void {
  mkdirSync(folder, { recursive: true });
  const file = openSync(join(folder, name), "a");
  return (seen, atMs = nowMs()) => void writeSync(file, `${JSON.stringify({ ...seen, atMs })}\n`);
}

/** What all processes have seen until now, in the order in which they saw it. */
export function readSeen(folder: string): readonly Seen[] {
  const lines = readdirSync(folder).flatMap((name) => {
    const text = readFileSync(join(folder, name), "utf8");
    // The last line of a process that is writing may be half a line.
    return text.slice(0, text.lastIndexOf("\n") + 1).split("\n");
  });
  const seen = lines.flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Seen & { readonly atMs: number }]));
  return seen.sort((a, b) => a.atMs - b.atMs);
}

/** How many steps have run, by task, those of its child runs included. */
export function countBodies(seen: readonly Seen[]): Map<string, number> {
  const bodies = new Map<string, number>();
  for (const line of seen) {
    if (line.is !== "body") continue;
    const task = line.task.split("/").slice(0, 2).join("/");
    bodies.set(task, (bodies.get(task) ?? 0) + 1);
  }
  return bodies;
}
