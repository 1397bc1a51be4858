import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { draft } from "../../../../conformance/drafts.js";
import { connect, newStore, openAdapter, spyingDriver } from "./support.js";

const QUERY = { prefix: "q/", dueBy: "2026-01-02T03:04:59.000Z" };
const LONG_MS = 600_000;

/** Makes a task's checkpoint like a run's. */
function ofRun(taskId: string, id: string, second: number, status: "paused" | "running") {
  const createdAt = new Date(Date.UTC(2026, 0, 2, 3, 4, second)).toISOString();
  return draft(taskId, id, { createdAt, dueAt: createdAt, status });
}

it("a task whose worker was killed is due at once, before those that wait longer", async () => {
  const { adapter, path } = await newStore();
  await adapter.append(ofRun("q/waits", "c1", 1, "paused"));
  await adapter.append(ofRun("q/t", "c1", 2, "running"));
  const program = `
    import { CheckpointManager } from "waymark";
    import { SqliteAdapter } from "waymark/adapters/sqlite";
    const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: ${JSON.stringify(path)} }) });
    await manager.lease("q/t", { ttlMs: ${LONG_MS} });
    process.kill(process.pid, "SIGKILL");`;
  const child = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  expect(child).toMatchObject({ signal: "SIGKILL", stderr: "" });
  expect(await adapter.queue.count(QUERY)).toEqual({ tasks: 2, oldestDueAt: "2026-01-02T03:04:01.000Z" });
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([{ taskId: "q/t", token: 2 }]);
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([{ taskId: "q/waits", token: 1 }]);
});

it("a look that finds nothing takes no lock, and makes no database", async () => {
  const statements: string[] = [];
  const { adapter, path } = await newStore({ driver: spyingDriver({ prepared: (sql) => statements.push(sql) }) });
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([]);
  expect(await adapter.queue.count(QUERY)).toEqual({ tasks: 0, oldestDueAt: undefined });
  expect(existsSync(path)).toBe(false);
  await openAdapter({ path }).append(ofRun("other/t", "c1", 1, "paused"));
  const other = connect(path);
  other.exec("BEGIN IMMEDIATE");
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([]);
  other.exec("COMMIT");
  expect(statements.filter((sql) => sql.startsWith("BEGIN"))).toEqual([]);
});

it("a task that is completed right before its claim isn't claimed", async () => {
  const { adapter, path } = await newStore();
  for (const [second, taskId] of ["q/1", "q/2"].entries()) await adapter.append(ofRun(taskId, "c1", second, "paused"));
  const other = connect(path);
  let completed = 0;
  const running = (sql: string) => {
    if (sql !== "BEGIN IMMEDIATE" || completed > 0) return;
    completed = other
      .prepare("UPDATE waymark_tasks SET newest_status = 'completed', due_at = NULL WHERE task_id = 'q/1'")
      .run().changes;
  };
  const slow = openAdapter({ path, driver: spyingDriver({ running }) });
  expect(await slow.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([{ taskId: "q/2", token: 1 }]);
  expect(completed).toBe(1);
});

it("the saves of a running task keep its place in the line, and leave the index alone", async () => {
  const changes: string[] = [];
  const running = (sql: string) => void (sql.startsWith("UPDATE waymark_tasks SET due_at") && changes.push(sql));
  const { adapter, path } = await newStore({ driver: spyingDriver({ running }) });
  const stored = () => connect(path).prepare("SELECT due_at FROM waymark_tasks").pluck().get();
  await adapter.append(ofRun("q/t", "c1", 10, "paused"));
  for (const second of [11, 12, 13]) await adapter.append(ofRun("q/t", `c${second}`, second, "running"));
  expect([stored(), changes.length]).toEqual(["2026-01-02T03:04:10.000Z", 1]);
  await adapter.append(ofRun("q/t", "c14", 14, "paused"));
  expect([stored(), changes.length]).toEqual(["2026-01-02T03:04:14.000Z", 2]);
  await adapter.append(draft("q/t", "plain"));
  expect([stored(), changes.length]).toEqual([null, 3]);
  await adapter.append(draft("q/t", "plain-2"));
  expect([stored(), changes.length]).toEqual([null, 3]);
});

it("a task that its holder releases between the two reads of a claim is claimed once", async () => {
  const reading = (sql: string) => {
    if (sql.includes("ORDER BY t.due_at LIMIT")) other.exec("UPDATE waymark_leases SET expires_at_ms = renewed_at_ms");
  };
  const { adapter, path } = await newStore({ driver: spyingDriver({ reading }) });
  await adapter.append(ofRun("q/t", "c1", 2, "paused"));
  await adapter.leases.claim("q/t", "another worker", LONG_MS);
  const other = connect(path);
  // The task's lease has expired.
  other.exec("UPDATE waymark_leases SET renewed_at_ms = 1, expires_at_ms = 2");
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 4)).toEqual([{ taskId: "q/t", token: 2 }]);
  other.close();
});
