import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager, UnsupportedOperationError } from "waymark";
import { openStorage, storageLocation } from "waymark/adapters";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { createBuildCheckpoints } from "waymark/builds";
import { administer, newSchema } from "../../support/postgres.js";
import { tempFolder } from "../../support/temp-folder.js";

describe("openStorage", () => {
  it.each([
    ["files:store", "json-file"],
    ["tasks:store", "task-file"],
    ["sqlite:store/checkpoints.db", "sqlite"],
    ["SQLITE:store.db", "sqlite"],
  ])("opens %s, relative to the given folder", async (url, name) => {
    const folder = await tempFolder();
    const open = () => new CheckpointManager({ storage: openStorage(url, { relativeTo: folder }) });
    const first = open();
    await first.save("t", { n: 1 });
    await first.close();

    const second = open();
    expect((await second.latest("t"))?.state).toEqual({ n: 1 });
    await second.close();
    expect(openStorage(url).name).toBe(name);
  });

  it("opens memory: as a new and empty storage each time, and takes no path with it", async () => {
    const manager = new CheckpointManager({ storage: openStorage("memory:") });
    await manager.save("t", 1);
    expect(await manager.has("t")).toBe(true);
    expect(await new CheckpointManager({ storage: openStorage("memory:") }).has("t")).toBe(false);
    expect(() => openStorage("memory:x")).toThrow(/memory: takes no path/);
  });

  it.each([
    ["files:store?pretty=true", 6],
    ["files:store?pretty=false", 3],
    ["files:store", 3],
  ])("writes a state with %s in %i lines", async (url, lines) => {
    const folder = await tempFolder();
    const manager = new CheckpointManager({ storage: openStorage(url, { relativeTo: folder }) });
    await manager.save("t", { n: 1, m: 2 });
    await manager.close();
    const task = join(folder, "store", "t");
    const [name = ""] = readdirSync(task).filter((file) => file.endsWith(".json"));
    expect(readFileSync(join(task, name), "utf8").split("\n")).toHaveLength(lines);
  });

  it.each([
    ["files:x?prety=true", /files: has no option "prety"; it takes only \?pretty=true/],
    ["files:x?pretty=yes", /\?pretty= must be true or false, and is "yes"/],
    ["files:x?pretty", /\?pretty= must be true or false, and is ""/],
    ["sqlite:x.db?mode=ro", /sqlite: has no option "mode"; it takes none/],
    ["tasks:x?pretty=true", /tasks: has no option "pretty"; it takes none/],
    ["sqlite::memory:", /Write memory: for a storage in memory/],
  ])("refuses %s, whose name would otherwise become a file's", (url, message) => {
    expect(() => openStorage(url)).toThrow(TypeError);
    expect(() => openStorage(url)).toThrow(message);
  });

  it("takes three slashes for an absolute path, and ~/ for the home folder", async () => {
    const folder = await tempFolder();
    const manager = new CheckpointManager({ storage: openStorage(`files://${folder}/store`) });
    await manager.save("t", 1);
    await manager.close();
    const plain = new CheckpointManager({ storage: openStorage(`files:${folder}/store`) });
    expect(await plain.has("t")).toBe(true);
    await plain.close();
    expect(openStorage(`files:~/nowhere-${process.pid}`).name).toBe("json-file");
  });

  it("doesn't show the password of a URL without a scheme", () => {
    expect(() => openStorage("//app:secret@host/db")).toThrow(/^The text isn't a storage URL/);
    expect(() => openStorage("//app:se@cret@host/a@b")).toThrow(/^The text isn't a storage URL/);
    // The time grows with the length, not with its square.
    expect(() => openStorage("> ".repeat(1_000_000))).toThrow(/isn't a storage URL/);
  });

  it("doesn't show the password of an unknown URL", async () => {
    const opening = () => openStorage("mysql://user:secret@host/db");
    expect(opening).toThrow(/No storage has the scheme "mysql"/);
    expect(opening).toThrow(UnsupportedOperationError);
    expect(opening).not.toThrow(/secret/);
  });

  it.each(["postgres", "postgresql", "POSTGRES"])("opens %s://, with the schema that the URL names", async (scheme) => {
    const { url, schema } = await newSchema();
    const named = `${scheme}${url.slice(url.indexOf(":"))}?schema=${schema}&connect_timeout=9`;
    const manager = new CheckpointManager({ storage: openStorage(named) });
    await manager.save("t", { n: 1 });
    await manager.close();
    expect(await administer(url, `SELECT task_id FROM "${schema}".tasks`)).toEqual([{ task_id: "t" }]);
    expect(storageLocation(named)).toMatchObject({ name: expect.not.stringMatching(/secret/), schema });
  });

  it.each(["postgres:db", "postgres://user:sec ret@host name/db"])("refuses %s, and doesn't show it", (url) => {
    const opening = () => openStorage(url);
    expect(opening).toThrow(TypeError);
    expect(opening).toThrow(/A PostgreSQL URL must be like/);
    expect(opening).not.toThrow(/sec ret/);
  });

  it.each(["files:store", "tasks:store", "sqlite:store/x.db"])("opens %s at its first use, not before", async (url) => {
    const folder = await tempFolder();
    const storage = openStorage(url, { relativeTo: folder });
    expect(storage).not.toBeInstanceOf(Promise);
    await storage.close();
    expect(readdirSync(folder)).toEqual([]);
  });

  it.each(["redis://localhost", "constructor:x", "file:x"])("refuses the unknown scheme of %s", (url) => {
    expect(() => openStorage(url)).toThrow(expect.objectContaining({ code: "UNSUPPORTED_OPERATION" }));
  });

  it.each(["checkpoints.db", "sqlite:", "", "sqlite://data/x.db", "C:\\store"])(
    "refuses %j and says what to write instead",
    (url) => {
      expect(() => openStorage(url)).toThrow(TypeError);
      expect(() => openStorage(url)).toThrow(/Write /);
    },
  );

  it("refuses a misspelled option", () => {
    expect(() => openStorage("files:x", { relativTo: "/" } as object)).toThrow(/relativTo/);
  });
});

describe("a storage URL as an adapter's path", () => {
  it.each<[string, (path: string) => unknown, string]>([
    ["SqliteAdapter", (path) => new SqliteAdapter({ path }), "sqlite:.waymark/x.db"],
    ["JsonFileAdapter", (path) => new JsonFileAdapter({ path }), "files:.waymark/store"],
    ["TaskFileAdapter", (path) => new TaskFileAdapter({ path }), "TASKS:.waymark/store"],
    ["createBuildCheckpoints", (path) => createBuildCheckpoints({ path }), "sqlite:.waymark/x.db"],
  ])("is refused by %s, which names the path and openStorage", (_name, open, url) => {
    expect(() => open(url)).toThrow(TypeError);
    const path = url.slice(url.indexOf(":") + 1);
    expect(() => open(url)).toThrow(`Pass the path, "${path}", or open the URL: openStorage("${url}")`);
  });

  it("is refused without showing a password", () => {
    expect(() => new SqliteAdapter({ path: "postgres://app:secret@host/app" })).toThrow(
      /^SqliteAdapterOptions\.path is a storage URL \(postgres:…\)\. (?!.*secret)/,
    );
  });

  it("doesn't refuse other paths with a colon", () => {
    for (const path of ["./sqlite:x", "C:\\data\\x.db", "mysqlite:x", "a/files:b"]) new JsonFileAdapter({ path });
  });
});
