import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
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
import { difference } from "../../unit/codec/difference.js";
import { follow } from "../../unit/codec/follow.js";

const serde = new DefaultSerializer();

/** As it comes back from a storage, also after a reading that a saver has in its memory. */
async function roundTrip(value: unknown) {
  const written = await serializedValue(serde, value, "c");
  const stored = structuredClone(storedValue(written));
  expect(serializedFrom(stored)).toEqual(written);
  return { stored, loaded: await loadedValue(serde, serializedFrom(stored)) };
}

it("any value comes back as it was, data that looks like a tag or like a record of LangChain's too", async () => {
  const seen = { json: 0, tagged: 0 };
  await fc.assert(
    fc.asyncProperty(fc.oneof(valuesOf(leaf), plain), async (value) => {
      const { stored, loaded } = await roundTrip({ value });
      expect(difference(loaded, { value })).toBeUndefined();
      if ("json" in stored) expect(stored.json).toEqual(JSON.parse(JSON.stringify({ value })));
      seen["json" in stored ? "json" : "tagged"]++;
    }),
    { numRuns: 600 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(50);
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
      expect(messages).toEqual(given());
      expect(messages.map((each) => each.constructor)).toEqual([Object, ToolMessage, AIMessage]);
      const { artifact } = messages[1] as ToolMessage;
      const inner = (messages[2] as AIMessage).additional_kwargs["one"] as HumanMessage[];
      expect([artifact, inner[1]?.constructor]).toEqual([other, HumanMessage]);
      expect((messages[2] as AIMessage).lc_kwargs["additional_kwargs"].one[0]).toEqual(one);
    }),
    { numRuns: 150 },
  );
});

it("it is a TypeError that names the channel and the path, wherever in the value it stands", async () => {
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
    { numRuns: 500 },
  );
  expect(refused).toBeGreaterThan(50);
});
