import type { CheckpointManager } from "waymark";
import { findDueTime } from "waymark/adapter";
import { NEVER } from "waymark/kit";
import { takeFirst } from "../first-of.js";
import { findTask, type TaskStatus } from "../langgraph/find-tasks.js";
import { LeaseReader } from "../leases.js";
import type { QuerySession } from "../store.js";
import { type ListedTask, listTasks } from "./tasks.js";

/** How many tasks wait for a worker. */
export type QueueCount = Awaited<ReturnType<CheckpointManager["queue"]>>;

export interface FleetQuery {
  readonly prefix?: string | undefined;
  readonly status?: readonly TaskStatus[] | undefined;
  readonly stage?: string | undefined;
  readonly limit: number;
}

/** An overview of the tasks: which are being run, and how many are due. */
export interface Fleet {
  /**
   * First the tasks that are being run; among them, the longest without a save comes first. Then the other tasks that
   * were saved last: those that are due (the longest due first), then the rest (the last saved first).
   */
  readonly tasks: readonly ListedTask[];
  /** How many tasks are being run now. */
  readonly held: number;
  /** The tasks that are due and that no process runs; `undefined` if counting them would list all tasks. */
  readonly queue: QueueCount | undefined;
}

export async function readFleet(session: QuerySession, query: FleetQuery): Promise<Fleet> {
  const { prefix, status, stage, limit } = query;
  const leases = new LeaseReader(session);
  const held = await leases.held(prefix);
  const found = await takeFirst(listTasks(session, { ...query, order: "recent" }), limit);
  const listed = new Set(found.map(({ taskId }) => taskId));
  // A task in a long step may not be among the last saved ones.
  for (const { taskId, ...lease } of held.filter((other) => !listed.has(other.taskId)).slice(0, limit)) {
    const task = await findTask(session.storage, taskId);
    if (task === undefined || status?.includes("running") === false) continue;
    if ((stage ?? task.newest.stage) === task.newest.stage) found.push({ ...(await leases.described(task)), lease });
  }
  const nowMs = Date.now();
  return {
    tasks: found.sort((a, b) => inOrder(a, b, nowMs)).slice(0, limit),
    held: held.length,
    queue: await queueIn(session, prefix),
  };
}

/**
 * Counts the tasks that wait for a worker.
 *
 * @returns `undefined` if counting them would list all tasks.
 */
export async function queueIn({ manager, storage }: QuerySession, prefix = ""): Promise<QueueCount | undefined> {
  if (prefix !== "") return manager.queue({ prefix });
  return storage.queue?.count({ prefix, dueBy: new Date().toISOString() });
}

function inOrder(a: ListedTask, b: ListedTask, nowMs: number): number {
  const group = (task: ListedTask) => (task.lease !== undefined ? 0 : dueMs(task) <= nowMs ? 1 : 2);
  const groupOfA = group(a);
  if (groupOfA !== group(b)) return groupOfA - group(b);
  return groupOfA === 0 ? savedMs(a) - savedMs(b) : groupOfA === 1 ? dueMs(a) - dueMs(b) : savedMs(b) - savedMs(a);
}

function dueMs(task: ListedTask): number {
  return "newest" in task ? Date.parse(findDueTime(task.newest) ?? NEVER) : 0;
}

function savedMs(task: ListedTask): number {
  return "newest" in task ? Date.parse(task.lastAt ?? task.newest.createdAt) : 0;
}
