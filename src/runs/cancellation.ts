import { parseRunBody } from "../codec/run-body.js";
import { checkTaskId } from "../contract/arguments.js";
import type { CheckpointStatus, CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointConflictError, CheckpointNotFoundError, RunCancelledError } from "../contract/errors.js";
import { keptErrorsText } from "../contract/run-record.js";
import { isCancelled, isOfRun } from "../contract/transient.js";
import { claimLease, type Lease } from "../manager/lease.js";
import { INCOMPLETE, resolvePrefix } from "../manager/queries.js";
import type { StatusChanger } from "../manager/status.js";
import type { AttemptHost } from "./journal.js";

type Host = Pick<AttemptHost, "options" | "reader">;
/** A task's id, or the prefix of several. */
type Tasks = string | { readonly prefix: string };

/**
 * Cancels the task, or all incomplete tasks of the prefix.
 *
 * @param held - The leases that this manager holds.
 */
export function cancelTasks(
  { options, reader }: Host,
  tasks: Tasks,
  reason: string,
  statuses: StatusChanger,
  held: ReadonlySet<Lease>,
): Promise<number> {
  return changeEach(reader, "cancel", tasks, INCOMPLETE, async (taskId, newest) => {
    if (isCancelled(newest)) return false;
    const lease = await claimLease(options.storage, taskId, {}, { force: true });
    try {
      await statuses.setNewest(taskId, "failed", cancellation(reason), { lease });
    } finally {
      await lease.release();
    }
    // A runner of this manager needn't wait for its next renewal. The renewal rejects, because the lease is lost; if the
    // storage fails, the next renewal finds that out.
    for (const its of held) if (its.taskId === taskId) await its.renew().catch(() => undefined);
    return true;
  });
}

/** Puts the failed task back, or all failed tasks of the prefix. */
export function retryTasks(host: Host, tasks: Tasks): Promise<number> {
  const { options, reader } = host;
  return changeEach(reader, "retry", tasks, ["failed"], async (taskId, newest) => {
    const { id, sequence, status, error } = newest;
    if (status !== "failed") return false;
    if (isCancelled(newest)) throw new RunCancelledError(taskId, error?.message ?? "");
    const change = { status: "paused", ...(error && { error }) } as const;
    const isChanged = await options.storage.setStatus(taskId, id, change, { expectedSequence: sequence });
    if (isChanged && isOfRun(newest)) await warnOfKeptErrors(host, newest);
    return isChanged;
  });
}

/** Names the failed steps of a task that was put back, but that aren't tried again. */
async function warnOfKeptErrors({ options, reader }: Host, { taskId, id }: CheckpointSummary): Promise<void> {
  const { logger } = options;
  try {
    const { text, summary } = await reader.textById(taskId, id);
    const kept = keptErrorsText(parseRunBody(text, summary).steps.map(({ head }) => head));
    if (kept !== undefined) logger.warn({ taskId }, `Task ${JSON.stringify(taskId)} was put back. ${kept}`);
  } catch (error) {
    // It may be damaged, or this manager has no key for it.
    logger.debug({ taskId, error }, "The steps of a task that was put back can't be read");
  }
}

/** Calls `change` for the task, or for each task of the prefix with one of these statuses. Counts what it changed. */
async function changeEach(
  reader: Host["reader"],
  what: string,
  tasks: Tasks,
  status: readonly CheckpointStatus[],
  change: (taskId: string, newest: CheckpointSummary) => Promise<boolean>,
): Promise<number> {
  if (typeof tasks === "string") {
    checkTaskId(tasks);
    return Number(await change(tasks, await reader.newest(tasks)));
  }
  const prefix = resolvePrefix(what, tasks);
  let changed = 0;
  for (const { taskId, newest: listed } of await reader.tasks({ prefix, status, order: "taskId" })) {
    if (isCancelled(listed)) continue;
    try {
      changed += Number(await change(taskId, await reader.newest(taskId)));
    } catch (error) {
      // The task was completed, changed or removed since it was listed.
      if (!(error instanceof CheckpointConflictError || error instanceof CheckpointNotFoundError)) throw error;
    }
  }
  return changed;
}

/** The error of a cancelled task's checkpoint. See {@link isCancelled}. */
function cancellation(reason: string): Error {
  const { code } = RunCancelledError;
  return Object.assign(new Error(reason), { name: "RunCancelledError", code, stack: undefined });
}
