import {
  type CheckpointPendingWrite,
  compareWritesSortKeys,
  ERROR,
  INTERRUPT,
  type PendingWrite,
  type SerializerProtocol,
  WRITES_IDX_MAP,
  writesSortKey,
} from "@langchain/langgraph-checkpoint";
import type { CheckpointStatus } from "../../src/contract/checkpoint.js";
import { loadedValue, type StoredValue, storedValue } from "./stored-values.js";

/** What one `putWrites` stores: a checkpoint of the task of the LangGraph checkpoint's writes. */
export interface WritesRecord {
  readonly taskId: string;
  readonly taskPath: string;
  readonly writes: readonly StoredWrite[];
}

interface StoredWrite {
  readonly channel: string;
  /** Negative for LangGraph's own channels, which have one write per task: the last. */
  readonly index: number;
  readonly value: StoredValue;
}

export async function writesRecord(
  serde: SerializerProtocol,
  writes: readonly PendingWrite[],
  taskId: string,
  taskPath: string,
): Promise<WritesRecord> {
  const stored = writes.map(async ([channel, value], position) => ({
    channel,
    index: WRITES_IDX_MAP[channel] ?? position,
    value: await storedValue(serde, value),
  }));
  return { taskId, taskPath, writes: await Promise.all(stored) };
}

/** What the writes say of their thread. */
export function statusOfWrites(writes: readonly PendingWrite[]): CheckpointStatus {
  if (writes.some(([channel]) => channel === ERROR)) return "failed";
  return writes.some(([channel]) => channel === INTERRUPT) ? "paused" : "running";
}

/**
 * The pending writes of one checkpoint, in the order in which the graph applies them.
 *
 * @param records - In the order in which they were stored. A task's first write of an index counts; of LangGraph's own
 *   channels, the last.
 */
export async function pendingWrites(
  serde: SerializerProtocol,
  records: readonly WritesRecord[],
): Promise<CheckpointPendingWrite[]> {
  const byKey = new Map<string, { readonly record: WritesRecord; readonly write: StoredWrite }>();
  for (const record of records) {
    for (const write of record.writes) {
      const key = JSON.stringify([record.taskId, write.index]);
      if (write.index < 0 || !byKey.has(key)) byKey.set(key, { record, write });
    }
  }
  const sorted = [...byKey.values()]
    .map(({ record, write }) => ({ key: writesSortKey(record.taskPath, record.taskId, write.index), record, write }))
    .sort((a, b) => compareWritesSortKeys(a.key, b.key));
  return Promise.all(
    sorted.map(
      async ({ record, write }): Promise<CheckpointPendingWrite> => [
        record.taskId,
        write.channel,
        await loadedValue(serde, write.value),
      ],
    ),
  );
}
