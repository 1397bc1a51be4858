import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { expect, it } from "vitest";
import { MemoryAdapter } from "waymark/adapters/memory";
import { WaymarkSaver } from "waymark/langgraph";

const METADATA = { source: "loop", step: 0, parents: {} } as const;

it.each([
  ["a storage alone", new MemoryAdapter(), /takes options: new WaymarkSaver\(\{ storage \}\)/],
  ["a misspelled option", { storage: new MemoryAdapter(), retension: {} }, /no "retension"/],
  [
    "a serializer that is none",
    { storage: new MemoryAdapter(), serde: {} },
    /serde must have dumpsTyped and loadsTyped/,
  ],
  ["a migration that is none", { storage: new MemoryAdapter(), migrations: { 1: 3 } }, /migrations/],
  ["an exclusive that is none", { storage: new MemoryAdapter(), exclusive: "no" }, /exclusive must be true or false/],
])("refuses %s", (_what, options, message) => {
  // As a program in JavaScript may.
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

it("names the channel whose value can't be stored", async () => {
  const saver = new WaymarkSaver({ storage: new MemoryAdapter() });
  const config = { configurable: { thread_id: "t" } };
  const checkpoint = { ...emptyCheckpoint(), channel_values: { tool: () => 1 }, channel_versions: { tool: 1 } };
  await expect(saver.put(config, checkpoint, METADATA, { tool: 1 })).rejects.toThrow(/"tool" is a function/);
  const written = saver.putWrites(
    { configurable: { thread_id: "t", checkpoint_id: "c" } },
    [["tool", Symbol("s")]],
    "n",
  );
  await expect(written).rejects.toThrow(/"tool" is a symbol/);
  expect(await saver.getTuple(config)).toBeUndefined();
});
