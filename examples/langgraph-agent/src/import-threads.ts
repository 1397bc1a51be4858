import type { BaseCheckpointSaver, Checkpoint, CheckpointTuple } from "@langchain/langgraph";
import type { WaymarkSaver } from "waymark/langgraph";

/**
 * Copies the threads of another saver into a WaymarkSaver. Create it with `exclusive: false`, because branches are
 * stored one after the other. The source is only read. After a kill, run the import again: checkpoints that are already
 * stored stay.
 *
 * @returns The number of checkpoints in the source.
 */
export async function importThreads(from: BaseCheckpointSaver, to: WaymarkSaver): Promise<number> {
  const found: CheckpointTuple["config"][] = [];
  for await (const { config } of from.list({})) found.push(config);
  // Sorted by age: a value that a checkpoint shares with an older one is stored once.
  found.sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
  for (const config of found) {
    const tuple = await from.getTuple(config);
    if (tuple?.metadata === undefined) throw new Error(`Checkpoint ${idOf(config)} was removed meanwhile.`);
    const { checkpoint, metadata, parentConfig, pendingWrites = [] } = tuple;
    const stored = await to.getTuple(config);
    if (stored === undefined) {
      const parent = parentConfig && (await from.getTuple(parentConfig));
      const changed = changedVersions(checkpoint, parent?.checkpoint);
      const { thread_id, checkpoint_ns } = config.configurable ?? {};
      await to.put(parentConfig ?? { configurable: { thread_id, checkpoint_ns } }, checkpoint, metadata, changed);
    }
    if (stored?.pendingWrites?.length === pendingWrites.length) continue;
    for (const task of new Set(pendingWrites.map(([id]) => id))) {
      const writes = pendingWrites.filter(([id]) => id === task);
      await to.putWrites(
        config,
        writes.map(([, channel, value]) => [channel, value]),
        task,
      );
    }
  }
  return found.length;
}

/**
 * Returns the versions of channels that differ from the parent's. A SqliteSaver also stores values without a version.
 */
function changedVersions({ channel_values, channel_versions }: Checkpoint, parent: Checkpoint | undefined) {
  const changed: Checkpoint["channel_versions"] = {};
  for (const channel of Object.keys({ ...channel_versions, ...channel_values })) {
    const version = channel_versions[channel];
    if (version === undefined || version !== parent?.channel_versions[channel]) changed[channel] = version ?? 0;
  }
  return changed;
}

function idOf({ configurable }: CheckpointTuple["config"]): string {
  return String(configurable?.["checkpoint_id"]);
}
