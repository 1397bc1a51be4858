import { describe, expect, it } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

/** Makes a task of `count` checkpoints, each with its number as its state. */
async function taskOf(count: number, storage: StorageAdapter = new MemoryAdapter()) {
  const manager = new CheckpointManager({ storage, schema: z.number(), logger: recordingLogger() });
  for (let n = 1; n <= count; n++) await manager.save("t", n, { stage: n % 2 === 0 ? "even" : "odd" });
  return manager;
}

/** Damages these checkpoints when they are read. Counts the payloads that are read. */
function readThrough(storage: StorageAdapter, damaged: readonly number[] = []) {
  const reads = { count: 0 };
  const read = storage.read.bind(storage);
  storage.read = async function* (query) {
    for await (const record of read(query)) {
      reads.count += 1;
      if (isCorrupt(record) || !damaged.includes(record.sequence)) yield record;
      else if (record.sequence % 2 === 0) yield { ...record, label: "forged" };
      else yield { corrupt: true, location: `row ${record.sequence}`, reason: "torn" };
    }
  };
  return reads;
}

/** Returns the found checkpoint, and the states in the order in which the predicate got them. */
async function search(manager: Awaited<ReturnType<typeof taskOf>>, first: number, query = {}, mute: number[] = []) {
  const asked: number[] = [];
  const found = await manager.firstWhere(
    "t",
    ({ state }) => {
      asked.push(state);
      return mute.includes(state) ? undefined : state >= first;
    },
    query,
  );
  expect(new Set(asked).size, `each once: ${asked}`).toBe(asked.length);
  return { found: found?.state, asked };
}

describe("firstWhere", () => {
  it("finds the oldest checkpoint for which the predicate holds, wherever it is", async () => {
    for (const count of [1, 2, 3, 7, 20]) {
      const manager = await taskOf(count);
      for (let first = 1; first <= count; first++) expect((await search(manager, first)).found).toBe(first);
      expect(await search(manager, count + 1)).toEqual({ found: undefined, asked: count === 1 ? [1] : [1, count] });
    }
  });

  it("returns the whole checkpoint, and awaits an answer that is a promise", async () => {
    const manager = await taskOf(9);
    const found = await manager.firstWhere("t", async ({ sequence, stage }) => {
      await new Promise((resolve) => setImmediate(resolve));
      return sequence >= 4 && stage !== undefined;
    });
    expect(found).toEqual(await manager.restore("t", found?.id ?? ""));
    expect(found?.state).toBe(4);
  });

  it("reads a thousand checkpoints in at most twelve steps", async () => {
    const storage = new MemoryAdapter();
    const manager = await taskOf(1000, storage);
    for (const first of [1, 2, 500, 501, 999, 1000]) {
      const reads = readThrough(storage);
      const { found, asked } = await search(manager, first);
      expect([found, reads.count <= 12, asked.length]).toEqual([first, true, reads.count]);
    }
  });

  it("searches across gaps", async () => {
    const manager = await taskOf(40);
    for (const { id, sequence } of await manager.list("t")) {
      if (![1, 2, 17, 30, 31, 40].includes(sequence)) await manager.remove("t", id);
    }
    for (const [first, found] of [
      [1, 1],
      [2, 2],
      [3, 17],
      [18, 30],
      [31, 31],
      [32, 40],
    ] as const) {
      expect((await search(manager, first)).found).toBe(found);
    }
  });

  it("considers only what the query asks for", async () => {
    const manager = await taskOf(20);
    expect((await search(manager, 8, { afterSequence: 10 })).found).toBe(11);
    expect((await search(manager, 8, { afterSequence: 3, beforeSequence: 15 })).found).toBe(8);
    expect((await search(manager, 8, { beforeSequence: 8 })).found).toBeUndefined();
    expect((await search(manager, 8, { stage: "odd" })).found).toBe(9);
    expect((await search(manager, 8, { stage: "none" })).asked).toEqual([]);
  });

  it("skips damaged checkpoints, reports them, and finds the oldest intact one", async () => {
    for (const damaged of [[1], [20], [9, 10, 11], [1, 2, 3, 19, 20], [7], [8], [2, 4, 6, 8, 10, 12, 14, 16, 18]]) {
      const storage = new MemoryAdapter();
      const manager = await taskOf(20, storage);
      readThrough(storage, damaged);
      const reported = new Set<unknown>();
      manager.on("corrupt", ({ sequence, location }) => reported.add(sequence ?? Number(location.slice(4))));
      for (let first = 1; first <= 20; first++) {
        const intact = Array.from({ length: 20 }, (_, n) => n + 1).filter((n) => !damaged.includes(n));
        expect((await search(manager, first)).found, `${damaged} from ${first}`).toBe(intact.find((n) => n >= first));
      }
      expect([...reported].sort()).toEqual(damaged.toSorted((a, b) => `${a}`.localeCompare(`${b}`)));
    }
  });

  it("skips checkpoints for which the predicate returns undefined", async () => {
    const manager = await taskOf(20);
    for (const mute of [[1], [20], [9, 10, 11], [1, 2, 3, 19, 20], [8], [2, 4, 6, 8, 10, 12, 14, 16, 18]]) {
      for (let first = 1; first <= 20; first++) {
        const expected = Array.from({ length: 20 }, (_, n) => n + 1).find((n) => n >= first && !mute.includes(n));
        expect((await search(manager, first, {}, mute)).found).toBe(expected);
      }
    }
    expect((await search(manager, 1, {}, [...Array(21).keys()])).found).toBeUndefined();
  });

  it("throws if no checkpoint is intact, and returns undefined if there is none", async () => {
    const storage = new MemoryAdapter();
    const manager = await taskOf(3, storage);
    expect(await manager.firstWhere("other", () => true)).toBeUndefined();
    readThrough(storage, [1, 2, 3]);
    await expect(manager.firstWhere("t", () => true)).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
  });

  it("rejects with the error of the predicate or the schema", async () => {
    const manager = await taskOf(3);
    const failing = manager.firstWhere("t", () => {
      throw new Error("no tool");
    });
    await expect(failing).rejects.toThrow("no tool");
    await expect(manager.firstWhere("t", () => 1 as never)).rejects.toThrow(/must return true, false/);
    await expect(manager.firstWhere("t", "state.n" as never)).rejects.toThrow(TypeError);
    await expect(manager.firstWhere("t", () => true, { limit: 3 } as object)).rejects.toThrow('"limit"');
    await expect(manager.firstWhere("", () => true)).rejects.toThrow(/taskId/);
    const storage = new MemoryAdapter();
    await new CheckpointManager({ storage }).save("t", "text");
    const strict = new CheckpointManager({ storage, schema: z.number() });
    await expect(strict.firstWhere("t", () => true)).rejects.toMatchObject({ code: "STATE_INVALID" });
  });

  it.each(["files:store", "tasks:store", "sqlite:store.db"])("searches %s", async (url) => {
    const manager = await taskOf(30, openStorage(url, { relativeTo: await tempFolder() }));
    for (const first of [1, 2, 11, 29, 30]) expect((await search(manager, first)).found).toBe(first);
    await manager.close();
  });
});
