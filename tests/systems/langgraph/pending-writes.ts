// Pending writes on any storage: records of the thread's log, under their checkpoint's id.
import type { RunnableConfig } from "@langchain/core/runnables";
import { ERROR, emptyCheckpoint, INTERRUPT } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import type { WaymarkSaver } from "waymark/langgraph";
import { collect } from "../../support/postgres.js";
import { newPlace, type Place, type StorageKind, saverOn, threadOf, writesOf } from "./storages.js";

const METADATA = { source: "loop", step: 0, parents: {} } as const;

/** A checkpoint that isn't put yet, and the config for its writes. */
function newCheckpoint() {
  const checkpoint = emptyCheckpoint();
  return { checkpoint, config: threadOf("t", { checkpoint_id: checkpoint.id, checkpoint_ns: "" }) };
}

const put = (saver: WaymarkSaver, parent: RunnableConfig, { checkpoint }: ReturnType<typeof newCheckpoint>) =>
  saver.put(parent, checkpoint, METADATA, {});

/** The writes on top of a checkpoint, read in every way. */
async function readingsOf(place: Place, saver: WaymarkSaver, config: RunnableConfig) {
  const readings: unknown[] = [];
  for (const reader of [saver, saverOn(place)]) {
    readings.push((await reader.getTuple(config))?.pendingWrites);
    const listed = await collect(reader.list(threadOf("t")));
    const isAsked = (id: string) => id === config.configurable?.["checkpoint_id"];
    readings.push(listed.find(({ checkpoint }) => isAsked(checkpoint.id))?.pendingWrites);
  }
  return readings;
}

export function registerPendingWrites(kind: StorageKind): void {
  describe(`on ${kind}, pending writes`, () => {
    it("count once per task and index: the first, or the last on LangGraph's own channels", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const config = await put(saver, threadOf("t"), newCheckpoint());
      for (const attempt of [1, 2]) {
        await saver.putWrites(config, [["a", attempt]], "task");
        await saver.putWrites(config, [[ERROR, `attempt ${attempt}`]], "failing");
      }
      await saver.putWrites(config, [], "nothing");
      const writes = [
        ["failing", ERROR, "attempt 2"],
        ["task", "a", 1],
      ];
      for (const reading of await readingsOf(place, saver, config)) {
        expect((reading as unknown[]).toSorted()).toEqual(writes);
      }
      expect(await writesOf(place, "t")).toHaveLength(4);
    });

    it("may be put before their checkpoint", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const first = await put(saver, threadOf("t"), newCheckpoint());
      const second = newCheckpoint();
      await saver.putWrites(second.config, [["a", 1]], "before");
      const third = newCheckpoint();
      await saver.putWrites(third.config, [["a", 2]], "long before");
      await Promise.all([
        saver.putWrites(second.config, [["a", 3]], "beside"),
        put(saver, first, second),
        saver.putWrites(second.config, [["a", 4]], "in between"),
      ]);
      await put(saver, second.config, third);
      for (const reading of await readingsOf(place, saver, second.config)) {
        expect((reading as unknown[]).toSorted()).toEqual([
          ["before", "a", 1],
          ["beside", "a", 3],
          ["in between", "a", 4],
        ]);
      }
      for (const reading of await readingsOf(place, saver, third.config)) {
        expect(reading).toEqual([["long before", "a", 2]]);
      }
    });

    it("that are put before their checkpoint decide the thread's status", async () => {
      const saver = saverOn(await newPlace(kind));
      const first = newCheckpoint();
      await saver.putWrites(first.config, [[INTERRUPT, [{ id: "i", value: "Go on?" }]]], "asking");
      await put(saver, threadOf("t"), first);
      expect(await saver.threads()).toMatchObject([{ id: "t", status: "paused", asks: ["Go on?"] }]);
    });

    it("that are put before their checkpoint are kept by a retention, and found after a failed one", async () => {
      const place = await newPlace(kind);
      const storage = place.open();
      const saver = saverOn({ ...place, open: () => storage }, { retention: { keepLast: 1 } });
      const first = await put(saver, threadOf("t"), newCheckpoint());
      await saver.putWrites(first, [["a", 0]], "first");
      const [second, third] = [newCheckpoint(), newCheckpoint()];

      const append = storage.log?.append.bind(storage.log);
      Object.assign(storage.log ?? {}, { append: () => Promise.reject(new Error("The disk is full.")) });
      await expect(saver.putWrites(third.config, [["a", 1]], "failed")).rejects.toThrow("The disk is full.");
      Object.assign(storage.log ?? {}, { append });
      await saver.putWrites(third.config, [["a", 2]], "early");

      await put(saver, first, second);
      expect(await writesOf(place, "t")).toMatchObject([{ name: third.checkpoint.id }]);
      await put(saver, second.config, third);
      for (const reading of await readingsOf(place, saver, third.config)) {
        expect(reading).toEqual([["early", "a", 2]]);
      }
    });
  });
}
