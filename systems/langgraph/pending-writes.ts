import {
  type CheckpointPendingWrite,
  compareWritesSortKeys,
  type PendingWrite,
  type SerializerProtocol,
  WRITES_IDX_MAP,
  writesSortKey,
} from "@langchain/langgraph-checkpoint";
import { countedWrites, type WritesRecord } from "./records.js";
import type { SerializedWrites } from "./serialized-state.js";
import { loadedValue, serializedFrom, serializedValue } from "./stored-values.js";

export async function serializedWrites(
  serde: SerializerProtocol,
  writes: readonly PendingWrite[],
  taskId: string,
  taskPath: string,
): Promise<SerializedWrites> {
  const serialized = writes.map(async ([channel, value], position) => ({
    channel,
    index: WRITES_IDX_MAP[channel] ?? position,
    value: await serializedValue(serde, value, channel),
  }));
  return { taskId, taskPath, writes: await Promise.all(serialized) };
}

/**
 * The pending writes of one checkpoint, in the order in which the graph applies them.
 *
 * @param records - In the order in which they were stored.
 */
export async function pendingWrites(
  serde: SerializerProtocol,
  records: readonly WritesRecord[],
): Promise<CheckpointPendingWrite[]> {
  const sorted = countedWrites(records)
    .map(({ record, write }) => ({ key: writesSortKey(record.taskPath, record.taskId, write.index), record, write }))
    .sort((a, b) => compareWritesSortKeys(a.key, b.key));
  return Promise.all(
    sorted.map(
      async ({ record, write }): Promise<CheckpointPendingWrite> => [
        record.taskId,
        write.channel,
        await loadedValue(serde, serializedFrom(write.value)),
      ],
    ),
  );
}
