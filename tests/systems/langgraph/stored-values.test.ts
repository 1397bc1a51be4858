import { isDeepStrictEqual } from "node:util";
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  ChatMessage,
  HumanMessage,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import { JsonPlusSerializer } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  DefaultSerializer,
  loadedValue,
  serializedFrom,
  serializedValue,
  storedValue,
} from "../../../systems/langgraph/stored-values.js";
import { culprits, leaf, plain, refusable, valuesOf } from "../../support/any-values.js";
import { casesOf } from "../../support/seeded.js";
import { difference } from "../../unit/codec/difference.js";
import { follow } from "../../unit/codec/follow.js";

const serde = new DefaultSerializer();

/** A value as it comes back from a storage, and again from the saver's memory. */
async function roundTrip(value: unknown) {
  const written = await serializedValue(serde, value, "c");
  const stored = structuredClone(storedValue(written));
  expect(serializedFrom(stored)).toEqual(written);
  return { stored, loaded: await loadedValue(serde, serializedFrom(stored)) };
}

it("any value comes back unchanged, even data that looks like a tag or a record of LangChain", async () => {
  const seen = { json: 0, tagged: 0 };
  await fc.assert(
    fc.asyncProperty(fc.oneof(valuesOf(leaf), plain), async (value) => {
      const { stored, loaded } = await roundTrip({ value });
      expect(difference(loaded, { value })).toBeUndefined();
      if ("json" in stored) expect(stored.json).toEqual(JSON.parse(JSON.stringify({ value })));
      seen["json" in stored ? "json" : "tagged"]++;
    }),
    { numRuns: casesOf(600) },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(casesOf(600) / 12);
});

it("messages come back as messages, with any value in them", async () => {
  // LangChain leaves out a property that is undefined.
  const value = valuesOf(leaf.filter((each) => each !== undefined));
  await fc.assert(
    fc.asyncProperty(value, value, async (one, other) => {
      const given = () => [
        { beside: one },
        new ToolMessage({ id: "1", content: "text", tool_call_id: "c", artifact: other }),
        new AIMessage({
          content: [{ type: "text", text: "t", more: other }],
          additional_kwargs: { one: [one, new HumanMessage({ content: "inner", additional_kwargs: { other } })] },
          tool_calls: [{ name: "find", args: { one }, id: "c" }],
        }),
      ];
      const { loaded } = await roundTrip(given());
      const messages = loaded as ReturnType<typeof given>;
      // `toEqual` compares the names of errors by identity, and an error may have an object as its name.
      expect(isDeepStrictEqual(messages, given())).toBe(true);
      expect(messages.map((each) => each.constructor)).toEqual([Object, ToolMessage, AIMessage]);
      const { artifact } = messages[1] as ToolMessage;
      const inner = (messages[2] as AIMessage).additional_kwargs["one"] as HumanMessage[];
      expect(inner[1]?.constructor).toBe(HumanMessage);
      expect(difference(artifact, other)).toBeUndefined();
      expect(difference((messages[2] as AIMessage).lc_kwargs["additional_kwargs"].one[0], one)).toBeUndefined();
    }),
    { numRuns: casesOf(150) },
  );
});

it("a value that can't be stored is a TypeError that names the channel and the path", async () => {
  let refused = 0;
  const any = valuesOf(fc.oneof({ arbitrary: leaf, weight: 6 }, { arbitrary: refusable, weight: 1 }));
  await fc.assert(
    fc.asyncProperty(any, async (value) => {
      const error: unknown = await serializedValue(serde, value, "c").then(
        () => undefined,
        (reason) => reason,
      );
      if (error === undefined) return;
      expect(error).toBeInstanceOf(TypeError);
      const { message, cause } = error as TypeError;
      expect(message).toMatch(/^The value of channel "c" can't be saved: \$/);
      expect(culprits).toContain(follow(value, (cause as { path: string }).path));
      refused++;
    }),
    { numRuns: casesOf(500) },
  );
  expect(refused).toBeGreaterThan(casesOf(500) / 10);
});

it("each class of message is read as LangGraph's serializer reads it", async () => {
  const theirs = new JsonPlusSerializer();
  const more = { id: "i", name: "n", additional_kwargs: { aB: { c_d: [1] } }, response_metadata: { model_name: "m" } };
  const usage_metadata = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
  const tool_calls = [{ name: "find", args: { a_b: { lc: 1 } }, id: "c", type: "tool_call" as const }];
  const invalid_tool_calls = [{ name: "f", args: "{", id: "d", error: "cut" }];
  const messages: readonly BaseMessage[] = [
    new HumanMessage("text"),
    new HumanMessage({ ...more, content: [{ type: "image_url", image_url: { url: "data:" } }] }),
    new SystemMessage({ ...more, content: "text" }),
    // The type has this property only for a model of known structure.
    Reflect.construct(AIMessage, [{ ...more, content: "text", usage_metadata, tool_calls: [] }]),
    new AIMessage({ content: "text", tool_calls, invalid_tool_calls }),
    new AIMessage({ ...more, content: "", additional_kwargs: { lc: 2 } }),
    new ToolMessage({ ...more, content: "text", tool_call_id: "c", status: "error", artifact: { a_b: [] } }),
    new ToolMessage({ content: "text", tool_call_id: "c", metadata: { other_key: 1 } }),
    new AIMessageChunk({ content: "te", tool_call_chunks: [{ name: "f", args: "{}", index: 0, id: "c" }] }),
    new RemoveMessage({ id: "i" }),
    new ChatMessage({ content: "text", role: "critic" }),
    Object.assign(new HumanMessage({ content: "text", ...{ own_key: 1 } }), {}),
  ];
  for (const message of messages) {
    const [type, bytes] = await theirs.dumpsTyped(message);
    const expected = await theirs.loadsTyped(type, bytes);
    const { loaded } = await roundTrip(message);
    expect(isDeepStrictEqual(loaded, expected), JSON.stringify(message)).toBe(true);
    expect(loaded).toBeInstanceOf(message.constructor);
  }
});
