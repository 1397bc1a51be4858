import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import type { ChannelMigration, WaymarkSaverOptions } from "waymark/langgraph";
import { collect } from "../../support/postgres.js";
import { newPlace, type Place, saverOn, threadOf } from "./storages.js";

const log = { reducer: (all: string[], more: string[]) => [...all, ...more], default: () => [] };

/** The graph of the first version: it drafts and asks a person, while a second node finishes. */
const older = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(
    Annotation.Root({
      text: Annotation<string>,
      legacy: Annotation<string>,
      log: Annotation<string[]>(log),
      kept: Annotation<string>,
    }),
  )
    .addNode("draft", () => ({ text: "a draft", legacy: "to be dropped", log: ["draft"] }))
    .addNode("person", () => ({ log: [interrupt("go on?")] }))
    .addNode("beside", () => ({ log: ["beside, of the older graph"] }))
    .addEdge(START, "draft")
    .addEdge("draft", "person")
    .addEdge("draft", "beside")
    .compile({ checkpointer });

/** The graph of the second version: `text` became `body`, `legacy` is gone, and `count` is new. */
const newer = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(
    Annotation.Root({
      body: Annotation<string>,
      count: Annotation<number>({ reducer: (_, next) => next, default: () => 0 }),
      log: Annotation<string[]>(log),
      kept: Annotation<string>,
    }),
  )
    .addNode("draft", () => ({ body: "another draft", log: ["draft"] }))
    .addNode("person", () => ({ log: [interrupt("go on?")] }))
    .addNode("beside", () => ({ log: ["beside, of the newer graph"] }))
    .addNode("finish", ({ body, count }) => ({ body: `${body}, finished`, count: count + 1, log: ["finish"] }))
    .addEdge(START, "draft")
    .addEdge("draft", "person")
    .addEdge("draft", "beside")
    .addEdge("person", "finish")
    .compile({ checkpointer });

const rename: ChannelMigration = ({ text, legacy: _, ...rest }) =>
  text === undefined ? rest : { ...rest, body: text };
const VERSION_2: Partial<WaymarkSaverOptions> = { stateVersion: 2, migrations: { 1: rename } };

/** A thread of the older graph that waits for a person. */
async function paused(kind: "memory" | "sqlite"): Promise<Place> {
  const place = await newPlace(kind);
  await older(saverOn(place)).invoke({ kept: "from the input" }, threadOf("t"));
  return place;
}

describe.each(["memory", "sqlite"] as const)("on %s", (kind) => {
  it("a thread of an older graph resumes on a newer one with a renamed, a new and a removed channel", async () => {
    const place = await paused(kind);
    const saver = saverOn(place, VERSION_2);
    const resumed = await newer(saver).invoke(new Command({ resume: "yes" }), threadOf("t"));
    const ended = {
      kept: "from the input",
      body: "a draft, finished",
      count: 1,
      log: ["draft", "beside, of the older graph", "yes", "finish"],
    };
    expect(resumed).toEqual(ended);

    // Nothing has to be migrated again, and the unchanged values are still there.
    const next = saverOn(place, { stateVersion: 2, migrations: { 1: () => ({ kept: "migrated again" }) } });
    expect((await newer(next).getState(threadOf("t"))).values).toEqual(ended);
    const { checkpoint } = (await next.getTuple(threadOf("t"))) ?? {};
    expect(checkpoint?.channel_values).not.toHaveProperty("legacy");
    expect(checkpoint?.channel_versions).not.toHaveProperty("legacy");
    expect(await newer(next).invoke({}, threadOf("t"))).toMatchObject({ kept: "from the input", count: 1 });
  });

  it("a removed channel is reported once", async () => {
    const place = await paused(kind);
    const saver = saverOn(place, VERSION_2);
    await saver.getTuple(threadOf("t"));
    await collect(saver.list(threadOf("t")));
    const warnings = saver.logged.filter(({ level }) => level === "warn");
    expect(warnings).toEqual([
      expect.objectContaining({
        message: expect.stringContaining("text, legacy"),
        details: expect.objectContaining({ channels: ["text", "legacy"] }),
      }),
    ]);
  });

  it("old checkpoints of the thread stay readable, and can be branched from", async () => {
    const place = await paused(kind);
    const graph = newer(saverOn(place, VERSION_2));
    await graph.invoke(new Command({ resume: "yes" }), threadOf("t"));
    const states = await collect(graph.getStateHistory(threadOf("t")));
    const old = states.find(({ next }) => next.includes("person"));
    expect(old?.values).toMatchObject({ body: "a draft", kept: "from the input", log: ["draft"] });
    const updated = await graph.updateState(old?.config ?? {}, { body: "by hand" });
    expect((await graph.getState(updated)).values).toMatchObject({ body: "by hand", kept: "from the input" });
    const copied = await graph.updateState(old?.config ?? {}, null, "__copy__");
    expect((await newer(saverOn(place, { stateVersion: 2 })).getState(copied)).values).toMatchObject({
      body: "a draft",
    });
  });

  it("a task whose result went to a removed channel runs again", async () => {
    const place = await newPlace(kind);
    const runs: string[] = [];
    const graph = (checkpointer: BaseCheckpointSaver, channel: "old" | "fresh") =>
      new StateGraph(Annotation.Root({ old: Annotation<string>, fresh: Annotation<string>, same: Annotation<string> }))
        .addNode("renamed", () => {
          runs.push(`renamed, to ${channel}`);
          return { [channel]: "a result" };
        })
        .addNode("unchanged", () => {
          runs.push("unchanged");
          return { same: "another result" };
        })
        .addNode("person", () => (interrupt("go on?") === "yes" ? {} : {}))
        .addEdge(START, "renamed")
        .addEdge(START, "unchanged")
        .addEdge(START, "person")
        .compile({ checkpointer });
    await graph(saverOn(place), "old").invoke({ old: "first" }, threadOf("t"));
    const migrations = { 1: ({ old, ...rest }: Record<string, unknown>) => ({ ...rest, fresh: old }) };
    const resumed = graph(saverOn(place, { stateVersion: 2, migrations }), "fresh");
    expect(await resumed.invoke(new Command({ resume: "yes" }), threadOf("t"))).toEqual({
      fresh: "a result",
      same: "another result",
    });
    expect(runs.sort()).toEqual(["renamed, to fresh", "renamed, to old", "unchanged"]);
  });

  it("a migration may leave out LangGraph's own channels", async () => {
    const place = await paused(kind);
    const migrations = { 1: ({ text, log, kept }: Record<string, unknown>) => ({ body: text, log, kept }) };
    const graph = newer(saverOn(place, { stateVersion: 2, migrations }));
    expect((await graph.getState(threadOf("t"))).next).toEqual(["person"]);
    expect(await graph.invoke(new Command({ resume: "yes" }), threadOf("t"))).toMatchObject({
      body: "a draft, finished",
    });
  });

  it("migrations run one after another", async () => {
    const place = await paused(kind);
    const migrations = {
      1: rename,
      2: ({ body, ...rest }: Record<string, unknown>) => ({ ...rest, body: `${body}, of 3` }),
    };
    const saver = saverOn(place, { stateVersion: 3, migrations });
    expect((await saver.getTuple(threadOf("t")))?.checkpoint.channel_values).toMatchObject({ body: "a draft, of 3" });
  });

  it("an older program that meets a newer record gets a typed error, and changes nothing", async () => {
    const place = await paused(kind);
    await newer(saverOn(place, VERSION_2)).invoke(new Command({ resume: "yes" }), threadOf("t"));
    const stored = await collect(saverOn(place, VERSION_2).list(threadOf("t")));
    const saver = saverOn(place);
    const refused = { code: "UNSUPPORTED_FORMAT", message: expect.stringContaining("load it with the newer program") };
    await expect(saver.getTuple(threadOf("t"))).rejects.toMatchObject(refused);
    await expect(collect(saver.list(threadOf("t")))).rejects.toMatchObject(refused);
    await expect(older(saver).invoke({ text: "next" }, threadOf("t"))).rejects.toMatchObject(refused);
    const newest = stored[0]?.config ?? {};
    await expect(older(saver).updateState(newest, { text: "next" })).rejects.toMatchObject(refused);
    expect(await collect(saverOn(place, VERSION_2).list(threadOf("t")))).toEqual(stored);
  });

  const refusals: [string, NonNullable<WaymarkSaverOptions["migrations"]>, string][] = [
    ["is missing", {}, "no migration from version 1 to 2. It was left untouched; add the migration"],
    [
      "throws",
      {
        1: () => {
          throw new Error("no such text");
        },
      },
      "from 1 to 2 failed: no such text",
    ],
    ["is asynchronous", { 1: (async () => ({})) as unknown as ChannelMigration }, "not a promise"],
    ["returns nothing", { 1: (() => undefined) as unknown as ChannelMigration }, "must return one"],
  ];
  it.each(refusals)("a migration that %s causes a typed error that says what to do", async (_, migrations, message) => {
    const place = await paused(kind);
    const graph = newer(saverOn(place, { stateVersion: 2, migrations }));
    const refused = { code: "UNSUPPORTED_FORMAT", message: expect.stringContaining(message) };
    await expect(graph.getState(threadOf("t"))).rejects.toMatchObject(refused);
    await expect(graph.invoke(new Command({ resume: "yes" }), threadOf("t"))).rejects.toMatchObject(refused);
    expect(await newer(saverOn(place, VERSION_2)).invoke(new Command({ resume: "yes" }), threadOf("t"))).toMatchObject({
      count: 1,
    });
  });

  it("migrations that aren't functions, or have no version as key, are refused at once", async () => {
    const place = await newPlace(kind);
    for (const migrations of [{ 1: "rename" }, { one: rename }, [rename], null]) {
      const options = { stateVersion: 2, migrations } as unknown as WaymarkSaverOptions;
      expect(() => saverOn(place, options)).toThrow(TypeError);
    }
  });
});
