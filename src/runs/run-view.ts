import type { CheckpointSummary } from "../contract/checkpoint.js";
import { type RunNote, readRunNote } from "../contract/run-note.js";
import { parseRunKey, type RunRecord } from "../contract/run-record.js";
import { collectSteps, findFailedStep, isFields, type LogEntry, type LogReader } from "./step-view.js";

/**
 * Reads what is recorded of a run up to one of its checkpoints. For a turn's first checkpoint, the steps are those of
 * the previous turn. For the task's newest checkpoint, later records are included.
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

/** Reads the records of a turn, the oldest first. If `beforeSequence` is given, reads only records before it. */
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
