import { AIMessage, HumanMessage, isToolMessage, ToolMessage } from "@langchain/core/messages";
import { interrupt, MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { thread } from "./langgraph-agent.js";

/** A thread whose agent has called a tool, and whose node "book" asks whether to book a train. */
export async function askToBook(saver: BaseCheckpointSaver, id: string): Promise<void> {
  const call = { id: "call-1", name: "search_trains", args: { from: "Berlin", to: "Prague" } };
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("agent", ({ messages }) => {
      const isFound = messages.some(isToolMessage);
      return { messages: [new AIMessage(isFound ? "EC 173 fits." : { content: "", tool_calls: [call] })] };
    })
    .addNode("tools", () => ({
      messages: [new ToolMessage({ tool_call_id: call.id, name: call.name, content: '[{"train":"EC 173"}]' })],
    }))
    .addNode("book", () => ({ messages: [new AIMessage(`Booked: ${interrupt("Book EC 173?")}`)] }))
    .addEdge("__start__", "agent")
    .addConditionalEdges("agent", ({ messages }) => (messages.some(isToolMessage) ? "book" : "tools"), [
      "tools",
      "book",
    ])
    .addEdge("tools", "agent")
    .compile({ checkpointer: saver });
  await graph.invoke({ messages: [new HumanMessage("Find me a train to Prague")] }, thread(id));
}
