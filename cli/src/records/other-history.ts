import type { CheckpointSummary, StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";

/**
 * Returns why the target's checkpoints and records of a task aren't an earlier copy of the source's, or `undefined` if
 * they may be one. Reads no payloads.
 *
 * In an earlier copy, each sequence that both storages have belongs to the same checkpoint or record. Retention may have removed
 * checkpoints on either side, and either side may have newer ones. If no checkpoint is in both, the source continues the
 * target's history if {@link continuesAfter} holds.
 */
export async function findOtherHistory(
  from: StorageAdapter,
  to: StorageAdapter,
  taskId: string,
): Promise<string | undefined> {
  const copies = headersIn(to, taskId);
  try {
    let copy = await copies.next();
    let newestCopy: Header | undefined;
    let isShared = false;
    let isBetween = false;
    for await (const summary of headersIn(from, taskId)) {
      for (; !copy.done && copy.value.sequence < summary.sequence; copy = await copies.next()) newestCopy = copy.value;
      if (copy.done) return isShared || (!isBetween && continuesAfter(newestCopy, summary)) ? undefined : UNRELATED;
      isBetween = true;
      if (copy.value.sequence > summary.sequence) continue;
      if (!IDENTITY.every((field) => copy.value?.[field] === summary[field]))
        return `its ${summary.kind === undefined ? "checkpoint" : "record"} @${summary.sequence} is another one`;
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
 * Whether a checkpoint may continue the history up to `newest`, although the checkpoints in between are gone: retention
 * removes old ones, and a run's next save removes those that it replaces. Ids can't show this, so the times decide.
 */
export function continuesAfter(
  newest: Pick<CheckpointSummary, "createdAt"> | undefined,
  { createdAt }: Pick<CheckpointSummary, "createdAt">,
): boolean {
  return newest === undefined || newest.createdAt <= createdAt;
}

/** The fields that identify a checkpoint or a record of a log. `rekey` doesn't change them. */
type Header = Pick<CheckpointSummary, "sequence" | "createdAt"> &
  Partial<Record<"id" | "kind" | "name" | "recordKey", string>>;

const IDENTITY = ["kind", "id", "name", "recordKey", "createdAt"] as const;

/** Yields a task's readable headers, oldest first. Damage is reported where the records are read. */
async function* headersIn(storage: StorageAdapter, taskId: string): AsyncGenerator<Header, void, void> {
  const query = { taskId, order: "oldest" } as const;
  for await (const header of storage.log?.read({ ...query, headersOnly: true }) ?? storage.list(query)) {
    if (!isCorrupt(header)) yield header;
  }
}
