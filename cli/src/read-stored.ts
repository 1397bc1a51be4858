import type { Checkpoint, CheckpointSummary, CorruptRecord } from "waymark";
import { type CheckpointQuery, isCorrupt } from "waymark/adapter";
import { DamagedCheckpointError } from "./damage.js";
import { makeManager, type QuerySession } from "./store.js";

/** Yields the readable summaries that the query finds. Damaged ones are reported. */
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
 * Reads a checkpoint's state in its stored form: transforms are undone, but no schema and no migration is applied.
 *
 * @throws {DamagedCheckpointError} The checkpoint can't be read.
 * @throws {CheckpointError} The checkpoint is intact, but the configuration can't open it.
 */
export async function readStored(...args: Parameters<typeof readCheckpoint>): Promise<unknown> {
  return (await readCheckpoint(...args)).state;
}

/** Like {@link readStored}, with the record of the checkpoint's run. */
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
  // With the stored version, no migration is needed.
  const manager = makeManager(storage, await config(), damage, { stateVersion });
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
