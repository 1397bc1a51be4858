// @ts-check
import { agentOn } from "../tests/support/agent.mjs";
import { medians } from "./compare.mjs";
import { printBytes, printHeading, printRow } from "./report.mjs";
import { messages } from "./text.mjs";

const TURNS = 50;

/**
 * Compares LangChain's own agent on both savers: a turn is a question, two tool calls and an answer of 1 to 3 KB. Each
 * tool call gets the whole state.
 *
 * @param {string} name
 * @param {{ turn: number, bytes: number }} most - The limits, as multiples of LangGraph's values.
 * @param {import("./langgraph.mjs").Sides} sides
 */
export async function compareAgents(name, most, sides) {
  printHeading(`LangGraph, createAgent: to its ${name}`);
  const [ours, theirs] = [await sides.ours(), await sides.theirs()];
  const [start, theirStart] = [await sides.bytes.ours(), await sides.bytes.theirs()];
  const turns = { ours: agentOn(ours, messages(3000)), theirs: agentOn(theirs, messages(3000)) };
  const turn = await medians(turns, { rounds: TURNS, warmup: 0 });
  printRow({ what: `a turn of ${TURNS}`, measuredMs: turn.ours, againstMs: turn.theirs, limit: most.turn });
  const [end, theirEnd] = [await sides.bytes.ours(), await sides.bytes.theirs()];
  printBytes("its checkpoints and writes: bytes stored", end - start, theirEnd - theirStart, most.bytes);
}
