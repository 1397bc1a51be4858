import type { StorageAdapter } from "waymark";
import { type CheckpointSummary, isCorrupt, isPassing } from "waymark/adapter";

/**
 * Returns the reason why the target's checkpoints of a task are not an earlier copy of the source's; `undefined` if they
 * may be one. Reads no payloads.
 *
 * In an earlier copy, each sequence that both storages have belongs to the same id and time. Retention may have removed
 * checkpoints on either side, and either side may have newer ones. If no checkpoint is in both, nothing shows that the
 * histories belong together. An exception are passing checkpoints, since a run's next save removes them.
 */
export async function findOtherHistory(
  from: StorageAdapter,
  to: StorageAdapter,
  taskId: string,
): Promise<string | undefined> {
  const copies = summariesIn(to, taskId);
  try {
    let copy = await copies.next();
    if (copy.done) return undefined;
    let isInSource = false;
    let unknown = 0;
    let common = 0;
    for await (const { id, sequence, createdAt } of summariesIn(from, taskId)) {
      isInSource = true;
      for (; !copy.done && copy.value.sequence < sequence; copy = await copies.next()) {
        if (!isPassing(copy.value)) unknown += 1;
      }
      if (copy.done) break;
      if (copy.value.sequence > sequence) continue;
      if (copy.value.id !== id || copy.value.createdAt !== createdAt)
        return `its checkpoint @${sequence} is another one`;
      common += 1;
      copy = await copies.next();
    }
    if (common > 0 || !isInSource) return undefined;
    for (; !copy.done && unknown === 0; copy = await copies.next()) if (!isPassing(copy.value)) unknown += 1;
    return unknown > 0 ? "no checkpoint is in both" : undefined;
  } finally {
    await copies.return();
  }
}

/** Yields a task's readable summaries, oldest first. Damage is reported where the records are read. */
async function* summariesIn(storage: StorageAdapter, taskId: string): AsyncGenerator<CheckpointSummary, void, void> {
  for await (const summary of storage.list({ taskId, order: "oldest" })) if (!isCorrupt(summary)) yield summary;
}
