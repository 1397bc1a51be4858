import { readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, UnsupportedOperationError, type VerifyCounts } from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
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
