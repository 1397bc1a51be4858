import { isCorrupt } from "waymark/adapter";
import { requireTask } from "../checkpoints.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { stepTitle } from "../run-steps.js";
import type { QuerySession } from "../store.js";
import { buildTimeline } from "./timeline.js";

/** The maximum number of steps that a message names. */
const MOST_NAMED = 10;

/**
 * Returns the record that `@7` names, with its value; `undefined` if a checkpoint has that sequence, or nothing has.
 *
 * @throws {CheckpointError} The configuration can't open the record.
 */
export async function findRecord(session: QuerySession, task: string, word: string | undefined) {
  // A task that has only a lease has no records yet, but it can be shown.
  if (word === undefined) return undefined;
  const taskId = await requireTask(session, task);
  const sequence = await findRecordSequence(session, taskId, word);
  return sequence === undefined ? undefined : readRecord(session, taskId, sequence);
}

/** Reads a record that isn't a checkpoint; `undefined` if no such record has this sequence. */
export async function readRecord(session: QuerySession, taskId: string, sequence: number) {
  for await (const record of (await session.configured()).records(taskId, only(sequence))) {
    if (record.kind !== "checkpoint") return record;
  }
  return undefined;
}

/**
 * Returns `@7` for the last record of a step: its end, or its start if it hasn't ended.
 *
 * @param title - `model`, or `model 2` for the second step of that name in its turn.
 * @throws {CommandError} The task has no such step.
 */
export async function findStep(session: QuerySession, task: string, title: string): Promise<string> {
  const taskId = await requireTask(session, task);
  const { steps, keyMissing } = await buildTimeline(session, taskId);
  if (keyMissing !== undefined) throw keyMissing;
  const found = steps.findLast(({ step }) => step.status !== "saved" && stepTitle(step) === title);
  if (found !== undefined) return `@${found.sequence}`;
  const titles = new Set(steps.slice(-MOST_NAMED).map(({ step }) => JSON.stringify(stepTitle(step))));
  throw new CommandError(
    ExitCode.notFound,
    `Task ${JSON.stringify(taskId)} has no step ${JSON.stringify(title)}. ` +
      (titles.size === 0 ? "No run has recorded a step of it." : `Its last ones are ${[...titles].join(", ")}.`),
  );
}

/** Returns 7 if the word is `@7` and names an intact record that isn't a checkpoint. */
export async function findRecordSequence(
  { storage }: QuerySession,
  taskId: string,
  word = "",
): Promise<number | undefined> {
  const [, digits] = /^@(\d{1,15})$/.exec(word) ?? [];
  if (digits === undefined || storage.log === undefined) return undefined;
  const sequence = Number(digits);
  for await (const header of storage.log.read({ taskId, order: "oldest", ...only(sequence), headersOnly: true })) {
    if (!isCorrupt(header) && "kind" in header) return sequence;
  }
  return undefined;
}

function only(sequence: number) {
  return { afterSequence: sequence - 1, beforeSequence: sequence + 1 };
}
