// Pending writes that contain values of their checkpoint: the values are stored once.
import { HumanMessage } from "@langchain/core/messages";
import { Annotation, interrupt, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { type BaseCheckpointSaver, JsonPlusSerializer } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CheckpointCorruptError, encrypt } from "waymark";
import { marked, unmarked } from "../../../systems/langgraph/marks.js";
import { collect } from "../../support/postgres.js";
import { newPlace, type Place, saverOn, threadOf, writesOf } from "./storages.js";

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  files: Annotation<Record<string, string>>,
  seen: Annotation<Map<string, unknown>>,
});

/** Sends the whole state to three workers, one of which asks a person. */
function graphOn(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode("model", () => ({ messages: [new HumanMessage({ id: "m2", content: "the newest" })] }))
    .addNode("worker", ({ messages, asks }: typeof State.State & { asks: boolean }) => {
      const answer = asks ? interrupt({ messages }) : "done";
      return { messages: [new HumanMessage({ id: "m3", content: String(answer) })] };
    })
    .addEdge(START, "model")
    .addConditionalEdges("model", (state) => [false, true, false].map((asks) => new Send("worker", { ...state, asks })))
    .compile({ checkpointer });
}

const INPUT = {
  messages: [new HumanMessage({ id: "m1", content: "a long question ".repeat(1000) })],
  files: { "a.txt": "a file of many lines\n".repeat(1000), "7": 'a key that is a number "' },
  seen: new Map([["a", new Date(0)]]),
};

describe.each([
  ["memory", {}],
  ["json-file", {}],
  ["sqlite", { transforms: [encrypt({ keys: { k: new Uint8Array(32).fill(1) }, current: "k" })] }],
  ["postgres", {}],
  // Values are LangGraph's own JSON.
  ["memory", { serde: new JsonPlusSerializer() }],
] as const)("on %s, with %o", (kind, options) => {
  it("a Send of the whole state takes the space of its new parts, and comes back whole", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place, options);
    const taken = await graphOn(saver).invoke(INPUT, { ...threadOf("t"), durability: "sync" });
    // The input has 36 KB, the question 17 KB, and each Send alone would have 36 KB.
    expect(await bytesOfWrites(place)).toBeLessThan(70_000);

    const tuples = await Promise.all([saver, saverOn(place, options)].map((one) => collect(one.list(threadOf("t")))));
    expect(tuples[1]).toEqual(tuples[0]);
    const sends = (tuples[1] ?? []).flatMap(({ pendingWrites = [] }) => pendingWrites.filter(([, to]) => to === TASKS));
    expect(sends).toHaveLength(3);
    for (const [, , send] of sends) {
      const { messages, files } = (send as { args: typeof taken }).args;
      expect(messages.map(({ text }) => text)).toEqual([INPUT.messages[0]?.text, "the newest"]);
      expect(JSON.stringify(files)).toBe(JSON.stringify(INPUT.files));
    }
    expect(await saver.threads()).toMatchObject([{ asks: [{ messages: [{ id: "m1" }, { id: "m2" }] }] }]);

    await saver.copyThread("t", "copy");
    const copies = await collect(saverOn(place, options).list(threadOf("copy")));
    expect(copies.map(({ pendingWrites }) => pendingWrites)).toEqual(
      tuples[0]?.map(({ pendingWrites }) => pendingWrites),
    );
  });
});

const TASKS = "__pregel_tasks";

async function bytesOfWrites(place: Place): Promise<number> {
  return (await writesOf(place, "t")).reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0);
}

describe("marks", () => {
  const long = Array.from({ length: 400 }, (_, item) => item);
  const channels = [["messages", JSON.stringify(long)]] as const;

  it.each([
    ["all items", { args: long }],
    ["the first items", { args: [...long, "new"] }],
    ["the items twice", { args: long, again: [...long, 1] }],
  ])("stand for %s of a list", (_, value) => {
    const json = JSON.stringify(value);
    const { text, marks } = marked(json, channels);
    expect(text.length).toBeLessThan(250);
    expect(Object.values(marks ?? {})).toEqual(["messages"]);
    expect(textAgain(text, marks, channels)).toBe(json);
  });

  it("don't stand for a part that only begins like an item", () => {
    const json = JSON.stringify({ args: [...long.slice(0, -1), 3990, "new"] });
    expect(marked(json, channels)).toEqual({ text: json, marks: undefined });
  });

  it("are refused if the checkpoint has another value by now", () => {
    const { text, marks } = marked(JSON.stringify({ args: long }), channels);
    const other = [["messages", JSON.stringify([...long, 1])]] as const;
    expect(() => textAgain(text, marks, other)).toThrow(CheckpointCorruptError);
  });

  it("restore the same text, whatever it contains", () => {
    const piece = fc.oneof(fc.string(), fc.constantFrom('["', '",', "[", "]", "\\", '"'), fc.integer(), fc.jsonValue());
    const some = fc.array(piece, { maxLength: 4 });
    fc.assert(
      fc.property(fc.array(some, { minLength: 1, maxLength: 3 }), some, some, (lists, before, after) => {
        const values = lists.map((items, channel) => {
          const value = channel % 2 === 0 ? [...items, "x".repeat(1100)] : { items, text: "y".repeat(1100) };
          return [`c${channel}`, JSON.stringify(value)] as const;
        });
        const parsed = values.map(([, value]): unknown => JSON.parse(value));
        const inAList = parsed.map((value) => (Array.isArray(value) ? [...value, ...after] : value));
        const json = JSON.stringify({ before, inAList, also: [parsed, values, JSON.stringify(inAList)], after });
        const { text, marks } = marked(json, values);
        expect(text.length).toBeLessThan(json.length);
        expect(textAgain(text, marks, values)).toBe(json);
      }),
      { numRuns: 300 },
    );
  });
});

function textAgain(
  text: string,
  marks: ReturnType<typeof marked>["marks"],
  channels: readonly (readonly [string, string])[],
): string {
  const write = { channel: TASKS, index: 0, marked: { json: JSON.parse(text) }, marks: marks ?? {} };
  const [whole] = unmarked({ taskId: "", taskPath: "", stateVersion: 1, writes: [write] }, (of) =>
    new Map(channels).get(of),
  ).writes;
  return whole && "json" in whole.value ? JSON.stringify(whole.value.json) : "";
}
