import { mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, UnsupportedOperationError, type VerifyCounts } from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { recoverLastSequence } from "../../../adapters/files/numbering-recovery.js";
import { sealNumbering } from "../../../adapters/files/sealed-record.js";
import { tempFolder } from "../../support/temp-folder.js";

const YESTERDAY = new Date(Date.now() - 24 * 60 * 60 * 1000);

/** A store of two tasks with three checkpoints each, one of them named as the quarantine might be. */
async function populated(scheme: "files" | "tasks" | "sqlite") {
  const folder = await tempFolder();
  const root = join(folder, scheme === "sqlite" ? "x.db" : "store");
  const manager = new CheckpointManager({
    storage: await openStorage(`${scheme}:${root}`),
    createId: ({ taskId, stage }) => `${taskId}-${stage}`,
  });
  onTestFinished(() => manager.close());
  for (const task of ["quarantine", "other"]) {
    for (const n of [1, 2, 3]) await manager.save(task, { n }, { stage: `s${n}` });
  }
  return { folder, root, manager };
}

function edit(path: string, change: (text: string) => string): string {
  const changed = change(readFileSync(path, "utf8"));
  writeFileSync(path, changed);
  return changed;
}

const shape = ({ action, finding }: { action: string; finding: { kind: string; sequence?: number } }) =>
  `${action} ${finding.kind} ${finding.sequence ?? ""}`.trim();

describe("repair of json-file", () => {
  it("moves the file byte for byte, notes why, and tells what is lost and what is newest", async () => {
    const { root, manager } = await populated("files");
    const path = join(root, "quarantine", "000000000003-quarantine-s3.json");
    const bytes = edit(path, (text) => text.replace('"n":3', '"n":4'));
    const { steps, tasks, dryRun } = await manager.repair();
    const to = join(root, ".quarantine", "quarantine", "000000000003-quarantine-s3.json");
    expect(dryRun).toBe(false);
    expect(steps).toEqual([
      {
        action: "quarantined",
        to,
        finding: {
          kind: "record",
          location: path,
          reason: "its payload fails its SHA-256 checksum",
          taskId: "quarantine",
          id: "quarantine-s3",
          sequence: 3,
          createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
        },
      },
    ]);
    expect(tasks).toMatchObject([{ taskId: "quarantine", newest: { sequence: 2, id: "quarantine-s2" } }]);
    expect(readFileSync(to, "utf8")).toBe(bytes);
    expect(JSON.parse(readFileSync(`${to}.reason.json`, "utf8"))).toMatchObject({
      from: "quarantine/000000000003-quarantine-s3.json",
      taskId: "quarantine",
      sequence: 3,
      reason: "its payload fails its SHA-256 checksum",
    });
    // The task of that name is as any other, and the folder is nobody's task.
    expect((await manager.tasks()).map(({ taskId, count }) => [taskId, count])).toEqual([
      ["other", 3],
      ["quarantine", 2],
    ]);
    expect((await manager.save("quarantine", { n: 5 }, { stage: "s5" })).sequence).toBe(4);
  });

  it("keeps both where two damaged files have the same name", async () => {
    const { root, manager } = await populated("files");
    const path = join(root, "other", "000000000001-other-s1.json");
    const whole = readFileSync(path);
    for (const digit of ["7", "8"]) {
      writeFileSync(path, whole);
      edit(path, (text) => text.replace('"n":1', `"n":${digit}`));
      await manager.repair();
    }
    const kept = readdirSync(join(root, ".quarantine", "other")).filter((name) => !name.endsWith(".reason.json"));
    expect(
      kept.map((name) => /"n":\d/.exec(readFileSync(join(root, ".quarantine", "other", name), "utf8"))?.[0]),
    ).toEqual(['"n":7', '"n":8']);
  });

  it("reports as left only what is still there once it has the lock", async () => {
    const { root, manager } = await populated("files");
    await manager.remove("other", "other-s3");
    edit(join(root, "other", "000000000001-other-s1.json"), (text) => text.replace('"n":1', '"n":7'));
    edit(join(root, "other", "numbering.json"), (text) => text.replace('"lastSequence":3', '"lastSequence":1'));
    const other = new CheckpointManager({ storage: await openStorage(`files:${root}`) });
    onTestFinished(() => other.close());
    const both = await Promise.all([manager.repair(), other.repair()]);
    expect(both.flatMap(({ steps }) => steps.map(shape)).sort()).toEqual([
      "quarantined record 1",
      "renumbered numbering",
    ]);
  });

  it("writes a damaged numbering anew, so that the task can be saved to again", async () => {
    const { root, manager } = await populated("files");
    await manager.remove("other", "other-s3");
    const path = join(root, "other", "numbering.json");
    edit(path, (text) => text.replace('"lastSequence":3', '"lastSequence":1'));
    await expect(manager.save("other", {}, { stage: "x" })).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    expect((await manager.verify()).findings.map(({ kind, location }) => [kind, location])).toEqual([
      ["numbering", path],
    ]);
    expect((await manager.repair()).steps).toMatchObject([{ action: "renumbered", lastSequence: 3 }]);
    expect((await manager.save("other", {}, { stage: "x" })).sequence).toBe(4);
    expect((await manager.verify()).findings).toEqual([]);
  });

  it("leaves links, strays and newer versions as they are, and says why", async () => {
    const { root, manager } = await populated("files");
    const files = readdirSync(join(root, "other")).filter((name) => name.endsWith(".json"));
    renameSync(join(root, "other", files[0] ?? ""), join(root, "other", "renamed.json"));
    edit(join(root, "other", files[1] ?? ""), (text) =>
      text.replace('{"waymark":1,', '{"waymark":2,').replace('"seal":"', '"seal":"2-'),
    );
    symlinkSync(join(root, "other"), join(root, "linked"));
    const { steps } = await manager.repair();
    expect(steps.map(shape)).toEqual(["left record", "left refused 2", "left stray"]);
    for (const step of steps) expect(step).toMatchObject({ advice: expect.stringMatching(/\.$/) });
    expect(readdirSync(root).sort()).toEqual(["linked", "other", "quarantine"]);
  });

  it("removes what killed writers have left once it is old, and not before", async () => {
    const { root, manager } = await populated("files");
    const lock = join(root, "other", ".lock");
    const leftovers = [join(lock, "4194305@gone+0123456789abcdef01234567"), join(root, "other", ".lock-stolen")];
    for (const path of leftovers) {
      mkdirSync(path);
      utimesSync(path, YESTERDAY, YESTERDAY);
    }
    const { findings } = await manager.verify();
    expect(findings.map(({ kind, location }) => [kind, location])).toEqual(leftovers.map((path) => ["leftover", path]));
    const week = 7 * 24 * 60 * 60 * 1000;
    expect((await manager.repair({ leftoversOlderThanMs: week })).steps.map(shape)).toEqual([
      "left leftover",
      "left leftover",
    ]);
    expect((await manager.repair({ dryRun: true })).steps.map(shape)).toEqual(["removed leftover", "removed leftover"]);
    expect((await manager.repair()).steps.map(shape)).toEqual(["removed leftover", "removed leftover"]);
    expect((await manager.verify()).findings).toEqual([]);
    expect(readdirSync(join(root, "other")).filter((name) => name.startsWith(".lock-"))).toEqual([]);
  });
});

describe("repair of task-file", () => {
  it("moves damaged lines alone, and keeps the intact ones", async () => {
    const { root, manager } = await populated("tasks");
    const path = join(root, "other", "checkpoints.json");
    const text = edit(path, (whole) => whole.replace('"n":2', '"n":9'));
    const { steps, tasks } = await manager.repair();
    expect(steps.map(shape)).toEqual(["quarantined record 2"]);
    expect(tasks).toMatchObject([{ taskId: "other", newest: { sequence: 3 } }]);
    const kept = readFileSync(join(root, ".quarantine", "other", "checkpoint-2.json"), "utf8");
    expect(`${kept},`).toBe(text.split("\n")[2]);
    expect((await manager.list("other")).map(({ sequence }) => sequence)).toEqual([3, 1]);
  });

  it("keeps the whole file where its first line is damaged, and numbers on", async () => {
    const { root, manager } = await populated("tasks");
    const path = join(root, "other", "checkpoints.json");
    const text = edit(path, (whole) => whole.replace('"lastSequence":3', '"lastSequence":7'));
    expect((await manager.repair()).steps).toMatchObject([{ action: "renumbered", lastSequence: 3 }]);
    expect(readFileSync(join(root, ".quarantine", "other", "checkpoints.json"), "utf8")).toBe(text);
    expect((await manager.save("other", {}, { stage: "s4" })).sequence).toBe(4);
  });

  it("keeps the numbering of a file that was cut short", async () => {
    const { root, manager } = await populated("tasks");
    edit(join(root, "other", "checkpoints.json"), (whole) => whole.slice(0, whole.indexOf("\n") + 200));
    const { tasks } = await manager.repair();
    expect(tasks).toEqual([{ taskId: "other", newest: undefined }]);
    expect((await manager.save("other", {}, { stage: "s4" })).sequence).toBe(4);
  });
});

describe("repair of sqlite", () => {
  it("moves rows with all their columns to a table", async () => {
    const { root, manager } = await populated("sqlite");
    const database = new Database(root);
    onTestFinished(() => void database.close());
    database.exec("UPDATE waymark_checkpoints SET created_at = 'then' WHERE task_id = 'other' AND sequence = 3");
    expect((await manager.repair()).steps.map(shape)).toEqual(["quarantined record 3"]);
    expect(
      database.prepare("SELECT task_id, sequence, created_at, body, reason FROM waymark_quarantine").all(),
    ).toEqual([
      {
        ...{ task_id: "other", sequence: 3, created_at: "then", body: '{"n":3}' },
        reason: "its seal doesn't match its content",
      },
    ]);
    expect((await manager.save("other", {}, { stage: "s4" })).sequence).toBe(4);
  });

  it("lists a task again that has lost its row, and moves payloads that belong to nothing", async () => {
    const { root, manager } = await populated("sqlite");
    const database = new Database(root);
    onTestFinished(() => void database.close());
    database.exec(
      "DELETE FROM waymark_tasks WHERE task_id = 'other'; INSERT INTO waymark_payloads VALUES (99, 'lost')",
    );
    expect((await manager.repair()).steps.map(shape)).toEqual(["renumbered numbering", "quarantined stray"]);
    expect((await manager.tasks()).map(({ taskId }) => taskId)).toEqual(["other", "quarantine"]);
    expect((await manager.verify()).findings).toEqual([]);
  });

  it("doesn't touch a database that SQLite finds malformed, and says what can be done", async () => {
    const { root, manager } = await populated("sqlite");
    const database = new Database(root);
    database.exec("UPDATE waymark_payloads SET body = 'x' WHERE number = 1; CREATE TABLE theirs (a)");
    // A page that no call of ours comes to.
    const [page] = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'theirs'").raw().get() as [number];
    database.close();
    await manager.close();
    const bytes = readFileSync(root).fill(0xff, (page - 1) * 4096, page * 4096);
    writeFileSync(root, bytes);

    const again = new CheckpointManager({ storage: await openStorage(`sqlite:${root}`) });
    onTestFinished(() => again.close());
    const { steps } = await again.repair();
    expect(steps.map(shape)).toEqual(["left database", "left record 1"]);
    expect(steps[0]).toMatchObject({ advice: expect.stringContaining("x.db .recover") });
    expect(readFileSync(root).equals(bytes)).toBe(true);
  });

  it("finds damage in the middle of a log, and none in a log that is whole", async () => {
    const { root, manager } = await populated("sqlite");
    expect((await manager.verify()).findings).toEqual([]);
    const log = readFileSync(`${root}-wal`);
    log[32 + 24 + 10] = 0xff;
    writeFileSync(`${root}-wal`, log);
    expect((await manager.verify()).findings[0]).toMatchObject({
      kind: "database",
      location: `${root}-wal`,
      reason: expect.stringMatching(/^frame 1 of the log is damaged.*\d+ transactions that were committed are hidden$/),
    });
  });

  it("removes databases that nobody finished making", async () => {
    const { root, manager } = await populated("sqlite");
    const draft = `${root}.new-123-0123456789ab`;
    writeFileSync(draft, "");
    expect((await manager.verify()).findings).toEqual([]);
    utimesSync(draft, YESTERDAY, YESTERDAY);
    expect((await manager.verify()).findings).toMatchObject([{ kind: "leftover", location: draft }]);
    expect((await manager.repair()).steps.map(shape)).toEqual(["removed leftover"]);
    expect((await manager.verify()).findings).toEqual([]);
  });
});

describe("verify", () => {
  it("counts what it looks at, tells how far it is, and ends at a signal", async () => {
    const { manager } = await populated("files");
    const seen: VerifyCounts[] = [];
    const result = await manager.verify({ onProgress: (soFar) => seen.push(soFar) });
    expect(result).toEqual({ tasks: 2, checkpoints: 6, bytes: 42, findings: [] });
    expect(seen.at(-1)).toEqual({ tasks: 2, checkpoints: 6, bytes: 42, findings: 0 });
    const stop = new AbortController();
    const stopped = manager.verify({ signal: stop.signal, onProgress: () => stop.abort(new Error("enough")) });
    await expect(stopped).rejects.toThrow("enough");
  });

  it("leaves payloads unread where it is to be quick", async () => {
    const { root, manager } = await populated("files");
    edit(join(root, "other", "000000000001-other-s1.json"), (text) => text.replace('"n":1', '"n":7'));
    expect((await manager.verify({ quick: true })).findings).toEqual([]);
    expect((await manager.verify()).findings).toHaveLength(1);
  });

  it("reads every record of a storage that has no verify of its own, and such a one can't be repaired", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    for (const task of ["a", "b"]) await manager.save(task, 1);
    expect(await manager.verify()).toMatchObject({ tasks: 2, checkpoints: 2, findings: [] });
    expect(await manager.verify({ quick: true })).toMatchObject({ tasks: 2, checkpoints: 2, findings: [] });
    await expect(manager.repair()).rejects.toBeInstanceOf(UnsupportedOperationError);
  });

  it("refuses options that don't exist, or are of a wrong kind", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    // @ts-expect-error: misspelled.
    await expect(manager.verify({ quik: true })).rejects.toThrow('VerifyOptions has no "quik"');
    // @ts-expect-error: no boolean.
    await expect(manager.verify({ quick: 1 })).rejects.toThrow(TypeError);
    await expect(manager.repair({ leftoversOlderThanMs: -1 })).rejects.toThrow(RangeError);
    // @ts-expect-error: no boolean.
    await expect(manager.repair({ dryRun: "yes" })).rejects.toThrow(TypeError);
  });
});

it("a damaged numbering is told by what is left of it: its number, its seal, or a wide gap", async () => {
  const text = (number: number) => JSON.stringify(sealNumbering({ taskId: "t", lastSequence: number }));
  const recovered = (damaged: string, atLeast = 2) => recoverLastSequence(damaged, "t", atLeast);
  expect(await recovered(text(41).replace('":41', '":99'))).toBe(41);
  expect(await recovered(text(41).replace(/.(?="})/, "x"))).toBe(41);
  expect(await recovered(text(41), 60)).toBe(60);
  expect(await recovered("")).toBe(1_000_002);
});
