import { isCorrupt, toRecordHeader } from "waymark/adapter";
import { hasCheckpoint } from "waymark/kit";
import { describeTask, findTasks } from "../langgraph/find-tasks.js";
import { readableSummaries } from "../read-stored.js";
import type { QuerySession } from "../store.js";

/** The number of checkpoints of a task, or of all tasks of a thread, and the bytes of their states. */
export interface TaskStats {
  /** The id of the task, or of the thread. */
  readonly taskId: string;
  readonly checkpoints: number;
  readonly bytes: number;
  /** The stages, in the order in which the task reached them. */
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

/** Yields the counts of each task, by id. Tasks that have only records come last. */
export async function* countTasks(
  session: QuerySession,
  { prefix }: { readonly prefix?: string | undefined },
): AsyncGenerator<TaskStats, void, void> {
  for await (const task of findTasks(session, { order: "taskId", prefix })) {
    const taskIds = task.thread?.namespaces.map(({ taskId }) => taskId) ?? [task.taskId];
    const stages = await readStages(session, taskIds);
    const sum = (key: "checkpoints" | "bytes") => stages.reduce((total, stage) => total + stage[key], 0);
    const records = await readKinds(session, taskIds);
    yield { taskId: describeTask(task), checkpoints: sum("checkpoints"), bytes: sum("bytes"), stages, records };
  }
  if (session.storage.log === undefined) return;
  for await (const task of session.storage.tasks({ order: "taskId", prefix })) {
    if (isCorrupt(task) || hasCheckpoint(task)) continue;
    const { taskId } = task;
    yield { taskId, checkpoints: 0, bytes: 0, stages: [], records: await readKinds(session, [taskId]) };
  }
}

async function readStages(session: QuerySession, taskIds: readonly string[]): Promise<StageStats[]> {
  const stages = new Map<string | undefined, { checkpoints: number; bytes: number }>();
  for (const taskId of taskIds) {
    for await (const { stage, sizeBytes } of readableSummaries(session, { taskId, order: "oldest" })) {
      const counts = stages.get(stage) ?? { checkpoints: 0, bytes: 0 };
      counts.checkpoints += 1;
      counts.bytes += sizeBytes;
      stages.set(stage, counts);
    }
  }
  return [...stages].map(([stage, counts]) => ({ ...(stage === undefined ? undefined : { stage }), ...counts }));
}

async function readKinds(session: QuerySession, taskIds: readonly string[]): Promise<RecordStats[]> {
  const kinds = new Map<string, { records: number; bytes: number }>();
  for (const taskId of taskIds) {
    for await (const item of session.storage.log?.read({ taskId, order: "oldest", headersOnly: true }) ?? []) {
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
