import type { CheckpointSummary, VerifyResult } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { hasCheckpoint } from "waymark/kit";
import { isWhole, type KnownSummaries, parseThread, readMetadata, THREADS_PREFIX } from "waymark/langgraph/records";
import type { QuerySession } from "../store.js";
import { lostValueFinding } from "./thread-state.js";

type TaskSource = Pick<QuerySession, "storage">;

/**
 * Returns a function that tells whether a checkpoint of the task has all its values. Pruning may leave incomplete ones
 * in a thread, because kept checkpoints take values from them. The saver doesn't show incomplete ones either.
 */
export async function wholeIn(source: TaskSource, taskId: string): Promise<(checkpoint: CheckpointSummary) => boolean> {
  if (parseThread(taskId) === undefined) return () => true;
  const all = await summariesIn(source, taskId);
  return (checkpoint) => isWhole(checkpoint, all);
}

/** Finds threads whose newest checkpoint needs a value from a removed one. Checks of single records can't find them. */
export async function* lostValues(source: TaskSource): AsyncGenerator<VerifyResult["findings"][number], void, void> {
  for await (const task of source.storage.tasks({ prefix: THREADS_PREFIX, order: "taskId" })) {
    // The check of single records has already reported damage.
    if (!hasCheckpoint(task) || parseThread(task.taskId) === undefined) continue;
    const { taskId, newest } = task;
    const all = await summariesIn(source, taskId);
    for (const [channel, holder] of Object.entries(readMetadata(newest).holders ?? {})) {
      if (all.has(holder)) continue;
      const { id, sequence } = newest;
      yield { kind: "damaged", taskId, id, sequence, ...lostValueFinding(taskId, id, channel, holder) };
    }
  }
}

/** Returns the task's checkpoints by id. */
async function summariesIn({ storage }: TaskSource, taskId: string): Promise<KnownSummaries> {
  const all = new Map<string, Pick<CheckpointSummary, "parentId" | "metadata">>();
  for await (const record of storage.list({ taskId, order: "newest" })) {
    // A damaged checkpoint still counts as present.
    if (record.id !== undefined) all.set(record.id, isCorrupt(record) ? {} : record);
  }
  return all;
}
