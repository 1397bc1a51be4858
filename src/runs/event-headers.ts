import type { StorageAdapter } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { isRecord, type LogRecord, type RecordHeader, type RecordQuery } from "../contract/log.js";
import { findTurnStart, isReceived, NOTHING_RECEIVED, readRunNote } from "../contract/run-note.js";
import { parseRunKey } from "../contract/run-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import { isOfRun } from "../contract/transient.js";

/** An event without its value, and what became of it. */
export interface EventHeader extends Pick<TaskEvent, "id" | "name" | "sentAt" | "status"> {
  readonly sequence: number;
  /** The sequence of the record that says why it was refused. */
  readonly refusal?: number;
}

/** Reads the records of a query, which selects no checkpoints. */
type ReadRecords = (
  query: RecordQuery & Required<Pick<RecordQuery, "kinds">>,
) => AsyncIterable<LogRecord | RecordHeader>;

/** The events of a task, the oldest first. Reads headers only, so it needs no key. Skips what is damaged. */
export async function listEventHeaders(
  storage: Pick<StorageAdapter, "list" | "log">,
  taskId: string,
): Promise<readonly EventHeader[]> {
  const { log } = storage;
  if (log === undefined) return [];
  return readEventHeaders(taskId, await findNewestOfRun(storage, taskId), async function* (query) {
    for await (const item of log.read(query)) if (!isCorrupt(item) && isRecord(item)) yield item;
  });
}

/**
 * The events of a task, the oldest first.
 *
 * @param newest - The newest checkpoint that a run of the task saved.
 */
export async function readEventHeaders(
  taskId: string,
  newest: CheckpointSummary | undefined,
  read: ReadRecords,
): Promise<readonly EventHeader[]> {
  const note = newest && readRunNote(newest);
  const { received = NOTHING_RECEIVED } = note ?? {};
  const turnStart = newest && note ? (note.isOver ? newest.sequence : findTurnStart(note, newest.sequence)) : 0;
  const query = { taskId, order: "oldest", headersOnly: true } as const;
  const receipts = new Set<number>();
  const refusals = new Map<number, number>();
  for await (const header of read({ ...query, kinds: ["step", "run"] })) {
    const { kind, name, sequence } = header;
    const event = parseRunKey(header)?.event;
    if (event === undefined) continue;
    // A refusal has the name of its wait. A record without a name takes a receipt back.
    if (kind === "run" && name !== undefined) refusals.set(event, sequence);
    else if (kind === "run") receipts.delete(event);
    else if (sequence > turnStart) receipts.add(event);
  }
  const events: EventHeader[] = [];
  for await (const { id = "", name = "", sequence, createdAt: sentAt } of read({ ...query, kinds: ["event"] })) {
    const refusal = refusals.get(sequence);
    const isTaken = receipts.has(sequence) || isReceived(received, sequence, name);
    const status = refusal !== undefined ? "refused" : isTaken ? "received" : "pending";
    events.push({ id, name, sequence, sentAt, status, ...(refusal !== undefined && { refusal }) });
  }
  return events;
}

async function findNewestOfRun(
  storage: Pick<StorageAdapter, "list">,
  taskId: string,
): Promise<CheckpointSummary | undefined> {
  for await (const checkpoint of storage.list({ taskId, order: "newest" }))
    if (!isCorrupt(checkpoint) && isOfRun(checkpoint)) return checkpoint;
  return undefined;
}
