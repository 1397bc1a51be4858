import type { CheckpointStatus } from "waymark";
import { requireTask } from "../checkpoints.js";
import { type DescribedCheckpoint, describeCheckpoint } from "../langgraph/thread-state.js";
import { wholeIn } from "../langgraph/whole-checkpoints.js";
import { readableSummaries } from "../read-stored.js";
import type { QuerySession } from "../store.js";

export interface CheckpointsQuery {
  /** The task, as a word on the command line names it. */
  readonly task: string;
  readonly order: "newest" | "oldest";
  readonly status?: readonly CheckpointStatus[] | undefined;
  readonly stage?: string | undefined;
  readonly limit?: number | undefined;
}

/** The checkpoints of a task, without their states. */
export async function* listCheckpoints(
  session: QuerySession,
  { task, ...query }: CheckpointsQuery,
): AsyncGenerator<DescribedCheckpoint, void, void> {
  const taskId = await requireTask(session, task);
  const isWhole = await wholeIn(session, taskId);
  for await (const checkpoint of readableSummaries(session, { taskId, ...query })) {
    if (isWhole(checkpoint)) yield await describeCheckpoint(session, checkpoint);
  }
}
