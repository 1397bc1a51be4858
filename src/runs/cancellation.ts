import { checkId, checkTaskId } from "../contract/arguments.js";
import type { CheckpointSummary, TaskStatus } from "../contract/checkpoint.js";
import {
  CheckpointConflictError,
  CheckpointNotFoundError,
  RunCancelledError,
  RunMismatchError,
} from "../contract/errors.js";
import { findTurnStart, readRunNote } from "../contract/run-note.js";
import { keptErrorsText, parseRunKey, type RunKey, stepTitle } from "../contract/run-record.js";
import { isCancelled, isOfRun } from "../contract/transient.js";
import { checkOptions } from "../manager/check-options.js";
import { INCOMPLETE, type OneOrMany, resolvePrefix } from "../manager/queries.js";
import type { DroppedResults } from "../manager/status.js";
import { readRunRecord } from "./run-state.js";
import type { RunStore } from "./run-store.js";

/** Cancels the task, or all incomplete tasks of the prefix. */
export function cancelTasks(store: RunStore, tasks: OneOrMany, reason: string): Promise<number> {
  return changeEach(store, "cancel", tasks, INCOMPLETE, async (taskId, newest) => {
    if (isCancelled(newest)) return false;
    const { code } = RunCancelledError;
    // `isCancelled` recognizes the error by its code and its missing stack.
    const error = Object.assign(new Error(reason), { name: "RunCancelledError", code, stack: undefined });
    await store.underForcedLease(taskId, (lease) => store.failTask(taskId, error, lease));
    return true;
  });
}

/** Puts the failed task back, or all failed tasks of the prefix. */
export async function retryTasks(
  store: RunStore,
  tasks: OneOrMany,
  options: { readonly from?: string | undefined },
): Promise<number> {
  checkOptions("RetryOptions", options, { from: checkId });
  const { from } = options;
  if (from !== undefined && typeof tasks !== "string") throw new TypeError("RetryOptions.from needs a single task.");
  return changeEach(store, "retry", tasks, ["failed"], async (taskId, newest) => {
    if (newest.status !== "failed") return false;
    if (isCancelled(newest)) throw new RunCancelledError(taskId, newest.error?.message ?? "");
    const isChanged = await store.putBack(
      newest,
      from === undefined ? undefined : await findResultsFrom(store, newest, from),
    );
    if (isChanged && from === undefined && isOfRun(newest)) await warnOfKeptErrors(store, newest);
    return isChanged;
  });
}

/**
 * Finds the results of the current turn from the step `from` on. That step may have failed, or may have been running
 * when the process was killed.
 */
async function findResultsFrom(store: RunStore, newest: CheckpointSummary, from: string): Promise<DroppedResults> {
  const { taskId } = newest;
  const note = readRunNote(newest);
  // By step title: the sequence of the step's last end or, if it hasn't ended, of its first start.
  const found = new Map<string, number>();
  const receipts: (RunKey & { readonly sequence: number })[] = [];
  let last = 0;
  if (note !== undefined) {
    const query = { taskId, order: "oldest", headersOnly: true } as const;
    const afterSequence = findTurnStart(note, newest.sequence);
    for await (const header of store.records({ ...query, afterSequence, kinds: ["step", "mark"] })) {
      last = header.sequence;
      const key = parseRunKey(header);
      if (header.name === undefined || key?.occurrence === undefined) continue;
      if (key.generation !== note.generation || key.turn !== note.turn) continue;
      const { sequence } = header;
      if (header.kind === "step" && key.event !== undefined) receipts.push({ ...key, sequence });
      const title = stepTitle(header.name, key.occurrence);
      if (header.kind === "step" || !found.has(title)) found.set(title, sequence);
    }
  }
  const first = found.get(from);
  if (first !== undefined) {
    const range = [first, Math.max(last, newest.sequence)] as const;
    return { range, receipts: receipts.filter(({ sequence }) => sequence >= first) };
  }
  const titles = [...found.keys()].slice(0, 20).map((title) => JSON.stringify(title));
  throw new RunMismatchError(
    taskId,
    `The current turn of task ${JSON.stringify(taskId)} has no recorded step ${JSON.stringify(from)}. Nothing was changed. ` +
      `Recorded steps: ${titles.join(", ") || "none"}.`,
  );
}

/** Warns of failed steps that aren't tried again although their task was put back. */
async function warnOfKeptErrors(store: RunStore, { taskId, sequence }: CheckpointSummary): Promise<void> {
  const { logger } = store.options;
  try {
    const value = await readRunRecord(store, taskId, sequence);
    if (typeof value !== "object" || value === null || !("kept" in value) || !Array.isArray(value.kept)) return;
    const kept = keptErrorsText(value.kept);
    if (kept !== undefined) logger.warn({ taskId }, `Task ${JSON.stringify(taskId)} was put back. ${kept}`);
  } catch (error) {
    // The record may be damaged, or this manager has no key for it.
    logger.debug({ taskId, error }, "The steps of a task that was put back can't be read");
  }
}

/**
 * Calls `change` for the task, or for each task of the prefix with one of these statuses. Returns how many tasks
 * changed.
 */
async function changeEach(
  store: RunStore,
  what: string,
  tasks: OneOrMany,
  status: readonly TaskStatus[],
  change: (taskId: string, newest: CheckpointSummary) => Promise<boolean>,
): Promise<number> {
  if (typeof tasks === "string") {
    checkTaskId(tasks);
    return Number(await change(tasks, await store.reader.newest(tasks)));
  }
  const prefix = resolvePrefix(what, tasks);
  let changed = 0;
  for (const { taskId, newest: listed } of await store.reader.tasks({ prefix, status, order: "taskId" })) {
    if (isCancelled(listed)) continue;
    try {
      changed += Number(await change(taskId, await store.reader.newest(taskId)));
    } catch (error) {
      // The task was completed, changed or removed since it was listed.
      if (!(error instanceof CheckpointConflictError || error instanceof CheckpointNotFoundError)) throw error;
    }
  }
  return changed;
}
