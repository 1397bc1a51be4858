import { parseRunBody } from "../codec/run-body.js";
import { checkTaskId } from "../contract/arguments.js";
import type { CheckpointStatus, CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointConflictError, CheckpointNotFoundError, RunCancelledError } from "../contract/errors.js";
import { keptErrorsText } from "../contract/run-record.js";
import { isCancelled, isOfRun } from "../contract/transient.js";
import { INCOMPLETE, resolvePrefix } from "../manager/queries.js";
import type { StatusChanger } from "../manager/status.js";
import type { RunStore } from "./run-store.js";

/** A task's id, or the prefix of several. */
type Tasks = string | { readonly prefix: string };

/** Cancels the task, or all incomplete tasks of the prefix. */
export function cancelTasks(store: RunStore, tasks: Tasks, reason: string, statuses: StatusChanger): Promise<number> {
  return changeEach(store, "cancel", tasks, INCOMPLETE, async (taskId, newest) => {
    if (isCancelled(newest)) return false;
    const { code } = RunCancelledError;
    // `isCancelled` recognizes it by the code and the missing stack.
    const error = Object.assign(new Error(reason), { name: "RunCancelledError", code, stack: undefined });
    await store.underForcedLease(taskId, (lease) => statuses.setNewest(taskId, "failed", error, { lease }));
    return true;
  });
}

/** Puts the failed task back, or all failed tasks of the prefix. */
export function retryTasks(store: RunStore, tasks: Tasks): Promise<number> {
  return changeEach(store, "retry", tasks, ["failed"], async (taskId, newest) => {
    if (newest.status !== "failed") return false;
    if (isCancelled(newest)) throw new RunCancelledError(taskId, newest.error?.message ?? "");
    const isChanged = await store.putBack(newest);
    if (isChanged && isOfRun(newest)) await warnOfKeptErrors(store, newest);
    return isChanged;
  });
}

/** Names the failed steps of a task that was put back, but that aren't tried again. */
async function warnOfKeptErrors(store: RunStore, { taskId, id }: CheckpointSummary): Promise<void> {
  const { logger } = store.options;
  try {
    const { text, summary } = await store.reader.textById(taskId, id);
    const kept = keptErrorsText(parseRunBody(text, summary).steps.map(({ head }) => head));
    if (kept !== undefined) logger.warn({ taskId }, `Task ${JSON.stringify(taskId)} was put back. ${kept}`);
  } catch (error) {
    // It may be damaged, or this manager has no key for it.
    logger.debug({ taskId, error }, "The steps of a task that was put back can't be read");
  }
}

/** Calls `change` for the task, or for each task of the prefix with one of these statuses. Counts what it changed. */
async function changeEach(
  store: RunStore,
  what: string,
  tasks: Tasks,
  status: readonly CheckpointStatus[],
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
