// Tests manager.tasks and findIncomplete by the current statuses of tasks, on every storage.
import { beforeEach, describe, expect, it } from "vitest";
import { CheckpointManager, type TaskSummary } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { shortenPauses } from "../../support/stopped-clock.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, STORAGES } from "../runs/run-support.js";

beforeEach(shortenPauses);

const statuses = (tasks: readonly TaskSummary[]) =>
  Object.fromEntries(tasks.map(({ taskId, status }) => [taskId, status]));

const EXPECTED = {
  cancelled: "cancelled",
  completed: "completed",
  failed: "failed",
  held: "running",
  later: "scheduled",
  paused: "paused",
  queued: "queued",
  saved: "interrupted",
  waits: "waiting",
} as const;

/** Makes a task with each status. */
async function fill(manager: CheckpointManager) {
  for (const task of ["cancelled", "queued", "waits"]) await manager.enqueue(task);
  await manager.cancel("cancelled", "too late");
  await manager.run("completed", () => 1);
  await manager.run("failed", () => Promise.reject(new Error("no room"))).catch(() => undefined);
  await manager.enqueue("later", undefined, { dueAt: new Date("2999-12-01T09:00:00Z") });
  for (const task of ["held", "saved"]) await manager.save(task, {});
  await manager.save("paused", {}, { status: "paused" });
  const suspended = new Promise((resolve) => manager.on("runPaused", resolve));
  const drain = new AbortController();
  const worker = manager.work({ prefix: "waits", signal: drain.signal }, (run) => run.waitFor("approve"));
  await suspended;
  drain.abort();
  await worker;
  return manager.lease("held");
}

describe.each(Object.entries(STORAGES))("the tasks in %s", (_, open) => {
  it("have the statuses that are true now, and are selected by them", async () => {
    const storage = await open();
    const { manager } = managerOn(storage);
    const lease = await fill(manager);
    expect(statuses(await manager.tasks())).toEqual(EXPECTED);
    for (const [taskId, status] of Object.entries(EXPECTED)) {
      for (const limit of [undefined, 1, 5]) {
        expect(statuses(await manager.tasks({ status, limit }))).toEqual({ [taskId]: status });
      }
    }
    const some = await manager.tasks({ status: ["waiting", "running"], order: "recent" });
    expect(statuses(some)).toEqual({ held: "running", waits: "waiting" });
    expect(await manager.tasks({ status: "running", prefix: "w" })).toEqual([]);
    expect(await manager.tasks({ status: "running", after: "held" })).toEqual([]);
    const { cancelled: _cancelled, completed: _completed, ...left } = EXPECTED;
    expect(statuses(await manager.findIncomplete())).toEqual(left);
    expect(await manager.findIncomplete({ limit: 3 })).toHaveLength(3);

    await lease.release();
    await manager.send("waits", "approve");
    await manager.retry("failed");
    expect(statuses(await manager.tasks())).toEqual({
      ...EXPECTED,
      held: "interrupted",
      waits: "queued",
      failed: "queued",
    });
    await storage.close();
  });
});

it("tasks that aren't selected don't take places within the limit, and few leases are read", async () => {
  const memory = new MemoryAdapter();
  const { leases } = memory;
  let reads = 0;
  const counted = withMembers(leases, {
    current: (taskId) => {
      reads += 1;
      return leases.current(taskId);
    },
  });
  const { manager } = managerOn(withMembers(memory, { leases: counted }));
  for (let n = 0; n < 200; n++) await manager.save(`t${String(n).padStart(3, "0")}`, n);
  await using _lease = await manager.lease("t150");
  reads = 0;
  const ids = async (query: Parameters<CheckpointManager["tasks"]>[0]) =>
    (await manager.tasks(query)).map(({ taskId }) => taskId);
  expect(await ids({ status: "running", limit: 3 })).toEqual(["t150"]);
  expect(await ids({ status: "interrupted", after: "t148", limit: 2 })).toEqual(["t149", "t151"]);
  expect(await ids({})).toHaveLength(200);
  expect(reads).toBeLessThan(20);
});

it("without leases, no task has a runner", async () => {
  const memory = new MemoryAdapter();
  const storage = withMembers(memory, { leases: undefined, queue: undefined });
  const manager = new CheckpointManager({ storage });
  await manager.save("t", 1);
  expect(statuses(await manager.tasks())).toEqual({ t: "interrupted" });
  expect(await manager.tasks({ status: "running" })).toEqual([]);
  await expect(manager.tasks({ status: "due" as never })).rejects.toThrow(/one of queued, scheduled/);
});
