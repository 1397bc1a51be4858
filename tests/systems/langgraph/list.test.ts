import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type CheckpointListOptions,
  type CheckpointMetadata,
  emptyCheckpoint,
  uuid6,
} from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import type { WaymarkSaver } from "waymark/langgraph";
import { collect } from "../../support/postgres.js";
import { newPlace, saverOn, threadOf } from "./storages.js";

type Metadata = CheckpointMetadata<Record<string, unknown>>;

/** Puts a checkpoint with this metadata. Returns its id. */
async function put(saver: WaymarkSaver, thread: string, more: Record<string, unknown> = {}, namespace = "") {
  const metadata: Metadata = { source: "loop", step: 0, parents: {}, ...more };
  const checkpoint = { ...emptyCheckpoint(), id: uuid6(0) };
  await saver.put(threadOf(thread, { checkpoint_ns: namespace }), checkpoint, metadata, {});
  return checkpoint.id;
}

async function idsOf(saver: WaymarkSaver, config: RunnableConfig, options?: CheckpointListOptions) {
  return (await collect(saver.list(config, options))).map(({ checkpoint }) => checkpoint.id);
}

describe.each(["memory", "sqlite"] as const)("a list on %s", (kind) => {
  it("is filtered by parts of the metadata, even nested ones", async () => {
    const saver = saverOn(await newPlace(kind));
    const a = await put(saver, "t", { user: { name: "ada", roles: ["admin", "dev"] }, score: 1, none: null });
    const b = await put(saver, "t", { user: { name: "bob", roles: ["dev"] }, score: 1 });
    const c = await put(saver, "t", { user: "ada", score: "1" });

    const filtered = (filter: Record<string, unknown>) => idsOf(saver, threadOf("t"), { filter });
    expect(await filtered({})).toEqual([c, b, a]);
    expect(await filtered({ source: "loop" })).toEqual([c, b, a]);
    expect(await filtered({ score: 1 })).toEqual([b, a]);
    expect(await filtered({ user: { name: "ada" } })).toEqual([a]);
    expect(await filtered({ user: { name: "ada", roles: ["admin", "dev"] } })).toEqual([a]);
    expect(await filtered({ user: { roles: ["dev"] } })).toEqual([b]);
    expect(await filtered({ user: { roles: ["admin"] } })).toEqual([]);
    expect(await filtered({ user: { roles: [] } })).toEqual([]);
    expect(await filtered({ user: "ada" })).toEqual([c]);
    expect(await filtered({ user: {} })).toEqual([b, a]);
    expect(await filtered({ none: null })).toEqual([a]);
    expect(await filtered({ user: { age: 7 } })).toEqual([]);
  });

  it("is of all threads and namespaces, of one thread's, or of one namespace", async () => {
    const saver = saverOn(await newPlace(kind));
    const a = await put(saver, "a");
    const b = await put(saver, "b", {}, "sub");
    const c = await put(saver, "a", {}, "sub");
    const d = await put(saver, "b");

    expect(await idsOf(saver, {})).toEqual([d, c, b, a]);
    expect(await idsOf(saver, threadOf("a"))).toEqual([c, a]);
    expect(await idsOf(saver, threadOf("b", { checkpoint_ns: "sub" }))).toEqual([b]);
    expect(await idsOf(saver, threadOf("b", { checkpoint_ns: "" }))).toEqual([d]);
    expect(await idsOf(saver, { configurable: { checkpoint_ns: "sub" } })).toEqual([c, b]);
    expect(await idsOf(saver, threadOf("nobody's"))).toEqual([]);
  });

  it("is refused if the name of a thread or namespace isn't a string: it would list all", async () => {
    const saver = saverOn(await newPlace(kind));
    await put(saver, "42");
    for (const configurable of [{ thread_id: 42 }, { thread_id: null }, { thread_id: "t", checkpoint_ns: 7 }]) {
      await expect(collect(saver.list({ configurable }))).rejects.toThrow(TypeError);
      await expect(saver.getTuple({ configurable })).rejects.toThrow("must be a string");
    }
  });

  it("pages by before and limit, which counts only matching checkpoints", async () => {
    const saver = saverOn(await newPlace(kind));
    const ids: string[] = [];
    for (let i = 0; i < 9; i++) ids.unshift(await put(saver, "t", { isOdd: i % 2 === 1 }));
    const paged: string[][] = [];
    for (let before = {}; ; ) {
      const page = await collect(saver.list(threadOf("t"), { limit: 3, filter: { isOdd: false }, before }));
      if (page.length === 0) break;
      paged.push(page.map(({ checkpoint }) => checkpoint.id));
      before = page.at(-1)?.config ?? {};
    }
    const even = ids.filter((_, i) => i % 2 === 0);
    expect(paged).toEqual([even.slice(0, 3), even.slice(3)]);
    expect(await idsOf(saver, threadOf("t"), { limit: 0 })).toEqual([]);
    expect(await idsOf(saver, threadOf("t", { checkpoint_id: ids[4] ?? "" }))).toEqual([ids[4]]);
    expect(await idsOf(saver, threadOf("t"), { before: threadOf("t", { checkpoint_id: ids.at(-1) ?? "" }) })).toEqual(
      [],
    );
  });
});
