// @ts-check
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { median } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";
import { messages } from "./text.mjs";

const ROUNDS = 15;

/**
 * Measures how long other work waits at most while a state of 10 MB is saved, against JSON.stringify of the same state.
 *
 * @param {string} folder
 */
export async function benchEventLoop(folder) {
  const stores = {
    SQLite: openStorage(`sqlite:${join(folder, "event-loop.db")}`),
    "json-file": openStorage(`files:${join(folder, "event-loop")}`),
  };
  printHeading("The event loop, while a state of 10 MB is saved");
  for (const [name, storage] of Object.entries(stores)) {
    const manager = new CheckpointManager({ storage });
    const texts = messages(500);
    const state = Array.from({ length: 20_000 }, (_, at) => ({ role: "user", content: texts.next().value, at }));
    /** @type {Record<"first" | "stringify" | "longest", number[]>} */
    const samples = { first: [], stringify: [], longest: [] };
    for (let round = 0; round < ROUNDS; round++) {
      for (const at of [1999, 7919])
        state[(round * at) % state.length] = { role: "tool", content: texts.next().value, at };
      const start = performance.now();
      JSON.stringify(state);
      samples.stringify.push(performance.now() - start);
      samples.longest.push(await longestTurn(() => manager.save("task", state)));
      samples.first.push(await longestTurn(() => manager.save(`task ${round}`, state)));
    }
    await manager.close();
    const againstMs = median(samples.stringify);
    const row = { againstMs, limit: 2.5 };
    printRow({ ...row, what: `${name}, first save of a task: the longest turn`, measuredMs: median(samples.first) });
    printRow({ ...row, what: `${name}, the next saves: the longest turn`, measuredMs: median(samples.longest) });
  }
}

/** Returns the longest time that other work waits during `work`. @param {() => Promise<unknown>} work */
export async function longestTurn(work) {
  let longest = 0;
  let isDone = false;
  let last = performance.now();
  const look = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (!isDone) setImmediate(look);
  };
  setImmediate(look);
  await work();
  isDone = true;
  look();
  return longest;
}
