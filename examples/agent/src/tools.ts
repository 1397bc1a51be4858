import { setTimeout as delay } from "node:timers/promises";
import { type ToolResultPart, type TypedToolCall, tool } from "ai";
import { z } from "zod";
import type { Ledger } from "./ledger.js";

/** The tools that the model may call. None has an `execute`, because the loop runs them as steps. */
export const tools = {
  find_order: tool({
    description: "A customer's last order",
    inputSchema: z.object({ customer: z.string() }),
    outputSchema: z.string(),
  }),
  reorder: tool({
    description: "Orders an item again",
    inputSchema: z.object({ item: z.string() }),
    outputSchema: z.string(),
  }),
  mail: tool({
    description: "Sends a mail",
    inputSchema: z.object({ to: z.string(), text: z.string() }),
    outputSchema: z.string(),
  }),
};

type ToolCall = TypedToolCall<typeof tools>;

/** Does what the model asks for. `key` is the step's key, which stays the same if the step has to begin again. */
export type Perform = (call: ToolCall, key: string) => Promise<ToolResultPart>;

/** @param mailMs - How long the mail server takes to answer. */
export function toolsOver(ledger: Ledger, mailMs = 0): Perform {
  const answer = async (call: ToolCall, key: string): Promise<string> => {
    if (call.dynamic) return `${call.toolName} can't be called like this.`;
    switch (call.toolName) {
      case "find_order":
        return `${call.input.customer} has ordered a mug.`;
      case "reorder":
        return ledger.enter(key, `reorder  ${call.input.item}`);
      case "mail": {
        const receipt = ledger.enter(key, `mail     ${call.input.to}: ${call.input.text}`);
        await delay(mailMs);
        return receipt;
      }
    }
  };
  return async (call, key) => {
    const { toolCallId, toolName } = call;
    return { type: "tool-result", toolCallId, toolName, output: { type: "text", value: await answer(call, key) } };
  };
}
