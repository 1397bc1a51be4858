// Runs the graph on a thread. Kill it at any time, and start it again.
//
//   WAYMARK_STORAGE=sqlite:agent.db node dist/agent.js <thread> ask "A week in Lisbon"   begins
//                                   node dist/agent.js <thread>                          continues
//                                   node dist/agent.js <thread> yes                      answers its question; or no
//                                   node dist/agent.js <thread> fork "hotel …"           asks again about another hotel
import { HumanMessage } from "@langchain/core/messages";
import { Command, INTERRUPT, isInterrupted } from "@langchain/langgraph";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver } from "waymark/langgraph";
import { trip } from "./trip.js";

const url = process.env["WAYMARK_STORAGE"];
const [threadId, verb, text = ""] = process.argv.slice(2);
if (!url || !threadId) throw new TypeError("Usage: WAYMARK_STORAGE=… node dist/agent.js <thread> [ask|yes|no|fork]");

await using checkpointer = new WaymarkSaver({ storage: openStorage(url) });
const graph = trip.compile({ checkpointer });
const thread = { configurable: { thread_id: threadId } };

// Each step's results are stored before the next step begins.
const result = await graph.invoke(await input(), { ...thread, durability: "sync" });
if (isInterrupted<string>(result)) console.log(`asks: ${result[INTERRUPT][0]?.value}`);
else console.log(`ends: ${result.messages.at(-1)?.text}`);

async function input(): Promise<Parameters<typeof graph.invoke>[0]> {
  if (verb === "ask") return { messages: [new HumanMessage(text)] };
  if (verb === "yes" || verb === "no") return new Command({ resume: verb });
  if (verb === "fork") await fork();
  // Without input, LangGraph continues from the thread's newest checkpoint.
  return null;
}

/** Puts another hotel into the state that the question was about. The stored checkpoints stay unchanged. */
async function fork(): Promise<void> {
  for await (const { next, config } of graph.getStateHistory(thread)) {
    if (next.includes("approve")) return void (await graph.updateState(config, { offers: { hotel: text } }, "search"));
  }
  throw new Error("No question was asked in this thread.");
}
