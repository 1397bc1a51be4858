import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { tempFolder } from "../../support/temp-folder.js";
import { draft } from "../adapters/files/drafts.js";

const ADAPTERS: Record<string, (path: string) => StorageAdapter> = {
  memory: () => new MemoryAdapter(),
  "json-file": (path) => new JsonFileAdapter({ path }),
  "task-file": (path) => new TaskFileAdapter({ path }),
  sqlite: (path) => new SqliteAdapter({ path: join(path, "x.db") }),
};

describe.each(Object.entries(ADAPTERS))("%s", (_name, open) => {
  it("refuses to save where numbers count no higher, instead of acknowledging what nobody can read", async () => {
    const storage = open(await tempFolder());
    const manager = new CheckpointManager({ storage });
    onTestFinished(() => manager.close());
    await storage.append(draft("t", "last"), { sequence: Number.MAX_SAFE_INTEGER });
    for (const _time of [1, 2]) {
      const refused = manager.save("t", { n: 1 });
      await expect(refused).rejects.toMatchObject({
        code: "STORAGE_FAILED",
        message: expect.stringMatching(/has no sequence left.*intact/),
      });
    }
    expect((await manager.list("t")).map(({ id }) => id)).toEqual(["last"]);
  });
});
