import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { expect, it } from "vitest";
import { encrypt, gzip, type Transform } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { WaymarkSaver } from "waymark/langgraph";
import { collect } from "../../support/postgres.js";
import { newPlace, type StorageKind, saverOn } from "./storages.js";

const METADATA = { source: "loop", step: 0, parents: {} } as const;

it.each([
  ["a storage alone", new MemoryAdapter(), /takes options: new WaymarkSaver\(\{ storage \}\)/],
  ["a misspelled option", { storage: new MemoryAdapter(), retension: {} }, /no "retension"/],
  ["an invalid serializer", { storage: new MemoryAdapter(), serde: {} }, /serde must have dumpsTyped and loadsTyped/],
  ["an invalid migration", { storage: new MemoryAdapter(), migrations: { 1: 3 } }, /^options.migrations\[1\] must/],
  ["an invalid storage", { storage: "sqlite:agent.db" }, /^options.storage must be a StorageAdapter/],
  ["an invalid `exclusive`", { storage: new MemoryAdapter(), exclusive: "no" }, /exclusive must be true or false/],
])("refuses %s", (_what, options, message) => {
  // A JavaScript program may pass this.
  expect(() => new WaymarkSaver(options as never)).toThrow(message);
});

it.each([42, ""])("refuses %j as a thread's id", async (thread_id) => {
  const saver = new WaymarkSaver({ storage: new MemoryAdapter() });
  const config = { configurable: { thread_id } };
  const message = `"thread_id" in "configurable" must be a string that isn't empty; it is ${JSON.stringify(thread_id)}.`;
  await expect(saver.getTuple(config)).rejects.toThrow(message);
  await expect(saver.put(config, emptyCheckpoint(), METADATA, {})).rejects.toThrow(message);
  await expect(saver.list(config).next()).rejects.toThrow(message);
});

it.each([undefined, 42, ""])(
  "refuses to delete or prune the thread %j: that could be all of them",
  async (threadId) => {
    const saver = new WaymarkSaver({ storage: new MemoryAdapter() });
    const config = { configurable: { thread_id: "t" } };
    await saver.put(config, emptyCheckpoint(), METADATA, {});
    await saver.put(config, { ...emptyCheckpoint(), id: uuid6(1) }, METADATA, {});
    const message = `A thread's id must be a string that isn't empty; it is ${JSON.stringify(threadId)}.`;
    // A JavaScript program may pass this.
    await expect(saver.deleteThread(threadId as never)).rejects.toThrow(message);
    await expect(saver.prune(threadId as never, { keepLast: 1 })).rejects.toThrow(message);
    expect(await collect(saver.list(config))).toHaveLength(2);
  },
);

it.each([
  [{ keepLst: 1 }, /no "keepLst"/],
  [{}, /at least one rule or limit/],
  [undefined, /retention policy/],
  [{ keepLast: 0 }, /keepLast of a retention policy must be a whole number from 1/],
])("refuses to prune by %o, even a thread without checkpoints", async (policy, message) => {
  const saver = new WaymarkSaver({ storage: new MemoryAdapter() });
  await expect(saver.prune("t", policy as never)).rejects.toThrow(message);
});

it("names the channel whose value can't be stored", async () => {
  const saver = new WaymarkSaver({ storage: new MemoryAdapter() });
  const config = { configurable: { thread_id: "t" } };
  const checkpoint = { ...emptyCheckpoint(), channel_values: { tool: () => 1 }, channel_versions: { tool: 1 } };
  await expect(saver.put(config, checkpoint, METADATA, { tool: 1 })).rejects.toThrow(
    /"tool" can.t be saved: \$ is a function/,
  );
  const written = saver.putWrites(
    { configurable: { thread_id: "t", checkpoint_id: "c" } },
    [["tool", Symbol("s")]],
    "n",
  );
  await expect(written).rejects.toThrow(/"tool" can.t be saved: \$ is a symbol/);
  expect(await saver.getTuple(config)).toBeUndefined();
});

it("warns of gzip on a database, where it makes unencrypted threads larger", async () => {
  const key = encrypt({ keys: { k: Buffer.alloc(32) }, current: "k" });
  const warningsOf = async (kind: StorageKind, transforms: readonly Transform[]) =>
    saverOn(await newPlace(kind), { transforms }).logged.filter(({ level }) => level === "warn");
  expect(await warningsOf("sqlite", [gzip()])).toMatchObject([
    { message: expect.stringMatching(/^gzip makes threads larger here: .* Leave gzip out$/) },
  ]);
  expect(await warningsOf("sqlite", [gzip(), key])).toEqual([]);
  expect(await warningsOf("sqlite", [key])).toEqual([]);
  expect(await warningsOf("json-file", [gzip()])).toEqual([]);
});
