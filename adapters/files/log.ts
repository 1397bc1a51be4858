import { type CheckpointSummary, type StoredCheckpoint, toSummary } from "../../src/contract/checkpoint.js";
import {
  type AppendCondition,
  nextSequence,
  requireNewest,
  requireNoEvent,
  type TaskPosition,
} from "../../src/contract/conditions.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import {
  findRecordDamage,
  type LogItem,
  type LogOptions,
  matchEventRetry,
  matchesRecords,
  type PayloadChange,
  type RecordDraft,
  type RecordQuery,
  type RecordSelection,
  sealRecord,
  sealRecordDraft,
} from "../../src/contract/log.js";
import { syncFolder, UnreadableError } from "./file-io.js";
import { type HeldLog, type LineDraft, renderBatch, syncLog } from "./held-log.js";
import { requireLease } from "./leases.js";
import { type FolderLock, LockLostError } from "./lock.js";
import { digestForDue, type LogIndex, readIndex, requireOwner } from "./log-file.js";
import {
  EMPTIED,
  joinHeader,
  joinLogRecord,
  type LineFields,
  type LogLine,
  pickRecordFields,
  renderFirstLine,
} from "./log-line.js";
import { findMoment, LogReplacedError, readPages } from "./log-pages.js";
import type { LogEntry } from "./log-scan.js";
import { attempt, type LoadedTask, readEntry } from "./record.js";

/** A task whose folder's lock is held. */
export interface HeldTask {
  readonly taskId: string;
  readonly folder: string;
  readonly task: LoadedTask;
  readonly lock: FolderLock;
  readonly log: HeldLog;
}

/** Returns the numbering that a task's checkpoints and records share. */
export function findPosition({ task, log: { index } }: Pick<HeldTask, "task" | "log">): Required<TaskPosition> {
  return {
    newestSequence: task.newestSequence,
    lastSequence: Math.max(task.lastSequence, index?.lastSequence ?? 0),
    lastEvent: index?.lastEvent ?? 0,
  };
}

/** Appends records under the lock, and returns the last one's sequence. */
export async function appendRecords(
  held: HeldTask,
  records: readonly RecordDraft[],
  condition: AppendCondition,
  { lazy, firstSequence, dueAt }: LogOptions,
): Promise<number> {
  const { taskId, folder, task, log } = held;
  const stored = matchEvents(held, records);
  if (stored !== undefined) {
    // The process that stored the events may have died before it synced them.
    await log.sync();
    return stored;
  }
  requireLease(folder, taskId, condition);
  const position = findPosition(held);
  const first = nextSequence(taskId, position, condition, { sequence: firstSequence });
  const due = dueAt === undefined ? undefined : { at: dueAt, for: digestForDue(readNewest(task)) };
  await log.append(taskId, renderDrafts(taskId, records, first), position.lastSequence, { isLazy: lazy, due });
  return first + records.length - 1;
}

/** If the records are events that are already stored, returns their last sequence: see `matchEventRetry`. */
export function matchEvents(
  { taskId, log }: HeldTask,
  records: readonly RecordDraft[],
  isWithCheckpoint = false,
): number | undefined {
  return matchEventRetry(taskId, records, (id) => log.index?.events.get(id), isWithCheckpoint);
}

/**
 * Stores a checkpoint, or its new status, together with records: all or nothing.
 *
 * @param store - Stores the checkpoint.
 * @param first - The sequence of the first record. Default: the next one.
 * @throws {LockLostError} Nothing was stored.
 */
export async function storeWithRecords(
  held: HeldTask,
  { id, seal }: StoredCheckpoint,
  records: readonly RecordDraft[],
  store: () => Promise<void>,
  first?: number,
): Promise<void> {
  const { taskId, log } = held;
  if (records.length === 0) {
    await log.syncLazy();
    return store();
  }
  const { lastSequence } = findPosition(held);
  const lines = renderDrafts(taskId, records, first ?? lastSequence + 1);
  await log.append(taskId, lines, lastSequence, { with: { id, seal } });
  await store();
  try {
    await log.commit({ id, seal });
  } catch {
    // The checkpoint and the records are stored. The next holder of the lock finds the checkpoint, and appends the
    // commit line.
  }
}

/** Returns the lines of records that are numbered from `first` on. */
function renderDrafts(taskId: string, records: readonly RecordDraft[], first: number): LineDraft[] {
  return records.map((draft, index) => pickRecordFields(sealRecordDraft(taskId, draft, first + index)));
}

/**
 * Yields a snapshot of a task's records and the summaries of its checkpoints, page by page.
 *
 * @param load - Loads the task's checkpoints; `undefined` if there is no folder.
 */
export async function* readLog(
  folder: string,
  path: string,
  query: RecordQuery,
  load: () => LoadedTask | undefined,
): AsyncGenerator<readonly LogItem[], void, void> {
  let { limit: left = Number.POSITIVE_INFINITY, ...rest } = query;
  const bound = query.order === "oldest" ? "afterSequence" : "beforeSequence";
  while (left > 0) {
    try {
      for await (const { items, lastSequence } of readItems(folder, path, rest, load)) {
        const page = firstItems(items, left);
        left -= page.filter((item) => !isCorrupt(item)).length;
        rest = { ...rest, [bound]: lastSequence };
        yield page;
        if (left === 0) return;
      }
      return;
    } catch (error) {
      if (!(error instanceof LogReplacedError)) throw error;
    }
  }
}

/** Returns the first items up to a limit. Corrupt items don't count toward the limit. */
function firstItems(items: readonly LogItem[], limit: number): readonly LogItem[] {
  if (items.length <= limit) return items;
  let left = limit;
  const end = items.findIndex((item) => {
    if (!isCorrupt(item)) left -= 1;
    return left === 0;
  });
  return end === -1 ? items : items.slice(0, end + 1);
}

interface ItemPage {
  readonly items: readonly LogItem[];
  /** The sequence of the page's last line, in the query's order. */
  readonly lastSequence: number;
}

/** Yields whole pages, because each value that an async generator yields costs some promises. */
async function* readItems(
  folder: string,
  path: string,
  query: Omit<RecordQuery, "limit">,
  load: () => LoadedTask | undefined,
): AsyncGenerator<ItemPage, void, void> {
  const { taskId, order, kinds, afterSequence = 0, durableOnly = false } = query;
  const newestBefore = load()?.newestSequence ?? 0;
  const index = await readIndex(path);
  requireOwner(index, folder);
  const task = load();
  const moment = index && findMoment(index, task, newestBefore);
  const end = (moment?.lastSequence ?? newestBefore) + 1;
  if (durableOnly && task) {
    await syncLog(path);
    await syncFolder(folder);
  }
  const beforeSequence = Math.min(query.beforeSequence ?? end, end);
  const hasCheckpoints = kinds?.includes("checkpoint") !== false && query.name === undefined;
  const sources = hasCheckpoints ? (task?.select({ order, afterSequence, beforeSequence }) ?? []) : [];
  const checkpoints = readSummaries(sources, taskId)[Symbol.iterator]();
  let checkpoint = checkpoints.next();
  const isNext = (a: number, b: number): boolean => (order === "oldest" ? a < b : a > b);
  for await (const page of moment ? readPages(moment, order, afterSequence, beforeSequence) : []) {
    const items: LogItem[] = [];
    let lastSequence = 0;
    for (const entry of page) {
      for (; !checkpoint.done && isNext(checkpoint.value.sequence, entry.sequence); checkpoint = checkpoints.next()) {
        items.push(checkpoint.value.item);
      }
      const item = toItem(entry, query, path);
      if (item) items.push(item);
      lastSequence = entry.sequence;
    }
    yield { items, lastSequence };
  }
  for (; !checkpoint.done; checkpoint = checkpoints.next()) {
    yield { items: [checkpoint.value.item], lastSequence: checkpoint.value.sequence };
  }
}

function* readSummaries(
  sources: Iterable<Parameters<typeof readEntry>[0] & { head(): CheckpointSummary | undefined }>,
  taskId: string,
): Generator<{ readonly item: LogItem; readonly sequence: number }, void, void> {
  let sequence = 0;
  for (const entry of sources) {
    const item = readEntry(entry, taskId, () => {
      const head = entry.head();
      return head && toSummary(head);
    });
    // A checkpoint whose sequence can't be read is yielded directly after the previous one.
    sequence = entry.known.sequence ?? item?.sequence ?? sequence;
    if (item) yield { item, sequence };
  }
}

function toItem(entry: LogEntry, query: Omit<RecordQuery, "limit">, path: string): LogItem | undefined {
  const { taskId, headersOnly = false } = query;
  if (entry.line === undefined) return toCorrupt(entry, taskId, path);
  const { line } = entry;
  if (line.record === undefined || !matchesRecords(line.record, query)) return undefined;
  return headersOnly ? joinHeader(line, taskId) : joinLogRecord(line, taskId);
}

export function toCorrupt(
  { sequence, damage = "" }: LogEntry,
  taskId: string | undefined,
  path: string,
): CorruptRecord {
  return {
    corrupt: true,
    location: describeRecord(path, sequence),
    reason: damage,
    ...(taskId !== undefined && { taskId }),
    sequence,
  };
}

/** Describes the place of a record, for messages. */
export function describeRecord(path: string, sequence: number): string {
  return sequence === 0 ? `${path} (line 1)` : `${path} (record ${sequence})`;
}

/** Removes records under the lock. Returns the number of removed records. */
export async function removeRecords(
  held: HeldTask,
  selection: RecordSelection,
  condition: AppendCondition,
): Promise<number> {
  const { taskId, log } = held;
  const position = findPosition(held);
  requireNewest(taskId, position.newestSequence, condition);
  requireNoEvent(taskId, position.lastEvent, condition);
  const { index } = log;
  if (index === undefined) return 0;
  const isSelected = ({ line }: LogEntry): boolean =>
    line?.record !== undefined && line.record.bodyIs !== EMPTIED && matchesRecords(line.record, selection);
  let [removed, removedUpTo] = [0, index.removedUpTo];
  for await (const entry of readEntries(index)) {
    if (!isSelected(entry)) continue;
    removed += 1;
    const { kind } = entry.line ?? {};
    if (kind !== "event" && kind !== "mark") removedUpTo = Math.max(removedUpTo, entry.sequence);
  }
  const change = (entry: LogEntry): LineDraft | Buffer | undefined => {
    if (!isSelected(entry)) return keepLine(entry);
    return entry.line?.kind === "event"
      ? { fields: { ...pickOwnFields(entry.line), bodyIs: EMPTIED, sizeBytes: 0 } }
      : undefined;
  };
  if (removed > 0) await rewriteLog(held, change, removedUpTo);
  return removed;
}

/**
 * Replaces payloads of records under the lock, with one rewrite of the log. Returns the sequences of the changed
 * records.
 */
export async function replaceRecords(held: HeldTask, changes: readonly PayloadChange[]): Promise<readonly number[]> {
  const { taskId, log } = held;
  const wanted = new Map(changes.map((change) => [change.sequence, change]));
  const drafts = new Map<number, LineDraft>();
  const replaced: number[] = [];
  for await (const entry of log.index ? readEntries(log.index) : []) {
    const change = wanted.get(entry.sequence);
    const draft = change && renderReplaced(taskId, entry, change);
    if (draft === undefined) continue;
    drafts.set(entry.offset, draft);
    replaced.push(entry.sequence);
  }
  if (replaced.length > 0) await rewriteLog(held, (entry) => drafts.get(entry.offset) ?? keepLine(entry));
  return replaced;
}

/** Returns the record's new line; `undefined` if its payload has another digest, or was removed. */
function renderReplaced(
  taskId: string,
  { line, damage, sequence }: LogEntry,
  { payload, expectedSha256 }: PayloadChange,
): LineDraft | undefined {
  const record = line && joinHeader(line, taskId);
  const reason = record ? findRecordDamage(record) : damage;
  if (reason !== undefined) {
    throw new CheckpointCorruptError(
      `Record ${sequence} of task ${JSON.stringify(taskId)} is damaged: ${reason}. Nothing was changed.`,
    );
  }
  if (record === undefined || line?.value === undefined || record.payload.sha256 !== expectedSha256) return undefined;
  const { sizeBytes: _size, ...header } = record;
  const { fields, value } = pickRecordFields({ ...header, payload, seal: sealRecord({ ...header, payload }) });
  return { fields: { ...fields, due: line.fields["due"] }, value };
}

/**
 * Rewrites the log under a new id. Damaged lines are kept as they are, unless `change` drops them.
 *
 * @param change - Returns a line's new draft, its bytes to keep them unchanged, or `undefined` to drop the line.
 */
export async function rewriteLog(
  { taskId, task, log }: Pick<HeldTask, "taskId" | "task" | "log">,
  change: (entry: LogEntry) => LineDraft | Buffer | undefined,
  removedUpTo?: number,
): Promise<void> {
  const { index } = log;
  if (index === undefined) return;
  const first = renderFirstLine({
    taskId: index.taskId ?? taskId,
    lastSequence: Math.max(index.lastSequence, task.newestSequence),
    removedUpTo: removedUpTo ?? index.removedUpTo,
    due: index.due,
  });
  await log.replace(renderChanged(index, first, change));
}

async function* renderChanged(
  index: LogIndex,
  first: ReturnType<typeof renderFirstLine>,
  change: (entry: LogEntry) => LineDraft | Buffer | undefined,
): AsyncGenerator<Uint8Array, void, void> {
  yield first.bytes;
  let { at, check } = first;
  for await (const page of readHeldPages(index)) {
    const lines: Buffer[] = [];
    for (const entry of page) {
      const draft = change(entry);
      if (draft === undefined) continue;
      if (Buffer.isBuffer(draft)) {
        lines.push(draft, LINE_FEED);
        at += draft.length + LINE_FEED.length;
        // If the next line followed the line before the damage, nothing would show that a line is damaged.
        check = DAMAGED;
        continue;
      }
      for (const line of renderBatch({ log: first.log, at, check }, [draft], {})) {
        lines.push(line.bytes);
        at += line.bytes.length;
        check = line.check;
      }
    }
    yield Buffer.concat(lines);
  }
}

const LINE_FEED = Buffer.from("\n");
const DAMAGED = "damaged";

/** Returns the draft of a line that keeps its content in a new place. A damaged line keeps its bytes. */
export function keepLine({ line, bytes, offset }: LogEntry): LineDraft | Buffer | undefined {
  if (line) return { fields: pickOwnFields(line), value: line.value };
  // Line one is dropped, because the rewrite renders its own.
  return offset === 0 ? undefined : bytes;
}

/** Returns a line's fields, except those that depend on its place in the file. */
function pickOwnFields({ fields }: LogLine): LineFields {
  const { at: _at, log: _log, follows: _follows, of: _of, lazy: _lazy, with: _with, ...own } = fields;
  return own;
}

/** Yields the lines of a log under the lock. If `sequence` is given, yields only the lines with this sequence. */
export async function* readEntries(index: LogIndex, sequence?: number): AsyncGenerator<LogEntry, void, void> {
  const range = sequence === undefined ? [] : [sequence - 1, sequence + 1];
  for await (const page of readHeldPages(index, ...range)) yield* page;
}

/** @throws {LockLostError} Another process has stolen the lock and replaced the log. */
async function* readHeldPages(index: LogIndex, after?: number, before?: number) {
  const all = { index, end: index.scan.offset, pending: undefined };
  try {
    yield* readPages(all, "oldest", after, before);
  } catch (error) {
    throw error instanceof LogReplacedError ? new LockLostError(index.path) : error;
  }
}

/** Returns the newest checkpoint that can be read. */
export function readNewest(task: LoadedTask): CheckpointSummary | undefined {
  for (const entry of task.select({ order: "newest" })) {
    const head = attempt(() => entry.head());
    if (head && !(head instanceof UnreadableError)) return toSummary(head);
  }
  return undefined;
}
