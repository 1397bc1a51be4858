// @ts-check
import { tracingChannel } from "node:diagnostics_channel";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
/** The line of the build that checks for listeners. Without this line, a save is the same as before the channels. */
const GUARD = "if (!tracing.save.hasSubscribers) return this.#appendTo(";
const ROUNDS = 40_000;

/**
 * Measures what the tracing channels cost a save. Three copies of the build take turns: two unchanged copies, whose
 * difference is the noise, and a copy without the channel of saves. The storage is in memory and the state tiny, so
 * that the save itself takes as little time as possible.
 *
 * @param {string} folder
 */
export async function benchTracing(folder) {
  const contestants = {
    ours: await saving(join(folder, "traced")),
    same: await saving(join(folder, "traced-too")),
    without: await saving(join(folder, "untraced"), (text) => text.replace(GUARD, "return this.#appendTo(")),
  };
  const options = { rounds: ROUNDS, warmup: ROUNDS / 4 };
  printHeading("Tracing channels, saves of 20 bytes in memory");
  const save = await medians(contestants, options);
  const what = "save: nobody listens, to a build without the channel";
  printRow({ what, measuredMs: save.ours, againstMs: save.without, limit: 1.03 });
  printRow({ what: "save: the same build twice, to show the noise", measuredMs: save.same, againstMs: save.ours });

  const ignore = () => undefined;
  const subscribers = { start: ignore, end: ignore, asyncStart: ignore, asyncEnd: ignore, error: ignore };
  tracingChannel("waymark:save").subscribe(subscribers);
  const heard = await medians(contestants, options);
  tracingChannel("waymark:save").unsubscribe(subscribers);
  printRow({ what: "save: with a listener", measuredMs: heard.ours, againstMs: heard.without });
}

/**
 * Returns a function that saves with a copy of the build.
 *
 * @param {string} copy - The folder for the copy.
 * @param {(text: string) => string} [change] - Changes the copy.
 */
async function saving(copy, change) {
  cpSync(DIST, copy, { recursive: true });
  writeFileSync(join(copy, "package.json"), JSON.stringify({ type: "module" }));
  if (change !== undefined) {
    const file = join(copy, "shared/core.js");
    const text = readFileSync(file, "utf8");
    const changed = change(text);
    if (changed === text) throw new Error("The build has no such line, so there is nothing to compare with.");
    writeFileSync(file, changed);
  }
  /** @type {typeof import("waymark")} */
  const { CheckpointManager } = await import(join(copy, "src/index.js"));
  /** @type {typeof import("waymark/adapters/memory")} */
  const { MemoryAdapter } = await import(join(copy, "adapters/memory.js"));
  const manager = new CheckpointManager({ storage: new MemoryAdapter() });
  let turn = 0;
  return () => manager.save(`t${turn % 1000}`, { turn: turn++ });
}
