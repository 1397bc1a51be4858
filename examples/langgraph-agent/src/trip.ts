// The graph: a model asks for two searches, which run in parallel. A person approves or rejects the offers that they
// find; approved ones are booked. Each node prints a line when it begins.
import { setTimeout as delay } from "node:timers/promises";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import {
  Command,
  END,
  interrupt,
  MessagesValue,
  ReducedValue,
  Send,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { z } from "zod";

const Wanted = z.object({ what: z.enum(["flight", "hotel"]) });
const Offers = z.record(z.string(), z.string());

const State = new StateSchema({
  messages: MessagesValue,
  offers: new ReducedValue(Offers.default({}), { reducer: (all, found) => ({ ...all, ...found }) }),
});

const search = tool(
  async ({ what }): Promise<string> => {
    if (what === "flight") return "TP 571 for 180 €";
    return await delay(3000, "Casa do Rio for 840 €");
  },
  { name: "search", description: "Searches for a flight or a hotel.", schema: Wanted },
);

/** Stands in for a real model with the tool, such as `new ChatAnthropic({ … }).bindTools([search])`. */
const model = {
  async invoke(_messages: readonly BaseMessage[]): Promise<AIMessage> {
    const calls = ["flight", "hotel"].map((what) => ({ id: what, name: search.name, args: { what } }));
    return new AIMessage({ content: "I search for a flight and a hotel.", tool_calls: calls });
  },
};

export const trip = new StateGraph(State)
  .addNode(
    "plan",
    async ({ messages }) => {
      console.log("plan begins");
      const message = await model.invoke(messages);
      const searches = message.tool_calls?.map(({ args }) => new Send("search", Wanted.parse(args)));
      return new Command({ update: { messages: [message] }, goto: searches ?? END });
    },
    { ends: ["search", END] },
  )
  .addNode("search", async (wanted: z.infer<typeof Wanted>) => {
    console.log(`search ${wanted.what} begins`);
    return { offers: { [wanted.what]: await search.invoke(wanted) } };
  })
  .addNode(
    "approve",
    ({ offers }) => {
      console.log("approve begins");
      const answer = interrupt<string, "yes" | "no">(`Book ${Object.values(offers).join(" and ")}?`);
      if (answer === "yes") return new Command({ goto: "book" });
      return new Command({ update: { messages: [new AIMessage("Nothing is booked.")] }, goto: END });
    },
    { ends: ["book", END] },
  )
  .addNode("book", ({ offers }) => {
    console.log("book begins");
    return { messages: [new AIMessage(`Booked: ${Object.values(offers).join(" and ")}.`)] };
  })
  .addEdge(START, "plan")
  .addEdge("search", "approve");

export type Trip = typeof State.State;
