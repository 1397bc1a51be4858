import type { CheckpointPendingWrite, CheckpointTuple, DeltaChannelHistory } from "@langchain/langgraph-checkpoint";

/**
 * For each DeltaChannel, the writes since the nearest ancestor that stores the channel's value (the seed).
 *
 * @param ancestors - Nearest first. Reading stops once all channels have a seed.
 */
export async function deltaHistories(
  channels: readonly string[],
  ancestors: AsyncIterable<CheckpointTuple>,
): Promise<Record<string, DeltaChannelHistory>> {
  const found = new Map<string, { writes: CheckpointPendingWrite[]; seed?: unknown }>();
  for (const channel of channels) found.set(channel, { writes: [] });
  const open = new Map(found);
  for await (const { checkpoint, pendingWrites = [] } of ancestors) {
    for (const [channel, history] of open) {
      history.writes.unshift(...pendingWrites.filter(([, written]) => written === channel));
      if (!Object.hasOwn(checkpoint.channel_values, channel)) continue;
      history.seed = checkpoint.channel_values[channel];
      open.delete(channel);
    }
    if (open.size === 0) break;
  }
  return Object.fromEntries(found);
}
