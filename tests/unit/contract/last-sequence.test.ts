import { cp } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { makePayload } from "waymark/adapter";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { newSchema } from "../../support/postgres.js";
import { tempFolder } from "../../support/temp-folder.js";

const ADAPTERS: Record<string, (path: string) => StorageAdapter | Promise<StorageAdapter>> = {
  memory: () => new MemoryAdapter(),
  "json-file": (path) => new JsonFileAdapter({ path }),
  "task-file": (path) => new TaskFileAdapter({ path }),
  sqlite: (path) => new SqliteAdapter({ path: join(path, "x.db") }),
  postgres: async () => new PostgresAdapter(await newSchema()),
};

describe.each(Object.entries(ADAPTERS))("%s", (name, open) => {
  it("refuses to save after the highest possible sequence, and keeps the existing checkpoints", async () => {
    const path = await tempFolder();
    const storage = await open(path);
    const manager = new CheckpointManager({ storage });
    onTestFinished(() => manager.close());
    const draft = {
      taskId: "t",
      id: "last",
      createdAt: new Date(0).toISOString(),
      status: "running",
      stateVersion: 1,
    } as const;
    const made = await makePayload({ n: 0 }, { context: draft });
    await storage.append({ ...draft, ...made }, {}, { sequence: Number.MAX_SAFE_INTEGER });
    for (const others of [[], ["u", "v"]]) {
      const saved = others.map((taskId) => manager.save(taskId, { n: 1 }));
      const refused = manager.save("t", { n: 1 });
      await expect(refused).rejects.toMatchObject({
        code: "STORAGE_FAILED",
        message: expect.stringMatching(/has run out of sequence numbers.*intact/),
      });
      expect((await Promise.all(saved)).map(({ sequence }) => sequence)).toEqual(others.map(() => 1));
    }
    expect((await manager.list("t")).map(({ id }) => id)).toEqual(["last"]);
    if (!name.endsWith("-file")) return;
    // A copied folder isn't cached, so its files are found by their names.
    const copy = await tempFolder();
    await cp(path, copy, { recursive: true });
    await using copied = new CheckpointManager({ storage: await open(copy) });
    expect((await copied.list("t")).map(({ id }) => id)).toEqual(["last"]);
  });
});
