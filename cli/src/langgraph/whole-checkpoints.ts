import type { CheckpointSummary } from "waymark";
import { isCorrupt, type StorageFinding } from "waymark/adapter";
import { isWhole, metadataOf, threadOf } from "waymark/langgraph/records";
import type { Session } from "../cli.js";
import { findTasks } from "./find-tasks.js";
import { lostValueFinding } from "./thread-state.js";

/**
 * Tells which of a task's checkpoints have all that they are read with. Of a thread's, pruning leaves others too, for the
 * sake of those that have values from them; its saver doesn't show them either.
 */
export async function wholeIn(
  { storage }: Pick<Session, "storage">,
  taskId: string,
): Promise<(checkpoint: CheckpointSummary) => boolean> {
  if (threadOf(taskId) === undefined) return () => true;
  const all = new Map<string, Pick<CheckpointSummary, "parentId" | "metadata">>();
  for await (const record of storage.list({ taskId, order: "newest" })) {
    // A damaged one is there.
    if (record.id !== undefined) all.set(record.id, isCorrupt(record) ? {} : record);
  }
  return (checkpoint) => isWhole(checkpoint, all);
}

/** What no check of single records finds: threads whose newest checkpoint has a value from one that is gone. */
export async function* lostValues({ storage }: Pick<Session, "storage">): AsyncGenerator<StorageFinding, void, void> {
  // The check of single records has reported damage.
  const damage = { add: async () => undefined };
  for await (const { thread } of findTasks({ storage, damage }, { order: "taskId" })) {
    for (const { taskId } of thread?.namespaces ?? []) {
      for await (const newest of storage.list({ taskId, order: "newest", limit: 1 })) {
        if (isCorrupt(newest)) continue;
        const { id, sequence } = newest;
        for (const [channel, holder] of Object.entries(metadataOf(newest).holders ?? {})) {
          if ((await storage.get(taskId, holder)) !== undefined) continue;
          yield { kind: "damaged", taskId, id, sequence, ...lostValueFinding(taskId, id, channel, holder) };
        }
      }
    }
  }
}
