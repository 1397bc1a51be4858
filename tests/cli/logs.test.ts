// Tests the command on tasks with logs: commands that handle a task also handle its log.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import type { StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { resolveOptions } from "../../src/manager/options.js";
import { collect } from "../support/collect.js";
import { draftRecord, type NewRecord } from "../support/draft-record.js";
import { newPlace, waymark } from "./waymark.js";

/** Task `t` has records before, between and after its checkpoints, and task `early` has only an event. */
async function placeWithLogs() {
  const place = await newPlace("sqlite:checkpoints.db");
  const storage = openAt(place.cwd, "checkpoints.db");
  const draft = async (record: Omit<NewRecord, "value">) =>
    draftRecord(resolveOptions({ storage }), { ...record, value: record.name });
  const append = async (first: Omit<NewRecord, "value">, ...others: Omit<NewRecord, "value">[]) =>
    storage.log?.append(first.taskId, await Promise.all([first, ...others].map(draft)));
  await append({ taskId: "t", kind: "run", name: "input" });
  await place.manager.save("t", { n: 1 });
  await append(
    { taskId: "t", kind: "step", name: "model", recordKey: "1/model" },
    { taskId: "t", kind: "event", name: "go", id: "e1" },
  );
  await place.manager.save("t", { n: 2 });
  await append({ taskId: "t", kind: "chunk", name: "model" });
  await append({ taskId: "early", kind: "event", name: "go", id: "e1" });
  return { ...place, storage, append };
}

function openAt(folder: string, file: string): StorageAdapter {
  const storage = openStorage(`sqlite:${join(folder, file)}`);
  onTestFinished(() => storage.close());
  return storage;
}

/** Everything in the logs of both tasks, seals included, and the checkpoints. */
async function contentsOf(storage: StorageAdapter) {
  const query = { order: "oldest" } as const;
  const logs = ["t", "early"].map((taskId) => collect(storage.log?.read({ ...query, taskId }) ?? expect.fail()));
  return [...(await Promise.all(logs)), await collect(storage.read({ ...query, taskId: "t" }))];
}

describe("a task's log", () => {
  it("is copied with its sequences, in order, and compared", async () => {
    const { cwd, run, storage, append } = await placeWithLogs();
    const copied = await run("copy", "--to", "sqlite:copy.db");
    expect(copied.stdout).toMatch(/^Copied 2 checkpoints and 5 records to .*\n7 of 7 identical\n$/);
    const copy = openAt(cwd, "copy.db");
    expect(await contentsOf(copy)).toEqual(await contentsOf(storage));
    // A second copy adds only new items.
    await append({ taskId: "t", kind: "step", name: "late" });
    expect(JSON.parse((await run("copy", "--to", "sqlite:copy.db", "--json")).stdout)).toMatchObject({
      records: 8,
      identical: 8,
      copied: 1,
      logRecords: 1,
    });
    expect(await contentsOf(copy)).toEqual(await contentsOf(storage));
  });

  it("is exported and imported, and each line of the export may be the last one", async () => {
    const { cwd, run, storage } = await placeWithLogs();
    expect((await run("export", "--out", "all.ndjson")).stdout).toBe(
      "Exported 2 checkpoints and 5 records of 2 tasks.\n",
    );
    const lines = readFileSync(join(cwd, "all.ndjson"), "utf8").trimEnd().split("\n");
    const contents = await contentsOf(storage);
    for (let count = 1; count < lines.length; count++) {
      const place = { cwd, env: { WAYMARK_STORAGE: `sqlite:imported-${count}.db` } };
      // Without its trailer, standard input is imported up to its end, as if the import had been killed there.
      await waymark(place, ["import"], `${lines.slice(0, count).join("\n")}\n`);
      expect((await waymark(place, ["import", "all.ndjson"])).stdout).toContain(`${count - 1} there already`);
      expect(await contentsOf(openAt(cwd, `imported-${count}.db`))).toEqual(contents);
    }
  });

  it("isn't imported into a task with another record at the same sequence", async () => {
    const { cwd, run, storage } = await placeWithLogs();
    await run("export", "t", "--out", "t.ndjson");
    const other = openAt(cwd, "other.db");
    const draft = await draftRecord(resolveOptions({ storage }), {
      taskId: "t",
      kind: "run",
      name: "input",
      value: "mine",
    });
    await other.log?.append("t", [draft]);
    const place = { cwd, env: { WAYMARK_STORAGE: "sqlite:other.db" } };
    const imported = await waymark(place, ["import", "t.ndjson"]);
    expect(imported.stderr).toContain('Sequence 1 of task "t" is taken');
    expect(imported.code).toBe(6);
    const copied = await run("copy", "--to", "sqlite:other.db");
    expect(copied.stderr).toContain("its record @1 is another one");
  });

  it("is named as records by an import that stores nothing", async () => {
    const { cwd, run } = await placeWithLogs();
    await run("export", "t", "--out", "t.ndjson");
    expect((await run("import", "t.ndjson")).stdout).toBe("Imported nothing; 6 there already.\n");
    const lines = readFileSync(join(cwd, "t.ndjson"), "utf8").trimEnd().split("\n");
    writeFileSync(join(cwd, "cut.ndjson"), `${lines.slice(0, 5).join("\n")}\n`);
    expect((await run("import", "cut.ndjson")).stderr).toContain(
      "Nothing was imported; to import the 1 checkpoint and 3 records before it: waymark import - < cut.ndjson",
    );
  });

  it("fails an import whose record was changed", async () => {
    const { cwd, run } = await placeWithLogs();
    await run("export", "--out", "all.ndjson");
    const path = join(cwd, "all.ndjson");
    writeFileSync(path, readFileSync(path, "utf8").replace('"name":"go"', '"name":"no"'));
    const imported = await waymark({ cwd, env: { WAYMARK_STORAGE: "sqlite:new.db" } }, ["import", "all.ndjson"]);
    expect(imported.stderr).toContain("its checksum doesn't match its content");
  });

  it("is left out of a copy to a storage without a log, with an error that says so", async () => {
    const { run } = await placeWithLogs();
    const copied = await run("copy", "--to", "tasks:elsewhere");
    // Once task-file keeps a log, this copies everything.
    expect(`${copied.stdout}${copied.stderr}`).toMatch(/adapter keeps no log|7 of 7 identical/);
  });

  it("is counted by stats and verify, and its damage is found", async () => {
    const { cwd, run } = await placeWithLogs();
    const [stats, early] = JSON.parse((await run("stats", "--json")).stdout);
    expect(early).toEqual({
      taskId: "early",
      checkpoints: 0,
      bytes: 0,
      stages: [],
      records: [{ kind: "event", records: 1, bytes: 4 }],
    });
    expect(stats.records).toEqual([
      { kind: "run", records: 1, bytes: 7 },
      { kind: "step", records: 1, bytes: 7 },
      { kind: "event", records: 1, bytes: 4 },
      { kind: "chunk", records: 1, bytes: 7 },
    ]);
    const table = (await run("stats")).stdout;
    expect(table).toMatch(/^early +- +0 +0 B$/m);
    expect(table).toContain("2 tasks, 2 checkpoints, 14 B of states, 5 records, 29 B");
    expect((await run("verify")).stdout).toContain("2 checkpoints and 5 records");
    const database = new Database(join(cwd, "checkpoints.db"));
    database.exec("UPDATE waymark_records SET body = '\"x\"' WHERE kind = 'step'");
    database.close();
    const copied = await run("copy", "--to", "sqlite:copy.db");
    expect(copied.stdout).toContain("6 of 7 identical; 1 can't be read, and was not copied");
    expect(copied.stderr).toContain('step record "model" (sequence 3) of task "t"');
  });

  it("is pruned with its checkpoints, and by a plan in a file", async () => {
    const { run, storage } = await placeWithLogs();
    const table = await run("prune", "t", "--keep-last", "1", "--plan-out", "plan.ndjson");
    expect(table.stdout).toContain("1 checkpoint (14 B) would go, 1 checkpoint (14 B) stay.");
    expect((await run("prune", "--plan-in", "plan.ndjson", "--yes")).stdout).toContain("Removed 1 checkpoint (14 B).");
    const left = await collect(storage.log?.read({ taskId: "t", order: "oldest" }) ?? expect.fail());
    expect(left.map(({ sequence }) => sequence)).toEqual([3, 4, 5, 6]);
  });

  it("is removed with its task, also if it has records only", async () => {
    const { run, storage } = await placeWithLogs();
    const asked = await run("delete", "t");
    expect(asked.stderr).toContain('task "t" with 2 checkpoints (14 B) and 4 records');
    expect((await run("delete", "t", "--yes")).stdout).toBe("Removed 2 checkpoints.\n");
    expect((await run("delete", "early", "--yes")).stdout).toBe("Removed 0 checkpoints.\n");
    expect(await contentsOf(storage)).toEqual([[], [], []]);
  });

  it("is exported by its task's name, also if the task has records only", async () => {
    const { run } = await placeWithLogs();
    expect((await run("export", "early", "--out", "early.ndjson")).stdout).toBe(
      "Exported 0 checkpoints and 1 record of 1 task.\n",
    );
    expect((await run("list", "early")).code).not.toBe(0);
  });
});
