import { MockLanguageModelV3 } from "ai/test";

type Prompt = Parameters<MockLanguageModelV3["doGenerate"]>[0]["prompt"];

const SCRIPT = [
  [call("c1", "find_order", { customer: "Ann" })],
  [call("c2", "reorder", { item: "mug" }), call("c3", "mail", { to: "Ann", text: "a new mug is on its way" })],
];
const WAREHOUSE = [call("c4", "mail", { to: "warehouse", text: "a mug broke, pack them better" })];

/** A model that needs no account. Replace it with `openai("…")` or `anthropic("…")`. */
export const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    const asked = new Set(toolCallsIn(prompt));
    const isToTell = JSON.stringify(prompt).includes("Tell the warehouse");
    const calls = [...SCRIPT, ...(isToTell ? [WAREHOUSE] : [])].find((turn) =>
      turn.some(({ toolCallId }) => !asked.has(toolCallId)),
    );
    const text = `A new mug is on its way to Ann${isToTell ? ", and the warehouse knows why" : ""}.`;
    return {
      content: calls ?? [{ type: "text", text }],
      finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined },
      usage: {
        inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 5, text: 5, reasoning: 0 },
      },
      warnings: [],
    };
  },
});

function call(toolCallId: string, toolName: string, input: object) {
  return { type: "tool-call" as const, toolCallId, toolName, input: JSON.stringify(input) };
}

function toolCallsIn(prompt: Prompt): string[] {
  return prompt.flatMap(({ role, content }) =>
    role === "assistant" ? content.flatMap((part) => (part.type === "tool-call" ? part.toolCallId : [])) : [],
  );
}
