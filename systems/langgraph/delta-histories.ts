import type { CheckpointPendingWrite, CheckpointTuple, DeltaChannelHistory } from "@langchain/langgraph-checkpoint";

/**
 * The writes that each DeltaChannel's value is made of, up to the nearest ancestor that has a value: the seed.
 *
 * @param ancestors - The nearest first. It reads no more than it needs.
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
