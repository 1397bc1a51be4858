// Programs with agents, like those of programs.ts. The model is a function of the messages.

import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { BaseMessage } from "@langchain/core/messages";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Command, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import {
  type AgentMiddleware,
  createAgent,
  humanInTheLoopMiddleware,
  summarizationMiddleware,
  todoListMiddleware,
} from "langchain";
import { z } from "zod";
import { collect } from "../../support/postgres.js";
import { type Open, type Program, seen, thread } from "./programs.js";

type Answer = (messages: readonly BaseMessage[]) => AIMessage;

class ScriptedModel extends BaseChatModel {
  readonly #answer: Answer;

  constructor(answer: Answer) {
    super({});
    this.#answer = answer;
  }

  override _llmType(): string {
    return "scripted";
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(messages: BaseMessage[]) {
    const message = this.#answer(messages);
    return { generations: [{ text: message.text, message }] };
  }
}

const call = (name: string, args: Record<string, unknown>, id = name) => ({
  type: "tool_call" as const,
  name,
  args,
  id,
});

/** Asks for two tools at each question, then answers. */
const twoTools: Answer = (messages) => {
  const last = messages.at(-1);
  if (ToolMessage.isInstance(last)) return new AIMessage(`So it is: ${last.text}`);
  const turn = messages.length;
  return new AIMessage({
    content: "",
    tool_calls: [call("weather", { city: "Rome" }, `w${turn}`), call("mail", { to: "ann" }, `m${turn}`)],
  });
};

const weather = tool(({ city }) => `${city} is sunny`, {
  name: "weather",
  description: "Tells the weather.",
  schema: z.object({ city: z.string() }),
});
const mail = tool(({ to }) => [`sent to ${to}`, { to, at: [1, 2] }], {
  name: "mail",
  description: "Sends a mail.",
  schema: z.object({ to: z.string() }),
  responseFormat: "content_and_artifact",
});

// LangChain's types don't support exactOptionalPropertyTypes.
const middlewareOf = (...all: unknown[]) => all as AgentMiddleware[];
const loosely = (make: unknown) => make as (options: object) => unknown;

const ask = (text: string) => ({ messages: [new HumanMessage(text)] });

export const AGENTS: Readonly<Record<string, Program>> = {
  async "createAgent with two tools, for two turns, the second by messages"(open) {
    const agent = () =>
      createAgent({ model: new ScriptedModel(twoTools), tools: [weather, mail], checkpointer: open() });
    const streamed = await collect(await agent().stream(ask("How is Rome?"), { ...thread, streamMode: "updates" }));
    const options = { ...thread, streamMode: ["messages", "tools", "values"] } as const;
    const again = await collect(
      await agent().stream(ask("And now?"), { ...options, streamMode: [...options.streamMode] }),
    );
    return [streamed, again, await seen(agent().graph)];
  },

  async "createAgent with a person in the loop, who approves, edits and rejects"(open) {
    const approval = loosely(humanInTheLoopMiddleware)({ interruptOn: { mail: true } });
    const agent = () =>
      createAgent({
        model: new ScriptedModel(twoTools),
        tools: [weather, mail],
        middleware: middlewareOf(approval),
        checkpointer: open(),
      });
    const shown = [];
    for (const decision of [
      { type: "approve" },
      { type: "edit", editedAction: { name: "mail", args: { to: "bob" } } },
      { type: "reject", message: "not now" },
    ]) {
      shown.push(await agent().invoke(ask("Mail it."), thread), await agent().graph.getState(thread));
      shown.push(await agent().invoke(new Command({ resume: { decisions: [decision] } }), thread));
    }
    return [...shown, await seen(agent().graph)];
  },

  async "createAgent with summaries of what was said"(open) {
    const model = new ScriptedModel((messages) => new AIMessage(`${messages.length} messages`));
    const summaries = loosely(summarizationMiddleware)({ model, trigger: { messages: 4 }, keep: { messages: 2 } });
    const agent = () => createAgent({ model, tools: [], middleware: middlewareOf(summaries), checkpointer: open() });
    const results = [];
    for (const text of ["one", "two", "three", "four"]) results.push(await agent().invoke(ask(text), thread));
    return [results, await seen(agent().graph)];
  },

  async "createAgent with a list of things to do"(open) {
    const todos = [
      { content: "look", status: "in_progress" },
      { content: "write", status: "pending" },
    ];
    const model = new ScriptedModel((messages) =>
      ToolMessage.isInstance(messages.at(-1))
        ? new AIMessage("Done.")
        : new AIMessage({ content: "", tool_calls: [call("write_todos", { todos }, `t${messages.length}`)] }),
    );
    const agent = () =>
      createAgent({ model, tools: [], middleware: middlewareOf(todoListMiddleware()), checkpointer: open() });
    return [await agent().invoke(ask("Plan it."), thread), await seen(agent().graph)];
  },

  async "a swarm: agents that hand over to one another"(open) {
    const handOver = (to: string) =>
      tool(
        (_input, { toolCallId }: { toolCallId: string }) =>
          new Command({
            goto: to,
            graph: Command.PARENT,
            update: { active: to, messages: [new ToolMessage({ content: `to ${to}`, tool_call_id: toolCallId })] },
          }),
        { name: `to_${to}`, description: `Hands over to ${to}.`, schema: z.object({}) },
      );
    const agentOf = (name: string, other: string) =>
      createAgent({
        name,
        model: new ScriptedModel((messages) =>
          messages.at(-1)?.text.includes(other)
            ? new AIMessage({ content: "", tool_calls: [call(`to_${other}`, {}, `${name}${messages.length}`)] })
            : new AIMessage(`${name} answers.`),
        ),
        tools: [handOver(other)],
      }).graph;
    const graph = () =>
      new StateGraph(MessagesAnnotation)
        .addNode("sales", agentOf("sales", "support"), { ends: ["support"] })
        .addNode("support", agentOf("support", "sales"), { ends: ["sales"] })
        .addEdge(START, "sales")
        .compile({ checkpointer: open() });
    return [
      await graph().invoke(ask("I need support."), thread),
      await collect(await graph().stream(ask("Thanks."), { ...thread, subgraphs: true, streamMode: "updates" })),
      await seen(graph()),
    ];
  },

  async "a supervisor, who sends each question to a worker"(open) {
    return superviseOn(open);
  },
};

async function superviseOn(open: Open) {
  const worker = (name: string) =>
    createAgent({
      name,
      model: new ScriptedModel((messages) => new AIMessage(`${name}: ${messages.at(-1)?.text}`)),
      tools: [],
    });
  const graph = () =>
    new StateGraph(MessagesAnnotation)
      .addNode(
        "supervisor",
        ({ messages }) => {
          const last = messages.at(-1);
          if (!HumanMessage.isInstance(last)) return new Command({ goto: "__end__" });
          return new Command({
            goto: last.text.includes("sum") ? "math" : "writer",
            update: { messages: [new AIMessage("I pass it on.")] },
          });
        },
        { ends: ["math", "writer", "__end__"] },
      )
      .addNode("math", worker("math").graph)
      .addNode("writer", worker("writer").graph)
      .addEdge(START, "supervisor")
      .addEdge("math", "supervisor")
      .addEdge("writer", "supervisor")
      .compile({ checkpointer: open() });
  const results = [];
  for (const text of ["a sum", "a letter"]) results.push(await graph().invoke(ask(text), thread));
  return [results, await seen(graph())];
}
