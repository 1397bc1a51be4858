import {
  type CheckpointPendingWrite,
  compareWritesSortKeys,
  type PendingWrite,
  type SerializerProtocol,
  WRITES_IDX_MAP,
  writesSortKey,
} from "@langchain/langgraph-checkpoint";
import { marked } from "./marks.js";
import { countedWrites, type WritesRecord } from "./records.js";
import type { SerializedState, SerializedWrites } from "./serialized-state.js";
import { loadedValue, serializedFrom, serializedValue } from "./stored-values.js";

/** @param values - The values of the checkpoint that the writes are on top of, if they are in memory. */
export async function serializedWrites(
  serde: SerializerProtocol,
  writes: readonly PendingWrite[],
  values: SerializedState["values"] | undefined,
): Promise<SerializedWrites["writes"]> {
  const channels = [...(values ?? [])].flatMap(([channel, value]) =>
    "text" in value ? [[channel, value.text] as const] : [],
  );
  const serialized = writes.map(async ([channel, written], position) => {
    const index = WRITES_IDX_MAP[channel] ?? position;
    const value = await serializedValue(serde, written, channel);
    // Writes to LangGraph's own channels (`index` < 0) get no marks, because `threads` reads questions without the
    // checkpoint.
    if (index < 0 || "bytes" in value) return { channel, index, value };
    const { text, marks } = marked(value.text, channels);
    return { channel, index, value: { ...value, text }, ...(marks && { marks }) };
  });
  return Promise.all(serialized);
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
