import { cp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import type { StorageAdapter } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { administer, collect, newSchema, openAdapter } from "../support/postgres.js";
import { tempFolder } from "../support/temp-folder.js";
import { SECRET, STORED } from "./stored-in-version-1.js";

const FIXTURE = join(import.meta.dirname, "../fixtures/formats/version-1");

/** A copy of the fixture in each storage. Files have no histories, so there is none in theirs. */
const STORES: Readonly<Record<string, () => Promise<StorageAdapter>>> = {
  files: async () => openStorage(`files:${await copyOf("files")}`),
  tasks: async () => openStorage(`tasks:${await copyOf("tasks")}`),
  sqlite: async () => openStorage(`sqlite:${await copyOf("checkpoints.db")}`),
  postgres: async () => {
    const place = await newSchema();
    const text = await readFile(join(FIXTURE, "postgres.sql"), "utf8");
    await administer(place.url, text.replaceAll('"version_1"', `"${place.schema}"`));
    return openAdapter({ ...place, migrate: false });
  },
};

async function copyOf(name: string): Promise<string> {
  const path = join(await tempFolder(), name);
  await cp(join(FIXTURE, name), path, { recursive: true });
  return path;
}

describe.each(Object.keys(STORES))("a store of version 1, %s", (name) => {
  const tasks = Object.entries(STORED).filter(
    ([taskId]) => taskId !== "turns" || ["sqlite", "postgres"].includes(name),
  );

  it("gives what was saved, is intact, and takes more", async () => {
    const storage = await STORES[name]!();
    const manager = new CheckpointManager({ storage });
    const secret = new CheckpointManager({ storage, ...SECRET });
    const summaries = JSON.parse(await readFile(join(FIXTURE, "summaries.json"), "utf8"));
    for (const [taskId, states] of tasks) {
      expect(await collect(storage.list({ taskId, order: "oldest" }))).toEqual(summaries[taskId]);
      expect(await statesOf(taskId === "secret" ? secret : manager, taskId)).toEqual(states);
    }
    expect((await collect(storage.tasks({ order: "taskId" }))).map(({ taskId }) => taskId)).toEqual(
      tasks.map(([taskId]) => taskId).sort(),
    );
    expect((await manager.verify()).findings).toEqual([]);
    for (const [taskId, states] of tasks) {
      const saved = await manager.save(taskId, { more: states.at(-1) });
      expect(saved.sequence).toBe(summaries[taskId].at(-1).sequence + 1);
      expect(await statesOf(taskId === "secret" ? secret : manager, taskId)).toEqual([
        ...states,
        { more: states.at(-1) },
      ]);
    }
    await manager.close();
  });

  it("may be gone on from by a run", async () => {
    const storage = await STORES[name]!();
    const manager = new CheckpointManager({ storage });
    for (const [taskId, states] of tasks.filter(([task]) => task !== "secret")) {
      const { status } = (await manager.latest(taskId))!;
      const restart = { restart: status === "completed" };
      const run = manager.run(taskId, (run) => run.step("look", () => run.state), restart);
      // A restart begins without a state.
      expect(await run).toEqual(restart.restart ? undefined : states.at(-1));
      expect((await manager.latest(taskId))?.status).toBe("completed");
    }
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });
});

async function statesOf(manager: CheckpointManager, taskId: string): Promise<unknown[]> {
  const found = await collect(manager.history(taskId, { order: "oldest" }));
  return found.map(({ state }) => state);
}
