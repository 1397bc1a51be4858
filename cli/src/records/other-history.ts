import type { StorageAdapter } from "waymark";
import { type CheckpointSummary, isCorrupt } from "waymark/adapter";

/**
 * Returns the reason why the target's checkpoints of a task are not an earlier copy of the source's; `undefined` if they
 * may be one. Reads no payloads.
 *
 * In an earlier copy, each sequence that both storages have belongs to the same id and time. Retention may have removed
 * checkpoints on either side, and either side may have newer ones. If no checkpoint is in both, the source continues the
 * target's history if {@link continuesAfter} holds.
 */
export async function findOtherHistory(
  from: StorageAdapter,
  to: StorageAdapter,
  taskId: string,
): Promise<string | undefined> {
  const copies = summariesIn(to, taskId);
  try {
    let copy = await copies.next();
    let newestCopy: CheckpointSummary | undefined;
    let isShared = false;
    let isBetween = false;
    for await (const summary of summariesIn(from, taskId)) {
      for (; !copy.done && copy.value.sequence < summary.sequence; copy = await copies.next()) newestCopy = copy.value;
      if (copy.done) return isShared || (!isBetween && continuesAfter(newestCopy, summary)) ? undefined : UNRELATED;
      isBetween = true;
      if (copy.value.sequence > summary.sequence) continue;
      if (copy.value.id !== summary.id || copy.value.createdAt !== summary.createdAt)
        return `its checkpoint @${summary.sequence} is another one`;
      isShared = true;
      newestCopy = copy.value;
      copy = await copies.next();
    }
    return isShared || !isBetween ? undefined : UNRELATED;
  } finally {
    await copies.return();
  }
}

const UNRELATED = "no checkpoint is in both";

/**
 * Whether a checkpoint may follow those up to `newest`, though the ones between them are gone: retention removes old
 * checkpoints, and a run's next save those that it replaces. Ids tell nothing then, so the times decide.
 */
export function continuesAfter(
  newest: Pick<CheckpointSummary, "createdAt"> | undefined,
  { createdAt }: Pick<CheckpointSummary, "createdAt">,
): boolean {
  return newest === undefined || newest.createdAt <= createdAt;
}

/** Yields a task's readable summaries, oldest first. Damage is reported where the records are read. */
async function* summariesIn(storage: StorageAdapter, taskId: string): AsyncGenerator<CheckpointSummary, void, void> {
  for await (const summary of storage.list({ taskId, order: "oldest" })) if (!isCorrupt(summary)) yield summary;
}
