// The calls that the saver makes to a storage.
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type BaseCheckpointSaver, emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import type { WaymarkSaver } from "waymark/langgraph";
import { collect } from "../../support/postgres.js";
import { newPlace, type Place, saverOn, threadOf, writesOf } from "./storages.js";

const State = Annotation.Root({ kept: Annotation<string>, count: Annotation<number> });

const compiled = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(State)
    .addNode("one", ({ count }) => ({ count: count + 1 }))
    .addNode("two", ({ count }) => ({ count: count + 1 }))
    .addEdge(START, "one")
    .addEdge("one", "two")
    .compile({ checkpointer });

/** A saver, and every later call to its storage. */
function countingOn(place: Place) {
  const counts = { appends: 0, records: 0 };
  const counted = async function* <Item>(items: AsyncIterable<Item>) {
    for await (const item of items) {
      counts.records += 1;
      yield item;
    }
  };
  const storage = place.open();
  const { log } = storage;
  if (log === undefined) throw new Error("The storage has no log.");
  const counting: StorageAdapter = {
    name: storage.name,
    capabilities: storage.capabilities,
    append: (...args) => {
      counts.appends += 1;
      return storage.append(...args);
    },
    get: (...args) => {
      counts.records += 1;
      return storage.get(...args);
    },
    read: (query) => counted(storage.read(query)),
    list: (query) => counted(storage.list(query)),
    tasks: (query) => counted(storage.tasks(query)),
    setStatus: (...args) => storage.setStatus(...args),
    remove: (...args) => storage.remove(...args),
    close: () => storage.close(),
    log: {
      append: (...args) => {
        counts.appends += 1;
        return log.append(...args);
      },
      read: (query) => counted(log.read(query)),
      remove: (...args) => log.remove(...args),
    },
  };
  return { saver: saverOn({ ...place, open: () => counting }), counts };
}

/** Makes a thread of `turns` turns with four checkpoints each. */
async function placeWith(kind: "memory" | "sqlite", turns: number): Promise<Place> {
  const place = await newPlace(kind);
  const graph = compiled(saverOn(place));
  for (let turn = 0; turn < turns; turn++) await graph.invoke({ kept: "always", count: turn }, threadOf("t"));
  return place;
}

describe.each(["memory", "sqlite"] as const)("on %s", (kind) => {
  it("each put and each putWrites is one append", async () => {
    const place = await newPlace(kind);
    const { saver, counts } = countingOn(place);
    for (const count of [1, 2, 3]) await compiled(saver).invoke({ kept: "always", count }, threadOf("t"));
    expect(await collect(place.open().tasks({ order: "taskId" }))).toMatchObject([{ count: 12 }]);
    // Each turn's input and its two nodes.
    expect(await writesOf(place, "t")).toHaveLength(9);
    expect(counts.appends).toBe(12 + 9);
  });

  it("a checkpoint's record has the changed values, and names the checkpoints that have the others", async () => {
    const place = await placeWith(kind, 1);
    const records = await collect(place.open().read({ taskId: "langgraph/t/c/", order: "oldest" }));
    const [, second, third, last] = records.map((record) => {
      if (isCorrupt(record)) throw new Error("A record is damaged.");
      const { values } = JSON.parse(`${record.payload.body}`);
      return { id: record.id, values: Object.keys(values), holders: record.metadata?.["holders"] };
    });
    expect(second?.values).toEqual(["kept", "count", "branch:to:one"]);
    expect(third).toMatchObject({ values: ["count", "branch:to:two"], holders: { kept: second?.id } });
    expect(last).toMatchObject({ values: ["count"], holders: { kept: second?.id } });
  });

  it("the newest checkpoint is found without reading the others, however many there are", async () => {
    const costs = [];
    for (const turns of [2, 30]) {
      const { saver, counts } = countingOn(await placeWith(kind, turns));
      expect((await saver.getTuple(threadOf("t")))?.metadata?.step).toBe(turns * 4 - 2);
      costs.push(counts.records);
    }
    expect(costs[0]).toBeLessThan(6);
    expect(costs[1]).toBe(costs[0]);
  });

  it("a part of a thread's history is read without the rest", async () => {
    const costs = [];
    for (const turns of [10, 50]) {
      const { saver, counts } = countingOn(await placeWith(kind, turns));
      expect(await collect(saver.list(threadOf("t"), { limit: 10 }))).toHaveLength(10);
      costs.push(counts.records);
    }
    // A page of sixteen summaries, a page of sixteen headers, ten checkpoints, and those that store their values. Each has
    // writes.
    expect(costs[0]).toBeLessThan(16 + 16 + 2 * 10 + 5);
    expect(costs[1]).toBe(costs[0]);
  });
});

it("a thread stays in memory while another one continues, of which the last checkpoint is enough", async () => {
  const { saver, counts } = countingOn(await placeWith("memory", 1));
  await saver.getTuple(threadOf("t"));
  let config: Parameters<WaymarkSaver["put"]>[0] = threadOf("large", { checkpoint_ns: "" });
  const channel_values = { kept: "k".repeat(1_000_000) };
  for (let step = 0; step < 20; step++) {
    const checkpoint = { ...emptyCheckpoint(), id: uuid6(step), channel_values, channel_versions: { kept: 1 } };
    config = await saver.put(config, checkpoint, { source: "loop", step, parents: {} }, step === 0 ? { kept: 1 } : {});
  }
  counts.records = 0;
  await saver.getTuple(threadOf("t"));
  expect(counts.records).toBe(1);
});
