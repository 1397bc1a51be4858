import type { StorageAdapter } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { isRecord, type LogRecord, type RecordHeader, type RecordQuery } from "../contract/log.js";
import { findTurnStart, isReceived, NOTHING_RECEIVED, type RunNote, readRunNote } from "../contract/run-note.js";
import { parseRunKey } from "../contract/run-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import { isOfRun } from "../contract/transient.js";
import { findNewest } from "../manager/queries.js";
import { makeKey } from "./steps.js";

/** An event without its value, with its status. */
export interface EventHeader extends Pick<TaskEvent, "id" | "name" | "sentAt" | "status" | "wait"> {
  readonly sequence: number;
  /** The sequence of the record with the reason for the refusal. */
  readonly refusal?: number;
}

/** Reads the records of a query, which selects no checkpoints. */
type ReadRecords = (
  query: RecordQuery & Required<Pick<RecordQuery, "kinds">>,
) => AsyncIterable<LogRecord | RecordHeader>;

/**
 * Lists the events of a task, the oldest first. Reads headers only, so it needs no encryption key. Skips damaged
 * records.
 */
export async function listEventHeaders(
  storage: Pick<StorageAdapter, "list" | "log">,
  taskId: string,
): Promise<readonly EventHeader[]> {
  const { log } = storage;
  if (log === undefined) return [];
  return readEventHeaders(taskId, await findNewest(storage, taskId, isOfRun), async function* (query) {
    for await (const item of log.read(query)) if (!isCorrupt(item) && isRecord(item)) yield item;
  });
}

/** Lists the keys of a task's open waits for events of this name. Reads headers only, like {@link listEventHeaders}. */
export async function listOpenWaits(
  storage: Pick<StorageAdapter, "list" | "log">,
  taskId: string,
  name: string,
): Promise<ReadonlySet<string>> {
  const { log } = storage;
  const newest = log && (await findNewest(storage, taskId, isOfRun));
  return readOpenWaits(taskId, name, newest, async function* (query) {
    for await (const item of log?.read(query) ?? []) if (!isCorrupt(item) && isRecord(item)) yield item;
  });
}

/**
 * Reads the keys of the waits of this name that the current turn has begun but not ended.
 *
 * @param newest - The newest checkpoint that a run of the task saved.
 */
export async function readOpenWaits(
  taskId: string,
  name: string,
  newest: CheckpointSummary | undefined,
  read: ReadRecords,
): Promise<ReadonlySet<string>> {
  const note = newest && readRunNote(newest);
  const open = new Set<string>();
  if (newest === undefined || note === undefined) return open;
  const query = { taskId, name, order: "oldest", kinds: ["step", "mark"], headersOnly: true } as const;
  for await (const { kind, ...header } of read({ ...query, afterSequence: findStart(note, newest) })) {
    const { generation, turn, occurrence } = parseRunKey(header) ?? {};
    if (occurrence === undefined || generation !== note.generation || turn !== note.turn) continue;
    const key = makeKey(taskId, note, { name, occurrence });
    if (kind === "mark") open.add(key);
    else open.delete(key);
  }
  return open;
}

/**
 * Reads the headers of a task's events, the oldest first.
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
  const turnStart = newest && note ? findStart(note, newest) : 0;
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
  const openWaits = new Map<string, ReadonlySet<string>>();
  const events: EventHeader[] = [];
  for await (const header of read({ ...query, kinds: ["event"] })) {
    const { id = "", name = "", sequence, createdAt: sentAt, recordKey: key } = header;
    const refusal = refusals.get(sequence);
    const isTaken = receipts.has(sequence) || isReceived(received, sequence);
    const status = refusal !== undefined ? "refused" : isTaken ? "received" : "pending";
    const isForOne = status === "pending" && key !== undefined;
    if (isForOne && !openWaits.has(name)) {
      openWaits.set(name, await readOpenWaits(taskId, name, newest, read));
    }
    const wait = isForOne && { key, isOpen: openWaits.get(name)?.has(key) === true };
    events.push({ id, name, sequence, sentAt, status, ...(refusal && { refusal }), ...(wait && { wait }) });
  }
  return events;
}

/**
 * Returns the sequence after which the records of the current turn begin. If the run is over, no records of it follow.
 */
function findStart(note: RunNote, { sequence }: CheckpointSummary): number {
  return note.isOver ? sequence : findTurnStart(note, sequence);
}
