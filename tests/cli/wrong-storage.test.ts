// Tests that commands fail if a storage doesn't exist or is of another kind, because an empty answer would look true.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { newPlace, waymark, wholeUrl } from "./waymark.js";

const READING = [
  ["tasks"],
  ["list", "t"],
  ["show", "t"],
  ["resume"],
  ["diff", "t", "@1", "@2"],
  ["bisect", "t", "--command", "true"],
  ["fork", "t", "@1", "u"],
  ["rewind", "t", "@1"],
  ["stats"],
  ["prune", "--all", "--keep-last", "1", "--yes"],
  ["delete", "t", "--yes"],
  ["complete", "t", "--yes"],
  ["export"],
  ["export", "--out", "backup.ndjson"],
  ["copy", "--to", "files:backup"],
];

describe("a missing storage", () => {
  it.each(READING)("is not found by %s: exit code 3, the place is named, nothing is created", async (...args) => {
    const { cwd, run, manager } = await newPlace("files:strore");
    await manager.close();
    expect(await run(...args)).toEqual({
      code: 3,
      stdout: "",
      stderr: expect.stringMatching(
        /^waymark: There is no storage files:strore: nothing is at .*\/strore\. Check .*\n$/,
      ),
    });
    expect(readdirSync(cwd)).toEqual([]);
  });

  it.each(["tasks:typo", "sqlite:typo.db"])("is not found at %s either", async (url) => {
    const { run, manager } = await newPlace(url);
    await manager.close();
    expect((await run("copy", "--to", "files:backup")).code).toBe(3);
  });

  it.each([
    ["files:.", "waymark oneshot list"],
    ["files:.sdp", "waymark oneshot list"],
    ["tasks:.sdp/checkpoints", "waymark oneshot list"],
    ["files:.pai/checkpoints", "listCheckpoints"],
  ])("names what reads a system's own format at %s", async (url, named) => {
    const { cwd, run, manager } = await newPlace(url);
    await manager.close();
    for (const folder of [".sdp", ".pai"]) {
      mkdirSync(join(cwd, folder, "checkpoints"), { recursive: true });
      writeFileSync(join(cwd, folder, "checkpoints", "F01.json"), "{}");
    }
    expect(await run("tasks")).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining(named) });
  });

  it("is named by its real path if its URL has dots", async () => {
    const { cwd, place, manager } = await newPlace("files:store");
    await manager.save("t", 1);
    await manager.close();
    mkdirSync(join(cwd, "empty"));
    const inFolder = (folder: string, ...args: string[]) => waymark({ ...place, cwd: join(cwd, folder) }, args);
    expect((await inFolder("empty", "tasks", "--storage", "files:.")).stderr).toBe(
      `No task of ${wholeUrl(cwd, "files:empty")} matches.\n`,
    );
    const { stderr } = await inFolder("store", "tasks", "--storage", "tasks:.");
    expect(stderr).toContain(`${join(cwd, "store")} has a files storage. Write files:. instead. Nothing`);
    expect((await inFolder("empty", "copy", "--storage", "files:../store", "--to", "tasks:../tasks")).code).toBe(0);
    expect((await inFolder("empty", "tasks", "--storage", "files:../tasks?pretty=true")).stderr).toContain(
      "has a tasks storage. Write tasks:../tasks instead.",
    );
    const copied = await inFolder("empty", "copy", "--storage", "files:../store", "--to", "files:.");
    expect(copied.stdout).toContain(`Copied 1 checkpoint to ${wholeUrl(cwd, "files:empty")}.\n`);
  });

  it("is no error if the storage exists and is empty; copy and export say that there was nothing", async () => {
    const { cwd, run, manager } = await newPlace("files:empty");
    mkdirSync(join(cwd, "empty"));
    await manager.close();
    const empty = wholeUrl(cwd, "files:empty");
    expect(await run("tasks")).toMatchObject({ code: 0, stderr: `No task of ${empty} matches.\n` });
    expect(await run("copy", "--to", "files:to")).toMatchObject({
      code: 0,
      stderr: `There is no checkpoint to copy in ${empty}.\n`,
    });
    expect(await run("export", "--prefix", "x")).toMatchObject({
      code: 0,
      stderr: `There is no checkpoint to export in ${empty} for tasks that begin with "x".\n`,
    });
  });
});

describe("a text file", () => {
  const NOTES = "Notes of a long day: nothing was built, and why — see below.\n".repeat(9);

  it.each([
    ...READING,
    ["verify"],
    ["verify", "--quick"],
    ["repair", "--dry-run"],
    ["repair", "--yes"],
    ["import", "notes.txt"],
    ["copy", "--storage", "files:store", "--to", "sqlite:notes.txt"],
  ])("is neither a database nor a damaged one for %s", async (...args) => {
    const { cwd, run, manager } = await newPlace("sqlite:notes.txt");
    mkdirSync(join(cwd, "store"));
    writeFileSync(join(cwd, "notes.txt"), NOTES);
    await manager.close();
    expect(await run(...args)).toEqual({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(
        /^waymark: sqlite:notes\.txt isn't a storage: \S+\/notes\.txt is a text file, not a database\. Check .*\n$/,
      ),
    });
    expect(readFileSync(join(cwd, "notes.txt"), "utf8")).toBe(NOTES);
    expect(readdirSync(cwd).sort()).toEqual(["notes.txt", "store"]);
  });

  it("is no folder either", async () => {
    const { cwd, run, manager } = await newPlace("files:notes.txt");
    writeFileSync(join(cwd, "notes.txt"), NOTES);
    await manager.close();
    const { code, stderr } = await run("tasks");
    expect([code, stderr]).toEqual([2, expect.stringContaining("notes.txt is a text file, not a folder. Check")]);
  });
});

describe("a storage of another kind", () => {
  const KINDS = ["files:store", "tasks:store", "sqlite:store"];
  const PAIRS = KINDS.flatMap((there) =>
    KINDS.filter((asked) => asked !== there).map((asked) => [there, asked] as const),
  );

  async function placeOf(url: string) {
    const { cwd, manager } = await newPlace(url);
    await manager.save("t", 1);
    await manager.close();
    const other = await newPlace("files:full");
    await other.manager.save("u", 2);
    await other.manager.close();
    return { cwd, full: join(other.cwd, "full") };
  }

  it.each(PAIRS)("%s, asked for as %s, is refused with its right name", async (there, asked) => {
    const { cwd } = await placeOf(there);
    for (const args of [
      ["tasks"],
      ["export"],
      ["copy", "--to", "files:backup"],
      ["prune", "--all", "--keep-last", "1"],
    ]) {
      const { code, stdout, stderr } = await waymark({ cwd }, [...args, "--storage", asked]);
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toContain(`Write ${there} instead. Nothing was read or changed.`);
    }
  });

  it.each(PAIRS)("%s is refused as a place to copy or import to as %s", async (there, asked) => {
    const { cwd, full } = await placeOf(there);
    const copied = await waymark({ cwd }, ["copy", "--storage", `files:${full}`, "--to", asked]);
    expect([copied.code, copied.stdout, copied.stderr]).toEqual([
      2,
      "",
      expect.stringContaining(`Write ${there} instead.`),
    ]);
    const exported = await waymark({ cwd }, ["export", "--storage", `files:${full}`]);
    const imported = await waymark({ cwd }, ["import", "--storage", asked], exported.stdout);
    expect([imported.code, imported.stderr]).toEqual([2, expect.stringContaining(`Write ${there} instead.`)]);
    expect(JSON.parse((await waymark({ cwd }, ["tasks", "--json", "--storage", there])).stdout)).toHaveLength(1);
  });
});

describe("an existing place without a storage", () => {
  it("is named for what it is, and never counts as an empty storage", async () => {
    const { cwd, manager } = await newPlace("files:store");
    await manager.save("build-42", 1);
    await manager.close();
    const database = new Database(join(cwd, "other.db"));
    database.exec("CREATE TABLE foo (bar)");
    database.close();
    mkdirSync(join(cwd, "foreign", "sub"), { recursive: true });
    writeFileSync(join(cwd, "foreign", "a.json"), "{}");
    for (const [url, what] of [
      ["sqlite:other.db", "is a database without tables of Waymark"],
      ["files:foreign", "is a folder with other files, such as a.json"],
      ["files:store/build-42", "is the folder of one task: write files:"],
    ] as const) {
      for (const command of [["tasks"], ["verify"], ["resume"], ["stats"], ["export"], ["repair", "--yes"]]) {
        const { code, stdout, stderr } = await waymark({ cwd }, [...command, "--storage", url]);
        expect([code, stdout, stderr]).toEqual([3, "", expect.stringContaining(what)]);
      }
    }
    const imported = await waymark({ cwd }, ["copy", "--storage", "files:store", "--to", "files:foreign"]);
    expect(imported).toMatchObject({ code: 0 });
  });
});
