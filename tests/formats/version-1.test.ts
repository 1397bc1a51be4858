import { cp, readFile } from "node:fs/promises";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import type { StorageAdapter } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { postgresDdl } from "waymark/adapters/postgres";
import { FOLD } from "../../adapters/sql/history.js";
import { administer, collect, newSchema, openAdapter } from "../support/postgres.js";
import { tempFolder } from "../support/temp-folder.js";
import { SECRET, STORED, TURNS } from "./stored-in-version-1.js";

const FIXTURE = join(import.meta.dirname, "../fixtures/formats/version-1");

/** A copy of the fixture in each storage, and a function to open it. Files have no histories. */
const STORES: Readonly<Record<string, () => Promise<() => StorageAdapter>>> = {
  files: () => opening("files", "files"),
  tasks: () => opening("tasks", "tasks"),
  sqlite: () => opening("sqlite", "checkpoints.db"),
  postgres: async () => {
    const place = await newPostgres();
    return () => openAdapter(place);
  },
};

async function opening(kind: string, name: string): Promise<() => StorageAdapter> {
  const path = await copyOf(name);
  return () => openStorage(`${kind}:${path}`);
}

async function newPostgres() {
  const place = await newSchema();
  const text = await readFile(join(FIXTURE, "postgres.sql"), "utf8");
  await administer(place.url, text.replaceAll('"version_1"', `"${place.schema}"`));
  return place;
}

async function copyOf(name: string): Promise<string> {
  const path = join(await tempFolder(), name);
  await cp(join(FIXTURE, name), path, { recursive: true });
  return path;
}

describe.each(Object.keys(STORES))("a store of version 1, %s", (name) => {
  const tasks = Object.entries(STORED).filter(
    ([taskId]) => taskId !== "turns" || ["sqlite", "postgres"].includes(name),
  );

  it("returns its states, is intact, and accepts more", async () => {
    const open = await STORES[name]!();
    const storage = open();
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

  it("may be continued by a run", async () => {
    const open = await STORES[name]!();
    const manager = new CheckpointManager({ storage: open() });
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

describe.each(["sqlite", "postgres"])("a history of version 1, %s", (name) => {
  it("can be continued, and reads the same after its last deltas were bundled with new ones", async () => {
    const open = await STORES[name]!();
    const storage = open();
    const states = Array.from({ length: 2 * FOLD }, (_, turn) => ({ ...TURNS.at(-1), turn, again: TURNS[turn % 3] }));
    const manager = new CheckpointManager({ storage });
    for (const state of states) await manager.save("turns", state);
    await manager.close();
    const again = new CheckpointManager({ storage: open() });
    expect(await statesOf(again, "turns")).toEqual([...(STORED["turns"] ?? []), ...states]);
    expect((await again.verify()).findings).toEqual([]);
    await again.close();
  });
});

describe("tables of version 1", () => {
  it("become version 3 when they are opened: SQLite", async () => {
    const path = await copyOf("checkpoints.db");
    const manager = new CheckpointManager({ storage: openStorage(`sqlite:${path}`) });
    expect(await manager.has("turns")).toBe(true);
    await manager.close();
    expect(new Database(path).pragma("user_version", { simple: true })).toBe(3);
  });

  it("can be read unchanged, and refuse a save without the right to change them: PostgreSQL", async () => {
    const place = await newPostgres();
    const manager = new CheckpointManager({ storage: openAdapter({ ...place, migrate: false }) });
    expect(await statesOf(manager, "branch")).toEqual(STORED["branch"]);
    await expect(manager.save("branch", {})).rejects.toThrow(/tables of an older version.*waymark postgres ddl/);
    await administer(place.url, postgresDdl(place.schema));
    await manager.close();
    const again = new CheckpointManager({ storage: openAdapter({ ...place, migrate: false }) });
    expect((await again.save("branch", {})).sequence).toBe(3);
    await again.close();
  });
});

async function statesOf(manager: CheckpointManager, taskId: string): Promise<unknown[]> {
  const found = await collect(manager.history(taskId, { order: "oldest" }));
  return found.map(({ state }) => state);
}
