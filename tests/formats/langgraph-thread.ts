import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { Annotation, DeltaChannel, interrupt, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";

/** The thread of tests/fixtures/formats/langgraph-1. Neither this file nor the thread is ever edited. */
export const THREAD = { configurable: { thread_id: "old-1" } };

export const VALUES = {
  plain: { text: "é \ud83d\ude00 \u2028", list: [1.5, null, true, []], lc: "en-US" },
  taglike: { $waymark: "Date", value: "2026-11-24T00:00:00.000Z" },
  map: new Map<unknown, unknown>([["a", { deep: [new Set([1, "two"])] }]]),
  absent: { nothing: undefined, list: [undefined, 1] },
  bytes: Uint8Array.of(0, 1, 254, 255),
  nested: { bytes: Uint8Array.of(7, 8), expression: /a+/gi },
};

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  plain: Annotation<unknown>,
  taglike: Annotation<unknown>,
  map: Annotation<unknown>,
  absent: Annotation<unknown>,
  bytes: Annotation<unknown>,
  nested: Annotation<unknown>,
  delta: () => new DeltaChannel<string[], string[]>((log, writes) => [...log, ...writes.flat()]),
  done: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** It asks a person once both workers are done. */
export function graphOn(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode("model", () => ({
      ...VALUES,
      messages: [
        new AIMessage({ id: "m2", content: "I look it up.", tool_calls: [{ name: "find", args: { q: 1 }, id: "c1" }] }),
        new ToolMessage({ id: "m3", content: "Found.", tool_call_id: "c1", artifact: { rows: [1, 2] } }),
      ],
      delta: ["model"],
    }))
    .addNode("worker", ({ name }: { name: string }) => ({ done: [name], delta: [name] }))
    .addNode("person", () => ({ done: [interrupt<unknown, string>({ question: "go on?", options: ["yes", "no"] })] }))
    .addEdge(START, "model")
    .addConditionalEdges("model", () => ["a", "b"].map((name) => new Send("worker", { name })), ["worker"])
    .addEdge("worker", "person")
    .compile({ checkpointer });
}
