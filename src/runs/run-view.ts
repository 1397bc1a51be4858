import type { CheckpointSummary } from "../contract/checkpoint.js";
import { type RunNote, readRunNote } from "../contract/run-note.js";
import { parseRunKey, type RunKey, type RunRecord } from "../contract/run-record.js";
import { collectSteps, findFailedStep, isFields, type LogEntry, type LogReader } from "./step-view.js";

/**
 * What is recorded of a run up to one of its checkpoints. Of a turn's first checkpoint, the steps of the turn before;
 * of the task's newest checkpoint, also what was recorded after it.
 *
 * @param at - The sequence of a record: reads the steps of its turn instead.
 * @returns `undefined` if no run saved the checkpoint.
 */
export async function readRun(
  reader: LogReader,
  checkpoint: CheckpointSummary,
  at?: number,
): Promise<RunRecord | undefined> {
  const note = readRunNote(checkpoint);
  if (note === undefined) return undefined;
  const { taskId, sequence } = checkpoint;
  if (at !== undefined) return readRunAt(reader, checkpoint, note, at);
  const hasNewer = await isAnyLeft(
    reader.records(taskId, { kinds: ["checkpoint"], afterSequence: sequence, limit: 1 }),
  );
  const isMilestone = hasNewer && note.turnStart === undefined && note.turn > 1 && note.carried === undefined;
  const { generation, version, traceparent } = note;
  const turn = isMilestone ? note.turn - 1 : note.turn;
  const entries = await readTurn(reader, checkpoint, { generation, turn }, hasNewer ? sequence : undefined);
  const steps = collectSteps(entries, checkpoint).map(({ step }) => step);
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

/** The turn that a record belongs to, with the steps of the whole turn. */
async function readRunAt(
  reader: LogReader,
  checkpoint: CheckpointSummary,
  note: RunNote,
  at: number,
): Promise<RunRecord | undefined> {
  const { taskId, sequence } = checkpoint;
  const entries: LogEntry[] = [];
  const kinds = ["step", "run", "mark"] as const;
  let key: RunKey | undefined;
  const isOfTurn = (entry: LogEntry) => {
    const own = parseRunKey(entry);
    key ??= own;
    return own !== undefined && own.generation === key?.generation && own.turn === key.turn;
  };
  for await (const entry of reader.records(taskId, { beforeSequence: at + 1, order: "newest", kinds })) {
    if (!isOfTurn(entry)) break;
    entries.unshift(entry);
  }
  for await (const entry of reader.records(taskId, { afterSequence: at, kinds })) {
    if (!isOfTurn(entry)) break;
    entries.push(entry);
  }
  if (key === undefined) return undefined;
  const { generation, turn } = key;
  const isOpen = generation === note.generation && turn === note.turn;
  const steps = collectSteps(entries, isOpen ? checkpoint : { status: "running", sequence });
  return {
    generation,
    turn,
    isTurnOver: !isOpen || note.isOver === true,
    attempt: Math.max(...entries.map((entry) => parseRunKey(entry)?.attempt ?? 0)),
    steps: steps.map(({ step }) => step),
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
    const key = parseRunKey(entry);
    if (key === undefined) continue;
    if (key.generation !== generation || key.turn !== turn) break;
    entries.push(entry);
  }
  return entries.reverse();
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
    if (isFields(entry.value)) return { input: entry.value["input"] };
  }
  return {};
}

async function isAnyLeft(items: AsyncIterable<unknown>): Promise<boolean> {
  for await (const _item of items) return true;
  return false;
}
