import { isDeepStrictEqual } from "node:util";
import type { WaymarkSaver } from "waymark/langgraph";
import type { Demonstration } from "./demonstration.js";
import { type Trip, trip } from "./trip.js";

/** Prints how many times each node began, and the stored checkpoints. Returns whether both are as expected. */
export async function check(saver: WaymarkSaver, threadId: string, runs: Demonstration): Promise<boolean> {
  const begun = Object.values(runs).flatMap(nodesBegun);
  const timesOf = (node: string) => begun.filter((name) => name === node).length;
  const remarks = new Map([
    ["search flight", "its result was stored before the kill"],
    ["search hotel", "the kill cut it off"],
    ["approve", "in each branch to ask, and again with the answer"],
  ]);
  console.log("\n  How many times each node began");
  for (const node of new Set(begun)) {
    const times = ["never", "once", "twice"][timesOf(node)] ?? `${timesOf(node)} times`;
    console.log(`     ${node.padEnd(15)}${times.padEnd(9)}${remarks.get(node) ?? ""}`.trimEnd());
  }

  console.log("\n  What is stored, by checkpoint\n     #  after  next node      state");
  const ends: string[] = [];
  const numbers = new Map<unknown, number>();
  for (const { config, parentConfig, next, values } of await historyOf(saver, threadId)) {
    numbers.set(config.configurable?.["checkpoint_id"], numbers.size + 1);
    const after = String(numbers.get(parentConfig?.configurable?.["checkpoint_id"]) ?? "");
    const { messages = [], offers = {} }: Partial<Trip> = values;
    const state = next.length === 0 ? (messages.at(-1)?.text ?? "") : Object.values(offers).join(" and ");
    if (next.length === 0) ends.push(state);
    console.log(`     ${numbers.size}  ${after.padEnd(5)}  ${(next.join(", ") || "-").padEnd(15)}${state}`.trimEnd());
  }

  const findings = [
    {
      isTrue: ["plan", "search flight", "book"].every((node) => timesOf(node) === 1) && timesOf("search hotel") === 2,
      says: "No stored node ran again: only the killed search did.",
    },
    {
      isTrue: isDeepStrictEqual(nodesBegun([...runs.forked, ...runs.approved]), ["approve", "approve", "book"]),
      says: "The fork continued from the question: it neither planned nor searched again.",
    },
    {
      isTrue: isDeepStrictEqual(ends, ["Nothing is booked.", "Booked: TP 571 for 180 € and Pensão Sol for 420 €."]),
      says: "Both branches are stored, each with its own end.",
    },
  ];
  console.log();
  for (const { isTrue, says } of findings) console.log(`  ${isTrue ? "✓" : "✗ Not true:"} ${says}`);
  return findings.every(({ isTrue }) => isTrue);
}

/** Reads the thread's checkpoints, oldest first. */
async function historyOf(saver: WaymarkSaver, threadId: string) {
  const graph = trip.compile({ checkpointer: saver });
  const history = [];
  for await (const state of graph.getStateHistory({ configurable: { thread_id: threadId } })) history.unshift(state);
  return history;
}

function nodesBegun(said: readonly string[]): string[] {
  return said.flatMap((line) => /^(.*) begins$/.exec(line)?.[1] ?? []);
}
