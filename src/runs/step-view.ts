import type { StorageAdapter } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { isRecord } from "../contract/log.js";
import { readRunNote } from "../contract/run-note.js";
import { ATTEMPTS_ERROR, parseRunKey, type RunKey, type RunRecord, type StepRecord } from "../contract/run-record.js";
import type { RecordsQuery } from "../manager/queries.js";
import type { TaskRecord } from "../manager/records.js";
import { isStepValue, readDropped } from "./recorded-turn.js";
import { makeKey } from "./steps.js";

/** The part of a manager that reads logs. */
export interface LogReader {
  records<Kind extends TaskRecord["kind"] = TaskRecord["kind"]>(
    taskId: string,
    query: RecordsQuery<Kind>,
  ): AsyncIterable<TaskRecord & { readonly kind: Kind }>;
}

/** A record of a log, other than a checkpoint. */
export type LogEntry = Exclude<TaskRecord, { readonly kind: "checkpoint" }>;

/** A step with the sequence of its record. */
export interface ViewedStep {
  readonly step: StepRecord;
  readonly sequence: number;
  /** When the step was tried again in this attempt of the run. */
  readonly retriedAt?: readonly string[];
}

/** A turn of a task's runs. */
interface ViewedTurn {
  readonly generation: string;
  readonly turn: number;
  /** The number of the last attempt that recorded something in the turn. */
  readonly attempt: number;
  /**
   * The steps that have ended, in the order in which they ended, then the others. Includes steps whose results were
   * dropped. Has no results, or what `summarize` returned for them.
   */
  readonly steps: readonly ViewedStep[];
  readonly seen: readonly SeenAttempt[];
}

/** A time at which an attempt recorded something. */
interface SeenAttempt {
  readonly attempt: number;
  readonly at: string;
  /** The checkpoint that the attempt saved at that time. */
  readonly checkpoint?: CheckpointSummary;
}

/**
 * Collects the turns of a task's runs from their checkpoints and from the records after a sequence. Reads each record
 * once.
 *
 * @param checkpoints - The task's checkpoints, the oldest first.
 * @param summarize - Returns what to keep of a step's result. Whole results of a long run may not fit in memory.
 */
export async function readTurns(
  reader: LogReader,
  taskId: string,
  checkpoints: readonly CheckpointSummary[],
  afterSequence: number,
  summarize?: (result: unknown) => unknown,
): Promise<readonly ViewedTurn[]> {
  const turns = new Map<string, OpenTurn>();
  const findTurn = ({ generation, turn }: Pick<RunKey, "generation" | "turn">) => {
    const id = JSON.stringify([generation, turn]);
    const found: OpenTurn = turns.get(id) ?? { generation, turn, entries: [], seen: [] };
    turns.set(id, found);
    return found;
  };
  for (const checkpoint of checkpoints) {
    const note = readRunNote(checkpoint);
    if (note) findTurn(note).seen.push({ attempt: note.attempt, at: checkpoint.createdAt, checkpoint });
  }
  for await (const entry of reader.records(taskId, { afterSequence, kinds: ["step", "run", "mark"] })) {
    const key = parseRunKey(entry);
    if (key === undefined) continue;
    const { result, ...value } = isFields(entry.value) ? entry.value : {};
    const summary = summarize?.(result);
    const { entries, seen } = findTurn(key);
    entries.push({ ...entry, value: summary === undefined ? value : { ...value, result: summary } });
    seen.push({ attempt: key.attempt, at: entry.createdAt });
  }
  const newest = checkpoints.at(-1);
  return Array.from(turns.values(), ({ generation, turn, entries, seen }) => {
    const isLast = seen.some(({ checkpoint }) => checkpoint !== undefined && checkpoint === newest);
    return {
      generation,
      turn,
      seen,
      attempt: Math.max(...seen.map(({ attempt }) => attempt)),
      steps: collectSteps(entries, isLast && newest ? newest : { status: "running", sequence: 0 }, true),
    };
  });
}

interface OpenTurn extends Pick<ViewedTurn, "generation" | "turn"> {
  readonly entries: LogEntry[];
  readonly seen: SeenAttempt[];
}

/** Finds the step whose error ended the run: the first step that the record of the run's end drops. */
export function findFailedStep(entries: readonly LogEntry[], end: unknown): RunRecord["failedStep"] {
  const [[dropped] = []] = readDropped(end);
  const entry = entries.find(({ sequence }) => sequence === dropped);
  const { occurrence, attempt: runAttempt } = (entry && parseRunKey(entry)) ?? {};
  if (entry?.name === undefined || occurrence === undefined || !isStepValue(entry.value)) return undefined;
  const { startedAt, durationMs = 0, attempts = 1 } = entry.value;
  return { name: entry.name, occurrence, startedAt, runAttempt: runAttempt ?? 1, durationMs, attempts };
}

const MAX_HEADERS = 100;
const MAX_STEPS = 20;

/**
 * Reads the last step that has ended since a run's checkpoint, then the steps that haven't ended, all without results.
 * Reads at most {@link MAX_HEADERS} headers and {@link MAX_STEPS} records.
 */
export async function readLastSteps(
  { log }: Pick<StorageAdapter, "log">,
  reader: LogReader,
  checkpoint: CheckpointSummary,
): Promise<readonly StepRecord[]> {
  const note = readRunNote(checkpoint);
  if (log === undefined || note === undefined) return [];
  const { taskId, sequence: afterSequence } = checkpoint;
  const query = { taskId, order: "newest", afterSequence, kinds: ["step", "mark"], headersOnly: true } as const;
  const known = new Set<string>();
  const wanted: number[] = [];
  let hasEnded = false;
  for await (const item of log.read({ ...query, limit: MAX_HEADERS })) {
    if (isCorrupt(item) || !isRecord(item)) continue;
    const { generation, turn, occurrence } = parseRunKey(item) ?? {};
    const id = `${occurrence} ${item.name}`;
    if (occurrence === undefined || generation !== note.generation || turn !== note.turn || known.has(id)) continue;
    known.add(id);
    if (item.kind === "mark" || !hasEnded) wanted.push(item.sequence);
    if (item.kind === "step") hasEnded = true;
    if (wanted.length === MAX_STEPS) break;
  }
  const entries: LogEntry[] = [];
  for (const sequence of wanted.reverse()) {
    for await (const entry of reader.records(taskId, { afterSequence: sequence - 1, limit: 1 })) {
      if (entry.kind !== "checkpoint") entries.push(entry);
    }
  }
  return collectSteps(entries, checkpoint).map(({ step: { result: _result, error: _error, ...step } }) => step);
}

/**
 * Returns the steps in the order in which they ended, then the steps that haven't ended. If the run has ended, steps
 * that haven't ended are left out, unless the run crashed its workers. If it is paused, only its waits are kept.
 *
 * @param hasDropped - Whether to include dropped results, which a resume doesn't see.
 */
export function collectSteps(
  entries: readonly LogEntry[],
  { status, sequence: saved, error }: Pick<CheckpointSummary, "status" | "sequence" | "error">,
  hasDropped = false,
): readonly ViewedStep[] {
  const hasEnded = status === "completed" || (status === "failed" && error?.name !== ATTEMPTS_ERROR);
  const ended = new Map<string | number, ViewedStep>();
  const started = new Map<string, ViewedStep>();
  const marked = new Map<string, string[]>();
  for (const entry of entries) {
    const { kind, name, sequence, createdAt, value } = entry;
    const runKey = parseRunKey(entry);
    const { occurrence, attempt: runAttempt = 1, event } = runKey ?? {};
    if (kind === "run" && !hasDropped) drop(ended, readDropped(value));
    if (name === undefined || runKey === undefined || occurrence === undefined) continue;
    const named = { name, occurrence, runAttempt };
    const key = `${occurrence} ${name}`;
    if (kind === "mark") {
      started.delete(key);
      marked.set(key, [...(marked.get(key) ?? []), createdAt]);
      const { waitsFor, until, ask } = isFields(value) ? value : {};
      const isWait = waitsFor === "sleep" || waitsFor === "event";
      // A fork or a rewind copies the starts of steps. A copied step doesn't run until an attempt starts it again.
      const isOver = runAttempt === 0 || (status === "paused" && sequence < saved);
      if (hasEnded || (isOver && !isWait)) continue;
      // A mark that a fork or a rewind copied still has the original wait's key, so the key is computed.
      const waitKey = waitsFor === "event" && { key: makeKey(entry.taskId, runKey, { name, occurrence }) };
      const wait = isWait
        ? { waitsFor, ...(typeof until === "string" && { until }), ...(isQuestion(ask) && { ask }), ...waitKey }
        : {};
      started.set(key, { sequence, step: { ...named, ...wait, status: "started", startedAt: createdAt } });
    } else if (kind === "run" && event === undefined) {
      ended.set(`save ${key}`, { sequence, step: { ...named, status: "saved", startedAt: createdAt } });
    } else if (kind === "step" && isStepValue(value)) {
      const { input: _input, hasSignal: _hasSignal, ...step } = value;
      started.delete(key);
      ended.delete(key);
      const retries = (step.attempts ?? 1) - 1;
      // The mark of the first try may be missing.
      const retriedAt = retries > 0 && marked.get(key)?.slice(-retries);
      ended.set(hasDropped ? sequence : key, {
        sequence,
        step: { ...named, ...step },
        ...(retriedAt && { retriedAt }),
      });
    }
  }
  return [...ended.values(), ...started.values()];
}

function isQuestion(ask: unknown): ask is NonNullable<StepRecord["ask"]> {
  return isFields(ask) && typeof ask["question"] === "string";
}

/** Removes the steps whose results were dropped. */
function drop(
  ended: Map<string | number, { readonly sequence: number }>,
  dropped: ReturnType<typeof readDropped>,
): void {
  for (const [key, { sequence }] of ended) {
    if (dropped.some(([first, last]) => sequence >= first && sequence <= last)) ended.delete(key);
  }
}

export function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
