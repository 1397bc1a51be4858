import { Annotation, Command, interrupt, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { onTestFinished } from "vitest";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver, type WaymarkSaverOptions } from "waymark/langgraph";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
  plan: Annotation<string>,
});

/**
 * A graph that plans, then does three things side by side: asks for approval, looks something up, and calls a subgraph
 * that asks whether to send the mail. It ends with a summary, which fails for the answer "fail".
 */
export function agentOn(checkpointer: BaseCheckpointSaver) {
  const mail = new StateGraph(State)
    .addNode("draft", () => ({ log: ["draft"] }))
    .addNode("send", () => ({ log: [`send: ${interrupt({ question: "Send it?" })}`] }))
    .addEdge("__start__", "draft")
    .addEdge("draft", "send")
    .compile({ checkpointer: true });
  return new StateGraph(State)
    .addNode("think", () => ({ log: ["think"], plan: "answer the customer" }))
    .addNode("approve", () => ({ log: [`approve: ${interrupt("Approve?")}`] }))
    .addNode("look", () => ({ log: ["look"] }))
    .addNode("mail", mail)
    .addNode("sum", ({ log }) => {
      if (log.includes("approve: fail")) throw new TypeError("the tool is out of order");
      return { log: ["sum"] };
    })
    .addEdge("__start__", "think")
    .addEdge("think", "approve")
    .addEdge("think", "look")
    .addEdge("think", "mail")
    .addEdge(["approve", "look", "mail"], "sum")
    .compile({ checkpointer });
}

/** The config of a thread. */
export function thread(id: string) {
  return { configurable: { thread_id: id } };
}

/** Three threads: one waits, one is done, and one has branched. */
export async function fill(saver: BaseCheckpointSaver) {
  const agent = agentOn(saver);
  for (const id of ["waits", "done", "branched"]) await agent.invoke({ log: [id] }, thread(id));
  await agent.invoke(new Command({ resume: await answers(saver, "done") }), thread("done"));
  const states = [];
  for await (const state of agent.getStateHistory(thread("branched"))) states.push(state.config);
  await agent.updateState(states[1] ?? {}, { log: ["another way"] }, "think");
}

/** A command that answers yes to everything the thread asks. */
export async function answers(saver: BaseCheckpointSaver, id: string): Promise<Record<string, string>> {
  const { tasks } = await agentOn(saver).getState(thread(id));
  const interrupts = tasks.flatMap((task) => task.interrupts);
  return Object.fromEntries(interrupts.map(({ id: interrupt = "" }) => [interrupt, "yes"]));
}

/** A saver that is closed when the test is over. */
export function saverOn(cwd: string, url: string, options: Omit<WaymarkSaverOptions, "storage"> = {}): WaymarkSaver {
  const saver = new WaymarkSaver({ storage: openStorage(url, { relativeTo: cwd }), ...options });
  onTestFinished(() => saver.close());
  return saver;
}

/** Everything that a saver returns for a thread. */
export async function historyOf(saver: BaseCheckpointSaver, id: string) {
  const found = [];
  for await (const { metadata, checkpoint, config, parentConfig, pendingWrites = [] } of saver.list(thread(id))) {
    const writes = pendingWrites.map((write) => JSON.stringify(write)).sort();
    found.push({ metadata, checkpoint, config, parentConfig, writes });
  }
  return found;
}

const HOOK = `export async function resolve(name, context, next) {
  if (!name.startsWith("@langchain/")) return next(name, context);
  throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: "ERR_MODULE_NOT_FOUND" });
}`;
const REGISTER = `import { register } from "node:module"; register(${JSON.stringify(moduleOf(HOOK))});`;
/** A module for Node's `--import` that makes Node find no package of LangGraph. */
export const WITHOUT_LANGGRAPH = moduleOf(REGISTER);

function moduleOf(source: string): string {
  return `data:text/javascript,${encodeURIComponent(source)}`;
}
