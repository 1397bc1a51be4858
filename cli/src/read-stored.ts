import type { Checkpoint, CheckpointSummary, CorruptRecord } from "waymark";
import { type CheckpointQuery, isCorrupt } from "waymark/adapter";
import { DamagedCheckpointError } from "./damage.js";
import { managerOf, type QuerySession } from "./store.js";

/** The summaries that the query finds, without the damaged ones, which it reports. */
export async function* readableSummaries(
  { storage, damage }: Pick<QuerySession, "storage" | "damage">,
  query: CheckpointQuery,
): AsyncGenerator<CheckpointSummary, void, void> {
  for await (const checkpoint of storage.list(query)) {
    if (isCorrupt(checkpoint)) await damage.add(checkpoint);
    else yield checkpoint;
  }
}

/**
 * A checkpoint's state in its stored form: transforms are undone, but no schema and no migration is applied.
 *
 * @throws {DamagedCheckpointError} It can't be read.
 * @throws {CheckpointError} It is intact, and the configuration doesn't open it.
 */
export async function readStored(...args: Parameters<typeof readCheckpoint>): Promise<unknown> {
  return (await readCheckpoint(...args)).state;
}

/** The same, with the record of its run. */
export async function readCheckpoint(
  { storage, config, damage }: Pick<QuerySession, "storage" | "config" | "damage">,
  {
    taskId,
    id,
    sequence,
    stateVersion,
  }: Pick<CheckpointSummary, "taskId" | "id" | "stateVersion"> & {
    readonly sequence?: number;
  },
): Promise<Checkpoint> {
  // With the stored version, so no migration is needed.
  const manager = managerOf(storage, await config(), damage, { stateVersion });
  let damaged: CorruptRecord | undefined;
  manager.on("corrupt", (record) => {
    damaged = record;
  });
  try {
    return await manager.restore(taskId, id);
  } catch (error) {
    if (damaged === undefined) throw error;
    const which = sequence === undefined ? id : `@${sequence}`;
    throw new DamagedCheckpointError(`Checkpoint ${which} of task ${JSON.stringify(taskId)}`, damaged);
  }
}
