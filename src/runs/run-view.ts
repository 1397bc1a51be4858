import type { StorageAdapter } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { findTurnStart, isReceived, NOTHING_RECEIVED, type RunNote, readRunNote } from "../contract/run-note.js";
import { parseRunKey, type RunRecord, type StepRecord } from "../contract/run-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import type { RecordsQuery } from "../manager/queries.js";
import type { TaskRecord } from "../manager/records.js";
import { isStepValue, readDropped } from "./recorded-turn.js";

/** The part of a manager that reads logs. */
export interface LogReader {
  records(taskId: string, query: RecordsQuery): AsyncIterable<TaskRecord>;
}

/** A record of a log that isn't a checkpoint. */
type LogEntry = Exclude<TaskRecord, { readonly kind: "checkpoint" }>;

/** An event without its value, and what became of it. */
export interface EventHeader {
  readonly id: string;
  readonly name: string;
  readonly sentAt: string;
  readonly status: TaskEvent["status"];
}

/** The events of a task, the oldest first. Needs no key, since it reads headers only. */
export async function listEventHeaders(
  storage: Pick<StorageAdapter, "list" | "log">,
  taskId: string,
): Promise<readonly EventHeader[]> {
  if (storage.log === undefined) return [];
  const settled = new Map<number, TaskEvent["status"]>();
  const { received, after } = await readNewestNote(storage, taskId);
  const query = { taskId, order: "oldest", headersOnly: true } as const;
  for await (const item of storage.log.read({ ...query, kinds: ["step", "run"] })) {
    if (isCorrupt(item) || !("kind" in item)) continue;
    const event = parseRunKey(item)?.event;
    if (event === undefined) continue;
    if (item.kind === "run") settled.set(event, "refused");
    else if (item.sequence > after) settled.set(event, "received");
  }
  const events: EventHeader[] = [];
  for await (const item of storage.log.read({ ...query, kinds: ["event"] })) {
    if (isCorrupt(item) || !("kind" in item)) continue;
    const { id = "", name = "", sequence, createdAt: sentAt } = item;
    const status = settled.get(sequence) ?? (isReceived(received, sequence, name) ? "received" : "pending");
    events.push({ id, name, sentAt, status });
  }
  return events;
}

/** What the run had received at its newest checkpoint, and the sequence after which its receipts count. */
async function readNewestNote(storage: Pick<StorageAdapter, "list">, taskId: string) {
  for await (const checkpoint of storage.list({ taskId, order: "newest" })) {
    const note = isCorrupt(checkpoint) ? undefined : readRunNote(checkpoint);
    if (isCorrupt(checkpoint) || note === undefined) continue;
    const { received = NOTHING_RECEIVED } = note;
    return { received, after: note.isOver ? checkpoint.sequence : findTurnStart(note, checkpoint.sequence) };
  }
  return { received: NOTHING_RECEIVED, after: 0 };
}

/**
 * What is recorded of a run up to one of its checkpoints. Of a turn's first checkpoint, the steps of the turn before;
 * of the task's newest checkpoint, also what was recorded after it.
 *
 * @returns `undefined` if no run saved the checkpoint.
 */
export async function readRun(reader: LogReader, checkpoint: CheckpointSummary): Promise<RunRecord | undefined> {
  const note = readRunNote(checkpoint);
  if (note === undefined) return undefined;
  const { taskId, sequence } = checkpoint;
  const hasNewer = await isAnyLeft(
    reader.records(taskId, { kinds: ["checkpoint"], afterSequence: sequence, limit: 1 }),
  );
  const isMilestone = hasNewer && note.turnStart === undefined && note.turn > 1 && note.carried === undefined;
  const { generation, version, traceparent } = note;
  const turn = isMilestone ? note.turn - 1 : note.turn;
  const entries = await readTurn(reader, checkpoint, { generation, turn }, hasNewer ? sequence : undefined);
  const steps = collectSteps(entries, checkpoint);
  const attempts = entries.map((entry) => parseRunKey(entry)?.attempt ?? 0);
  const ends = entries.flatMap(({ kind, value }) => (kind === "run" && isFields(value) ? [value] : []));
  const completed = ends.find(({ type }) => type === "completed");
  const failed = checkpoint.status === "failed" ? ends.findLast(({ type }) => type === "failed") : undefined;
  const failedStep = findFailedStep(entries, failed);
  return {
    generation,
    attempt: Math.max(note.attempt, ...attempts),
    turn,
    isTurnOver: isMilestone || note.isOver === true,
    ...(version !== undefined && { version }),
    ...(traceparent !== undefined && { traceparent }),
    ...(await readInput(reader, checkpoint, note)),
    ...(completed && "result" in completed && { result: completed["result"] }),
    steps,
    ...(failedStep && { failedStep }),
  };
}

/** The last records of a turn, the oldest first: those before a sequence, or all. */
async function readTurn(
  reader: LogReader,
  { taskId }: CheckpointSummary,
  { generation, turn }: Pick<RunNote, "generation" | "turn">,
  beforeSequence: number | undefined,
): Promise<readonly LogEntry[]> {
  const entries: LogEntry[] = [];
  const kinds = ["step", "run", "mark"] as const;
  for await (const entry of reader.records(taskId, { order: "newest", beforeSequence, kinds })) {
    const key = entry.kind === "checkpoint" ? undefined : parseRunKey(entry);
    if (entry.kind === "checkpoint" || key === undefined) continue;
    if (key.generation !== generation || key.turn !== turn) break;
    entries.push(entry);
  }
  return entries.reverse();
}

/**
 * The steps in the order in which they ended, then those that haven't. Once the run has ended, none is running; while it
 * is paused, none but its waits.
 */
function collectSteps(
  entries: readonly LogEntry[],
  { status, sequence: saved }: Pick<CheckpointSummary, "status" | "sequence">,
): readonly StepRecord[] {
  const hasEnded = status === "completed" || status === "failed";
  const ended = new Map<string, { readonly sequence: number; readonly step: StepRecord }>();
  const started = new Map<string, StepRecord>();
  for (const entry of entries) {
    const { kind, name, sequence, createdAt, value } = entry;
    const { occurrence, attempt: runAttempt = 1, event } = parseRunKey(entry) ?? {};
    if (kind === "run") drop(ended, readDropped(value));
    if (name === undefined || occurrence === undefined) continue;
    const named = { name, occurrence, runAttempt };
    const key = `${occurrence} ${name}`;
    if (kind === "mark") {
      started.delete(key);
      const { waitsFor, until } = isFields(value) ? value : {};
      const isWait = waitsFor === "sleep" || waitsFor === "event";
      if (hasEnded || (status === "paused" && !isWait && sequence < saved)) continue;
      const wait = isWait ? { waitsFor, ...(typeof until === "string" && { until }) } : {};
      started.set(key, { ...named, ...wait, status: "started", startedAt: createdAt });
    } else if (kind === "run" && event === undefined) {
      ended.set(`save ${key}`, { sequence, step: { ...named, status: "saved", startedAt: createdAt } });
    } else if (kind === "step" && isStepValue(value)) {
      const { input: _input, ...step } = value;
      started.delete(key);
      ended.delete(key);
      ended.set(key, { sequence, step: { ...named, ...step } });
    }
  }
  return [...Array.from(ended.values(), ({ step }) => step), ...started.values()];
}

/** Removes the steps whose results a record has dropped. */
function drop(ended: Map<string, { readonly sequence: number }>, dropped: ReturnType<typeof readDropped>): void {
  for (const [key, { sequence }] of ended) {
    if (dropped.some(([first, last]) => sequence >= first && sequence <= last)) ended.delete(key);
  }
}

/** The step whose error ended the run: the first one that the run's end has dropped. */
function findFailedStep(entries: readonly LogEntry[], end: unknown): RunRecord["failedStep"] {
  const [[dropped] = []] = readDropped(end);
  const entry = entries.find(({ sequence }) => sequence === dropped);
  const { occurrence, attempt: runAttempt } = (entry && parseRunKey(entry)) ?? {};
  if (entry?.name === undefined || occurrence === undefined || !isStepValue(entry.value)) return undefined;
  const { startedAt, durationMs = 0, attempts = 1 } = entry.value;
  return { name: entry.name, occurrence, startedAt, runAttempt: runAttempt ?? 1, durationMs, attempts };
}

async function readInput(
  reader: LogReader,
  { taskId, sequence }: CheckpointSummary,
  { hasInput, began = sequence }: RunNote,
): Promise<Pick<RunRecord, "input">> {
  if (!hasInput) return {};
  for await (const entry of reader.records(taskId, {
    afterSequence: began - 2,
    beforeSequence: began,
    kinds: ["run"],
  })) {
    if ("value" in entry && isFields(entry.value)) return { input: entry.value["input"] };
  }
  return {};
}

async function isAnyLeft(items: AsyncIterable<unknown>): Promise<boolean> {
  for await (const _item of items) return true;
  return false;
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
