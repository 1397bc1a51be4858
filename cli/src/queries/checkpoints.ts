import type { CheckpointStatus } from "waymark";
import type { CheckpointQuery as StorageQuery } from "waymark/adapter";
import { requireTask } from "../checkpoints.js";
import { type DescribedCheckpoint, describeCheckpoint } from "../langgraph/thread-state.js";
import { wholeIn } from "../langgraph/whole-checkpoints.js";
import { readableSummaries } from "../read-stored.js";
import type { QuerySession } from "../store.js";

export interface CheckpointsQuery {
  /** A word on the command line that names the task. */
  readonly task: string;
  readonly order: "newest" | "oldest";
  readonly status?: readonly CheckpointStatus[] | undefined;
  readonly stage?: string | undefined;
  readonly limit?: number | undefined;
}

/** Yields the checkpoints of a task, without their states. */
export async function* listCheckpoints(
  session: QuerySession,
  { task, ...query }: CheckpointsQuery,
): AsyncGenerator<DescribedCheckpoint, void, void> {
  yield* readCheckpoints(session, { ...query, taskId: await requireTask(session, task) });
}

/** Like {@link listCheckpoints}, for a task whose id is known. */
export async function* readCheckpoints(
  session: QuerySession,
  query: StorageQuery,
): AsyncGenerator<DescribedCheckpoint, void, void> {
  const { taskId } = query;
  const isWhole = await wholeIn(session, taskId);
  for await (const checkpoint of readableSummaries(session, query)) {
    if (isWhole(checkpoint)) yield await describeCheckpoint(session, checkpoint);
  }
}
