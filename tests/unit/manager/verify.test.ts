import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type RepairResult, UnsupportedOperationError, type VerifyResult } from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { tempFolder } from "../../support/temp-folder.js";

/** Makes a store of two tasks with three checkpoints each. One task's name looks like a quarantine's. */
async function populated(scheme: "files" | "tasks" | "sqlite") {
  const folder = await tempFolder();
  const root = join(folder, scheme === "sqlite" ? "x.db" : "store");
  const manager = new CheckpointManager({
    storage: openStorage(`${scheme}:${root}`),
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

/** Changes the state of a task's second checkpoint. */
function damage(root: string, scheme: "files" | "tasks" | "sqlite", task: string): void {
  const change = (text: string) => text.replace('"n":2', '"n":7');
  if (scheme === "files") edit(join(root, task, `000000000002-${task}-s2.json`), change);
  else if (scheme === "tasks") edit(join(root, task, "checkpoints.json"), change);
  else {
    const database = new Database(root);
    const where = "number = (SELECT number FROM waymark_checkpoints WHERE task_id = ? AND sequence = 2)";
    database.prepare(`UPDATE waymark_payloads SET body = '{"n":7}' WHERE ${where}`).run(task);
    database.close();
  }
}

describe("verify", () => {
  it("counts the checked records, reports its progress, and ends at an event", async () => {
    const { manager } = await populated("files");
    const seen: VerifyResult[] = [];
    const result = await manager.maintenance.verify({ onProgress: (soFar) => seen.push(soFar) });
    expect(result).toEqual({ tasks: 2, checkpoints: 6, records: 0, bytes: 42, findings: [] });
    expect(seen.map(({ checkpoints }) => checkpoints)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(seen.at(-1)).toEqual(result);
    const stop = new AbortController();
    const stopped = manager.maintenance.verify({
      signal: stop.signal,
      onProgress: () => stop.abort(new Error("enough")),
    });
    await expect(stopped).rejects.toThrow("enough");
  });

  it("lets timers and close() run between the tasks of a database", async () => {
    const { manager } = await populated("sqlite");
    for (let n = 0; n < 20; n++) await manager.save(`t${n}`, n);
    let seen = 0;
    const verified = manager.maintenance.verify({
      onProgress: ({ tasks }) => {
        seen = tasks;
      },
    });
    const closed = new Promise<void>((resolve, reject) => {
      setImmediate(() => {
        manager.close().then(resolve, reject);
      });
    });
    await expect(verified).rejects.toMatchObject({ code: "CLOSED" });
    await closed;
    expect(seen).toBeLessThan(22);
  });

  it("doesn't read payloads if it is quick", async () => {
    const { root, manager } = await populated("files");
    edit(join(root, "other", "000000000001-other-s1.json"), (text) => text.replace('"n":1', '"n":7'));
    expect((await manager.maintenance.verify({ quick: true })).findings).toEqual([]);
    expect((await manager.maintenance.verify()).findings).toHaveLength(1);
  });

  it("reads every record of a storage without its own verify, and refuses to repair it", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    for (const task of ["a", "b"]) await manager.save(task, 1);
    expect(await manager.maintenance.verify()).toMatchObject({ tasks: 2, checkpoints: 2, findings: [] });
    expect(await manager.maintenance.verify({ quick: true })).toMatchObject({ tasks: 2, checkpoints: 2, findings: [] });
    await expect(manager.maintenance.repair()).rejects.toBeInstanceOf(UnsupportedOperationError);
  });

  it.each(["files", "tasks", "sqlite"] as const)(
    "ends with a ClosedError when the manager closes (%s)",
    async (scheme) => {
      const { manager } = await populated(scheme);
      const seen: VerifyResult[] = [];
      const verifying = manager.maintenance.verify({
        onProgress: (soFar) => {
          seen.push(soFar);
          void manager.close();
        },
      });
      await expect(verifying).rejects.toMatchObject({ code: "CLOSED" });
      expect(seen).toHaveLength(1);
    },
  );

  it.each(["files", "tasks", "sqlite"] as const)(
    "stops a repair between two checkpoints when the manager closes (%s)",
    async (scheme) => {
      const { root, manager } = await populated(scheme);
      const before = new CheckpointManager({ storage: openStorage(`${scheme}:${root}`) });
      for (const task of ["quarantine", "other"]) damage(root, scheme, task);
      const found = (await before.maintenance.verify()).findings;
      const repairing = before.maintenance.repair({ onProgress: () => void before.close() });
      await expect(repairing).rejects.toMatchObject({ code: "CLOSED" });
      await before.close();

      const seen: RepairResult[] = [];
      const { steps } = await manager.maintenance.repair({ onProgress: (soFar) => seen.push(soFar) });
      expect(found).toHaveLength(2);
      expect(steps).toHaveLength(1);
      expect(seen).toEqual([{ dryRun: false, steps, tasks: [] }]);
      expect((await manager.maintenance.verify()).findings).toEqual([]);
    },
  );

  it.each(["files", "tasks", "sqlite"] as const)("also stops a repair that finds nothing (%s)", async (scheme) => {
    const { manager } = await populated(scheme);
    const repairing = manager.maintenance.repair();
    await manager.close();
    await expect(repairing).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("refuses options that don't exist, or are of a wrong kind", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    // @ts-expect-error: misspelled.
    await expect(manager.maintenance.verify({ quik: true })).rejects.toThrow('VerifyOptions has no "quik"');
    // @ts-expect-error: It isn't a boolean.
    await expect(manager.maintenance.verify({ quick: 1 })).rejects.toThrow(TypeError);
    await expect(manager.maintenance.repair({ leftoversOlderThanMs: -1 })).rejects.toThrow(RangeError);
    // @ts-expect-error: It isn't a boolean.
    await expect(manager.maintenance.repair({ dryRun: "yes" })).rejects.toThrow(TypeError);
  });
});
