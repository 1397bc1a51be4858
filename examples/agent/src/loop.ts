import { generateText, type LanguageModel, type ModelMessage, modelMessageSchema } from "ai";
import type { NextTurn, Run } from "waymark";
import { z } from "zod";
import { type Perform, tools } from "./tools.js";

export type Chat = { messages: ModelMessage[] };

/** The state of a run. The AI SDK's own schema checks the messages, so a damaged chat is refused. */
export const Chat = z.object({ messages: z.array(modelMessageSchema) });

/**
 * Returns the function of one turn: the model answers, its tools run in parallel, and the next turn gets their results.
 */
export function agent(model: LanguageModel, perform: Perform) {
  return async (run: Run<Chat>): Promise<string | NextTurn> => {
    const { messages } = run.state;
    const reply = await run.step("model", async ({ signal }) => {
      const { text, toolCalls, response } = await generateText({ model, tools, messages, abortSignal: signal });
      return { text, toolCalls, messages: response.messages };
    });
    messages.push(...reply.messages);
    if (reply.toolCalls.length === 0) {
      await run.save({ messages }, { stage: "answer" });
      return reply.text;
    }
    const content = await Promise.all(
      reply.toolCalls.map((call) => run.step(`${call.toolName} ${call.toolCallId}`, ({ key }) => perform(call, key))),
    );
    messages.push({ role: "tool", content });
    return run.next({ messages }, { stage: "turn" });
  };
}
