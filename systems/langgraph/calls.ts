import type { StorageAdapter } from "../../src/contract/adapter.js";
import { hasCheckpoint } from "../../src/contract/adapter.js";
import type { CheckpointSummary } from "../../src/contract/checkpoint.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { readMetadata } from "./records.js";
import { checkpointsPrefix } from "./task-ids.js";

/** The history of one subgraph call. */
export interface CalledTask {
  readonly taskId: string;
  readonly checkpoints: readonly CheckpointSummary[];
}

/**
 * The calls of subgraphs that began at these checkpoints of a thread, and the calls that began within those. (A subgraph
 * with a checkpointer of its own has one history for all its calls, which isn't among them.) Damaged checkpoints are
 * left out.
 */
export async function findCalls(
  storage: StorageAdapter,
  threadId: string,
  callers: Iterable<string>,
): Promise<readonly CalledTask[]> {
  const others = new Map<string, string>();
  for await (const task of storage.tasks({ prefix: checkpointsPrefix(threadId), order: "taskId" })) {
    if (isCorrupt(task) || !hasCheckpoint(task)) continue;
    const { caller } = readMetadata(task.newest);
    if (caller !== undefined) others.set(task.taskId, caller);
  }
  const ids = new Set(callers);
  const calls: CalledTask[] = [];
  for (let before = -1; before < calls.length; ) {
    before = calls.length;
    for (const [taskId, caller] of others) {
      if (!ids.has(caller)) continue;
      others.delete(taskId);
      const checkpoints: CheckpointSummary[] = [];
      for await (const one of storage.list({ taskId, order: "oldest" })) if (!isCorrupt(one)) checkpoints.push(one);
      for (const { id } of checkpoints) ids.add(id);
      calls.push({ taskId, checkpoints });
    }
  }
  return calls;
}
