import type { RunnableConfig } from "@langchain/core/runnables";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { collect } from "../../support/postgres.js";
import { newPlace, saverOn, threadOf } from "./storages.js";

const [NAMESPACES, COUNT] = [20, 100];

it.each(["memory", "sqlite", "postgres"] as const)(
  "on %s a thread of 2,000 checkpoints is deleted in one removal",
  async (kind) => {
    const place = await newPlace(kind);
    const storage =
      kind === "sqlite" ? new SqliteAdapter({ path: `${place.folder}/agent.db`, durability: "normal" }) : place.open();
    const saver = saverOn({ ...place, open: () => storage });
    const metadata = { source: "loop", step: 0, parents: {} } as const;
    const fill = async (_: unknown, namespace: number) => {
      let config: RunnableConfig = threadOf("t", { checkpoint_ns: `${namespace}` });
      for (let number = 0; number < COUNT; number++) {
        config = await saver.put(config, { ...emptyCheckpoint(), id: uuid6(0) }, metadata, {});
        if (number % 20 === 0) await saver.putWrites(config, [["channel", number]], "task");
      }
    };
    await Promise.all(Array.from({ length: NAMESPACES }, fill));
    const ofOthers = await saver.put(threadOf("t2"), emptyCheckpoint(), metadata, {});
    const threads = await collect(storage.tasks({ prefix: "langgraph/t/c/", order: "taskId" }));
    expect(threads).toEqual(Array.from({ length: NAMESPACES }, () => expect.objectContaining({ count: COUNT })));

    const removals = recordRemovals(storage);
    await saver.deleteThread("t");

    expect(removals).toEqual(["removePrefix langgraph/t/"]);
    expect(await collect(storage.tasks({ order: "taskId" }))).toMatchObject([{ taskId: "langgraph/t2/c/" }]);
    expect(await saver.getTuple(threadOf("t"))).toBeUndefined();
    expect((await saver.getTuple(threadOf("t2")))?.config).toEqual(ofOthers);
    await storage.close();
  },
);

/** The removals that the storage is asked for from now on. */
function recordRemovals(storage: StorageAdapter): readonly string[] {
  const removals: string[] = [];
  for (const name of ["remove", "removePrefix"] as const) {
    const method = storage[name]?.bind(storage) as ((...args: unknown[]) => Promise<number>) | undefined;
    Object.assign(storage, {
      [name]: (...args: unknown[]) => {
        removals.push(`${name} ${args[0]}`);
        return method?.(...args);
      },
    });
  }
  return removals;
}
