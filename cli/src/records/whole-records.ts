import { CheckpointError, type StorageAdapter } from "waymark";
import { type CheckpointQuery, findDamage, isCorrupt, type StoredCheckpoint } from "waymark/adapter";
import { compareTaskIds, eventsTaskId, isEventsTask } from "waymark/kit";
import type { DamageSink } from "../damage.js";

/** Yields the intact records that the query finds. Damaged ones are reported to `damage`. */
export async function* wholeRecords(
  storage: StorageAdapter,
  query: CheckpointQuery,
  damage: DamageSink,
): AsyncGenerator<StoredCheckpoint, void, void> {
  for await (const record of storage.read(query)) {
    if (isCorrupt(record)) {
      await damage.add(record);
      continue;
    }
    const reason = findDamage(record);
    if (reason === undefined) yield record;
    else await damage.add({ ...record, location: formatLocation(record), reason });
  }
}

/**
 * Yields the ids of a storage's tasks. A task comes right after the companion that has its events: a copy that is
 * stopped in between has more events than its task knows, never fewer. Unreadable records are reported to `damage`.
 */
export async function* taskIds(
  storage: StorageAdapter,
  prefix: string | undefined,
  damage: DamageSink,
): AsyncGenerator<string, void, void> {
  // Tasks whose companion may still come: by id, it comes soon after them.
  let waiting: string[] = [];
  for await (const task of storage.tasks({ order: "taskId", prefix })) {
    if (isCorrupt(task)) {
      await damage.add(task);
      continue;
    }
    const { taskId } = task;
    const isOver = (owner: string) => compareTaskIds(eventsTaskId(owner), taskId) <= 0;
    if (isEventsTask(taskId)) yield taskId;
    yield* waiting.filter(isOver);
    waiting = waiting.filter((owner) => !isOver(owner));
    if (!isEventsTask(taskId)) waiting.push(taskId);
  }
  yield* waiting;
}

/** Counts the checkpoints for a progress bar. If the storage fails, returns the number counted so far. */
export async function countRecords(storage: StorageAdapter, prefix?: string): Promise<number> {
  let count = 0;
  try {
    for await (const task of storage.tasks({ order: "taskId", prefix })) if (!isCorrupt(task)) count += task.count;
  } catch (error) {
    // The command itself reports the error.
    if (!(error instanceof CheckpointError)) throw error;
  }
  return count;
}

function formatLocation({ taskId, id, sequence }: StoredCheckpoint): string {
  return `checkpoint ${id} (sequence ${sequence}) of task ${JSON.stringify(taskId)}`;
}
