import { isCorrupt, toRecordHeader } from "waymark/adapter";
import { hasCheckpoint, isEventsTask } from "waymark/kit";
import { parseThreadPrefix } from "waymark/langgraph/records";
import { describeTask, findTasks, listTasks, wholeThread } from "../langgraph/find-tasks.js";
import { readableSummaries } from "../read-stored.js";
import type { QuerySession } from "../store.js";

/** The number of checkpoints of a task, or of all tasks of a thread, and the bytes of their states. */
export interface TaskStats {
  /** The id of the task, or of the thread. */
  readonly taskId: string;
  readonly checkpoints: number;
  readonly bytes: number;
  /** In the order in which the task reached them. */
  readonly stages: readonly StageStats[];
  /** The records of the task's log, by kind. */
  readonly records: readonly RecordStats[];
}

export interface RecordStats {
  readonly kind: string;
  readonly records: number;
  readonly bytes: number;
}

export interface StageStats {
  /** `undefined` for checkpoints without a stage. */
  readonly stage?: string;
  readonly checkpoints: number;
  readonly bytes: number;
}

/** Yields the counts of each task, by id. Tasks with records only come last. */
export async function* countTasks(
  session: QuerySession,
  { prefix }: { readonly prefix?: string | undefined },
): AsyncGenerator<TaskStats, void, void> {
  const threads = new Set<string>();
  for await (const task of findTasks(session, { order: "taskId", prefix })) {
    const thread = wholeThread(task.taskId);
    if (thread !== undefined) threads.add(thread.prefix);
    const stages = await readStages(session, task.taskId);
    const sum = (key: "checkpoints" | "bytes") => stages.reduce((total, stage) => total + stage[key], 0);
    const records = await readKinds(session, listTasks(session, task.taskId));
    yield { taskId: describeTask(task), checkpoints: sum("checkpoints"), bytes: sum("bytes"), stages, records };
  }
  if (session.storage.log === undefined) return;
  for await (const task of session.storage.tasks({ order: "taskId", prefix })) {
    if (isCorrupt(task) || hasCheckpoint(task) || isEventsTask(task.taskId)) continue;
    const { taskId } = task;
    // A thread's counts include its tasks with records only.
    if (threads.has(parseThreadPrefix(taskId) ?? "")) continue;
    yield { taskId, checkpoints: 0, bytes: 0, stages: [], records: await readKinds(session, [taskId]) };
  }
}

/** Counts the writes of a thread too. */
async function readStages(session: QuerySession, taskId: string): Promise<StageStats[]> {
  const stages = new Map<string | undefined, { checkpoints: number; bytes: number }>();
  for await (const id of listTasks(session, taskId)) {
    for await (const { stage, sizeBytes } of readableSummaries(session, { taskId: id, order: "oldest" })) {
      const counts = stages.get(stage) ?? { checkpoints: 0, bytes: 0 };
      counts.checkpoints += 1;
      counts.bytes += sizeBytes;
      stages.set(stage, counts);
    }
  }
  return [...stages].map(([stage, counts]) => ({ ...(stage === undefined ? undefined : { stage }), ...counts }));
}

async function readKinds(
  session: QuerySession,
  taskIds: Iterable<string> | AsyncIterable<string>,
): Promise<RecordStats[]> {
  const kinds = new Map<string, { records: number; bytes: number }>();
  for await (const id of taskIds) {
    for await (const item of session.storage.log?.read({ taskId: id, order: "oldest", headersOnly: true }) ?? []) {
      if (isCorrupt(item)) await session.damage.add(item);
      if (isCorrupt(item) || !("kind" in item)) continue;
      const counts = kinds.get(item.kind) ?? { records: 0, bytes: 0 };
      counts.records += 1;
      counts.bytes += toRecordHeader(item).sizeBytes;
      kinds.set(item.kind, counts);
    }
  }
  return [...kinds].map(([kind, counts]) => ({ kind, ...counts }));
}
