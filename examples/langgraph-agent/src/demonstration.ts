import type { WaymarkSaver } from "waymark/langgraph";
import { runAgent } from "./agent-process.js";

/** The output of each run of the agent. */
export interface Demonstration {
  readonly killed: readonly string[];
  readonly resumed: readonly string[];
  readonly refused: readonly string[];
  readonly forked: readonly string[];
  readonly approved: readonly string[];
}

/**
 * Kills the agent in the middle of a node, resumes it, and answers no. Then goes back to before the question, lets the
 * agent ask about another hotel, and answers yes. Each run is a separate process.
 *
 * @throws The agent failed, or the signal ended it. No process is left.
 */
export async function demonstrate(saver: WaymarkSaver, threadId: string, signal: AbortSignal): Promise<Demonstration> {
  const run = async (title: string, args: readonly string[], isDue?: (said: readonly string[]) => Promise<boolean>) => {
    const words = [threadId, ...args].map((word) => (word.includes(" ") ? `"${word}"` : word));
    console.log(`\n  ${title}\n     $ agent.js ${words.join(" ")}`);
    const said: string[] = [];
    const onLine = (line: string) => {
      said.push(line);
      console.log(`       ${line}`);
    };
    await runAgent([threadId, ...args], { onLine, signal, ...(isDue && { isDue: () => isDue(said) }) });
    return said;
  };
  const killed = await run(
    "1  It begins, and is killed as soon as the result of one search is stored.",
    ["ask", "A week in Lisbon"],
    async (said) => said.includes("search hotel begins") && (await isFlightStored(saver, threadId)),
  );
  console.log("       ╳ killed (SIGKILL) in search hotel");
  const resumed = await run("2  Another process continues.", []);
  const refused = await run("3  A person says no.", ["no"]);
  const forked = await run("4  A fork: back to before the question, then on with another hotel.", [
    "fork",
    "Pensão Sol for 420 €",
  ]);
  const approved = await run("5  A person says yes.", ["yes"]);
  return { killed, resumed, refused, forked, approved };
}

/**
 * Whether the flight's result is stored. LangGraph stores a node's result at once, as a pending write of a checkpoint.
 */
async function isFlightStored(saver: WaymarkSaver, threadId: string): Promise<boolean> {
  const tuple = await saver.getTuple({ configurable: { thread_id: threadId } });
  return tuple?.pendingWrites?.some(([, channel]) => channel === "offers") ?? false;
}
