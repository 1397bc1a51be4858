// Tests that wrong arguments and damaged files cause a typed error that names what is intact, and that nothing is lost.
import { readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";

import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

async function managerOnFiles(path: string) {
  const logger = recordingLogger();
  const manager = new CheckpointManager({ storage: new JsonFileAdapter({ path }), logger });
  return { manager, logger };
}

/** Returns the checkpoint files of task "t", oldest first. */
async function filesOf(root: string): Promise<string[]> {
  const folder = join(root, "t");
  return (await readdir(folder))
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((name) => join(folder, name));
}

it("metadata under the key that Waymark reserves is refused, and nothing is saved", async () => {
  const { manager } = await managerOnFiles(await tempFolder());
  const first = await manager.save("t", 1);
  const metadata = { waymark: { transient: true } };
  const refused = [
    manager.save("t", 2, { metadata }),
    manager.fork("t", first.id, "u", { metadata }),
    manager.rewind("t", first.id, { metadata }),
  ];
  for (const call of refused) {
    await expect(call).rejects.toThrow(
      expect.objectContaining({ name: "TypeError", message: expect.stringContaining("waymark") }),
    );
  }
  expect(await manager.list("t")).toHaveLength(1);
  expect(await manager.has("u")).toBe(false);
});

describe("a damaged file", () => {
  it.each<[string, (path: string) => Promise<void>]>([
    ["empty", (path) => truncate(path, 0)],
    ["cut short in its header", (path) => truncate(path, 40)],
    ["cut short in its state", async (path) => truncate(path, (await readFile(path)).length - 5)],
    ["not JSON", (path) => writeFile(path, "not JSON at all\n")],
    [
      "changed in its state",
      async (path) => writeFile(path, (await readFile(path, "utf8")).replace('{"n":2}', '{"n":9}')),
    ],
    [
      "changed in its header",
      async (path) => writeFile(path, (await readFile(path, "utf8")).replace('"running"', '"completed"')),
    ],
  ])("that is %s is skipped, reported and left as it is; latest gives the newest intact one", async (_name, damage) => {
    const root = await tempFolder();
    const { manager, logger } = await managerOnFiles(root);
    await manager.save("t", { n: 1 });
    await manager.save("t", { n: 2 });
    const newest = (await filesOf(root)).at(-1)!;
    await damage(newest);
    const damaged = await readFile(newest);
    const corrupt: unknown[] = [];
    manager.on("corrupt", ({ sequence }) => corrupt.push(sequence));

    expect((await manager.latest("t"))?.state).toEqual({ n: 1 });
    expect(corrupt).toEqual([2]);
    expect(logger.lines).toContainEqual(expect.objectContaining({ level: "warn" }));
    expect((await manager.save("t", { n: 3 })).sequence).toBe(3);
    expect(await readFile(newest)).toEqual(damaged);
  });

  it("is an error if nothing intact is left, never undefined or an empty list", async () => {
    const root = await tempFolder();
    const { manager } = await managerOnFiles(root);
    const { id } = await manager.save("t", { n: 1 });
    for (const path of await filesOf(root)) await truncate(path, 10);

    const corrupt = { code: "CHECKPOINT_CORRUPT", message: expect.stringContaining("left untouched") };
    await expect(manager.latest("t")).rejects.toMatchObject(corrupt);
    await expect(manager.latest("t", { stage: "x" })).rejects.toMatchObject(corrupt);
    await expect(manager.list("t")).rejects.toMatchObject(corrupt);
    await expect(manager.history("t").next()).rejects.toMatchObject(corrupt);
    await expect(manager.restore("t", id)).rejects.toMatchObject(corrupt);
    await expect(manager.tasks()).rejects.toMatchObject(corrupt);
    await expect(manager.findIncomplete()).rejects.toMatchObject(corrupt);
    await expect(manager.complete("t")).rejects.toMatchObject(corrupt);
    expect(await manager.has("t")).toBe(true);
  });

  it("doesn't make a filter that matches nothing an error, as long as something is intact", async () => {
    const root = await tempFolder();
    const { manager } = await managerOnFiles(root);
    await manager.save("t", { n: 1 });
    await manager.save("t", { n: 2 });
    await truncate((await filesOf(root)).at(-1)!, 10);
    expect(await manager.latest("t", { stage: "other" })).toBeUndefined();
    expect(await manager.list("t", { stage: "other" })).toEqual([]);
    await manager.complete("t").catch(() => undefined);
    expect((await manager.findIncomplete()).map(({ newest }) => newest.sequence)).toEqual([1]);
  });

  it("of a newer format version is refused, not skipped", async () => {
    const root = await tempFolder();
    const { manager } = await managerOnFiles(root);
    await manager.save("t", { n: 1 });
    await manager.save("t", { n: 2 });
    const newest = (await filesOf(root)).at(-1)!;
    const newer = (await readFile(newest, "utf8"))
      .replace('{"waymark":1,', '{"waymark":2,')
      .replace('"seal":"', '"seal":"2-');
    await writeFile(newest, newer);
    await expect(manager.latest("t")).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
    await expect(manager.latest("t")).rejects.toThrow(newest);
  });
});

describe("a path that can't be written", () => {
  it.each<[string, (path: string) => StorageAdapter]>([
    ["json-file", (path) => new JsonFileAdapter({ path })],
    ["task-file", (path) => new TaskFileAdapter({ path })],

    ["sqlite", (path) => new SqliteAdapter({ path: join(path, "checkpoints.db") })],
  ])("is a storage error that names it, on %s", async (_name, open) => {
    const file = join(await tempFolder(), "a-file");
    await writeFile(file, "in the way");
    const manager = new CheckpointManager({ storage: open(join(file, "store")) });
    const saving = manager.save("t", { n: 1 });
    await expect(saving).rejects.toMatchObject({ code: "STORAGE_FAILED" });
    await expect(saving).rejects.toThrow(file);
    await expect(manager.latest("t")).rejects.toMatchObject({ code: "STORAGE_FAILED" });
    expect(await readFile(file, "utf8")).toBe("in the way");
    await manager.close();
  });
});

describe("a database", () => {
  it("that is locked for long is a retryable storage error, and the save succeeds when it is free", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    await using manager = new CheckpointManager({ storage: new SqliteAdapter({ path, busyTimeoutMs: 50 }) });
    await manager.save("t", { n: 1 });
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    await expect(manager.save("t", { n: 2 })).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    expect((await manager.latest("t"))?.state).toEqual({ n: 1 });
    other.exec("COMMIT");
    other.close();
    expect((await manager.save("t", { n: 3 })).sequence).toBe(2);
  });

  it("of a newer schema version is refused by name, and left as it is", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    {
      await using manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
      await manager.save("t", { n: 1 });
    }
    const other = new Database(path);
    other.pragma("user_version = 99");
    other.close();
    await using manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
    await expect(manager.latest("t")).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
    await expect(manager.save("t", { n: 2 })).rejects.toThrow("99");
  });

  it("that isn't a database is a typed error, and is left as it is", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    await writeFile(path, "this is no database, but long enough to have a header of sixteen bytes".repeat(20));
    const before = await readFile(path);
    await using manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
    await expect(manager.latest("t")).rejects.toMatchObject({
      code: expect.stringMatching(/CORRUPT|UNSUPPORTED_FORMAT/),
    });
    await expect(manager.save("t", { n: 1 })).rejects.toMatchObject({ name: expect.stringContaining("Error") });
    expect(await readFile(path)).toEqual(before);
  });
});
