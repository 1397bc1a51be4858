import { ToolMessage } from "@langchain/core/messages";
import { Annotation, Command, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import {
  type BaseCheckpointSaver,
  emptyCheckpoint,
  JsonPlusSerializer,
  MemorySaver,
} from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { describe, expect, it } from "vitest";
import { differences, documentedDifferences, tableOf } from "./kinds.js";
import { newPlace, saverOn, threadOf } from "./storages.js";

const metadata = { source: "loop", step: 0, parents: {} } as const;

it("docs/langgraph.md shows which kinds of values MemorySaver and SqliteSaver return in another form", async () => {
  const here = await tableOf(saverOn(await newPlace("memory")));
  const documented = await documentedDifferences();
  expect(differences(here, await tableOf(new MemorySaver()))).toBe(documented);
  expect(differences(here, await tableOf(SqliteSaver.fromConnString(":memory:")))).toBe(documented);
});

/** LangGraph itself fails on a BigInt in a question. */
const question = () => ({ at: new Date(7), index: new Map([["a", new Set([Number.NaN, undefined])]]) });
const rich = () => ({ ...question(), big: 12n });
const State = Annotation.Root({ ...MessagesAnnotation.spec, rich: Annotation<unknown>, answer: Annotation<unknown> });
const compiled = (checkpointer: BaseCheckpointSaver, node: () => typeof State.Update) =>
  new StateGraph(State)
    .addNode("first", node)
    .addNode("person", () => ({ answer: interrupt(question()) }))
    .addEdge(START, "first")
    .addEdge("first", "person")
    .compile({ checkpointer });

describe.each(["memory", "sqlite"] as const)("on %s", (kind) => {
  it("an input, a state, a question, its answer and the metadata come back as they were", async () => {
    const place = await newPlace(kind);
    const message = () => new ToolMessage({ content: "found", tool_call_id: "c", id: "m", artifact: rich() });
    const graph = () => compiled(saverOn(place), () => ({ rich: rich(), messages: [message()] }));
    await graph().invoke({ answer: rich() }, threadOf("t"));

    const state = await graph().getState(threadOf("t"));
    expect(state.values).toEqual({ answer: rich(), rich: rich(), messages: [message()] });
    expect(state.tasks[0]?.interrupts[0]?.value).toEqual(question());
    await graph().invoke(new Command({ resume: { yes: rich() } }), threadOf("t"));
    expect((await graph().getState(threadOf("t"))).values).toMatchObject({ answer: { yes: rich() } });

    await saverOn(place).put(threadOf("m"), emptyCheckpoint(), { ...metadata, ...rich() }, {});
    expect((await saverOn(place).getTuple(threadOf("m")))?.metadata).toEqual({ ...metadata, ...rich() });
  });

  it("a value that can't be stored is a TypeError with its channel and path, and nothing of it is stored", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place);
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = [cyclic];
    const message = new ToolMessage({ content: "found", tool_call_id: "c", artifact: { run: () => 1 } });
    const refused: readonly (readonly [typeof State.Update, string])[] = [
      [{ rich: { list: [1, { run: () => 1 }] } }, '"rich" can\'t be saved: $.list[1].run is a function'],
      [{ rich: cyclic }, '"rich" can\'t be saved: $.self[0] is a cycle'],
      [{ rich: Symbol("s") }, '"rich" can\'t be saved: $ is a symbol'],
      [{ rich: new (class Session {})() }, '"rich" can\'t be saved: $ is an instance of class Session'],
      [{ messages: [message] }, '"messages" can\'t be saved: $[0].artifact.run is a function'],
    ];
    for (const [value, path] of refused) {
      const run = compiled(saver, () => value).invoke({ answer: 1 }, { ...threadOf(path), durability: "sync" });
      const error: unknown = await run.catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(TypeError);
      expect((error as TypeError).message).toContain(`The value of channel ${path}`);
      const tuple = await saverOn(place).getTuple(threadOf(path));
      expect(tuple).toMatchObject({ checkpoint: { channel_values: { answer: 1 } }, pendingWrites: [] });
    }
    await expect(
      saver.put(threadOf("m"), emptyCheckpoint(), { ...metadata, run: () => 1 } as typeof metadata, {}),
    ).rejects.toThrow("A checkpoint's metadata can't be saved: $.run is a function.");
    expect(await saver.getTuple(threadOf("m"))).toBeUndefined();
  });

  it("a user's own serde is used unchanged, and a value that it would lose is refused", async () => {
    const serde = new JsonPlusSerializer();
    const place = await newPlace(kind);
    const put = async (value: unknown, thread: string, read?: object) => {
      const checkpoint = { ...emptyCheckpoint(), channel_values: { value }, channel_versions: { value: 1 } };
      await saverOn(place, { serde }).put(threadOf(thread), checkpoint, metadata, { value: 1 });
      for (const options of [{ serde }, {}]) {
        const tuple = await saverOn(place, options).getTuple(threadOf(thread));
        expect(tuple?.checkpoint.channel_values).toEqual({ value: read ?? JSON.parse(JSON.stringify(value)) });
      }
    };
    await put({ at: new Date(7) }, "date");
    const map = { of: new Map<unknown, unknown>([["a", { deep: new Set([1]) }]]) };
    await put(map, "map", map);
    await put(["[Circular]", "[unable to serialize, circular reference is too complex to analyze]"], "texts");
    await put("[unable to serialize, circular reference is too complex to analyze]", "text");
    await expect(put({ big: 1n }, "big")).rejects.toThrow(
      'The value of channel "value" can\'t be saved: it is a value',
    );
    const cyclic: { self?: unknown } = {};
    cyclic.self = cyclic;
    await expect(put(cyclic, "cycle")).rejects.toThrow("it is a value with a cycle");
    await expect(put(() => 1, "function")).rejects.toThrow("it is a function");

    // Values with tags need no serializer.
    await compiled(saverOn(place), () => ({ rich: rich() })).invoke({}, threadOf("tagged"));
    const tuple = await saverOn(place, { serde }).getTuple(threadOf("tagged"));
    expect(tuple?.checkpoint.channel_values).toMatchObject({ rich: rich() });
  });
});
