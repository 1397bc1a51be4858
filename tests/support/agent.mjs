// @ts-check
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { createAgent, tool } from "langchain";

/**
 * A model that answers a question with two calls of a tool, and the tool's results with a text of 1 to 3 KB.
 *
 * @extends {BaseChatModel<import("@langchain/core/language_models/chat_models").BaseChatModelCallOptions>}
 */
class TwoCallsModel extends BaseChatModel {
  /** @param {(bytes: number) => string} textOf */
  constructor(textOf) {
    super({});
    this.textOf = textOf;
    this.answers = 0;
  }

  _llmType() {
    return "two-calls";
  }

  /** @override */
  bindTools() {
    return this;
  }

  /** @param {import("@langchain/core/messages").BaseMessage[]} messages */
  async _generate(messages) {
    const message =
      messages.at(-1)?.getType() === "human" ? this.#calls(messages.length) : this.#answer(messages.length);
    return { generations: [{ text: String(message.content), message }] };
  }

  /** @param {number} length */
  #calls(length) {
    const calls = [1, 2].map((call) => ({
      name: "search",
      args: { query: this.textOf(60) },
      id: `call_${length}_${call}`,
      type: /** @type {const} */ ("tool_call"),
    }));
    return new AIMessage({ id: `ai-${length}`, content: "", tool_calls: calls });
  }

  /** @param {number} length */
  #answer(length) {
    this.answers += 1;
    return new AIMessage({ id: `ai-${length}`, content: this.textOf(1000 * (1 + (this.answers % 3))) });
  }
}

/**
 * Returns LangChain's own agent on a checkpointer. Each call is a turn: a question, two calls of a tool, an answer.
 *
 * @param {import("@langchain/langgraph-checkpoint").BaseCheckpointSaver} checkpointer
 * @param {Iterator<string, never>} texts - Texts of at least 3,000 bytes.
 * @param {string} thread_id
 */
export function agentOn(checkpointer, texts, thread_id = "agent") {
  const textOf = (/** @type {number} */ bytes) => texts.next().value.slice(0, bytes);
  const search = tool(async () => textOf(400), { name: "search", description: "Searches.", schema: QUERY });
  const agent = createAgent({ model: new TwoCallsModel(textOf), tools: [search], checkpointer });
  const config = { configurable: { thread_id }, durability: /** @type {const} */ ("sync") };
  let turns = 0;
  return () => {
    turns += 1;
    return agent.invoke({ messages: [new HumanMessage({ id: `human-${turns}`, content: textOf(200) })] }, config);
  };
}

const QUERY = {
  type: /** @type {const} */ ("object"),
  properties: { query: { type: /** @type {const} */ ("string") } },
  required: ["query"],
};
