import { isError, LeaseHeldError, LeaseLostError, RunPausedError, StorageError } from "../contract/errors.js";
import { processState } from "../contract/process-state.js";

/** Shared, because the run around a stopped one may be of another copy of this package. */
const STOPS = processState("stops.1", () => new WeakSet<object>());

/** Notes the error that stopped a run without ending it. The run around it is then paused, not failed. */
export function noteStop(error: unknown): void {
  if (error instanceof LeaseHeldError || error instanceof LeaseLostError || error instanceof StorageError)
    STOPS.add(error);
}

/** Like `begin`, and notes its error: an attempt that can't begin records no end. */
export async function notingStops<Result>(begin: Promise<Result>): Promise<Result> {
  try {
    return await begin;
  } catch (error) {
    noteStop(error);
    throw error;
  }
}

/** The error that pauses a run because a run within it couldn't go on. */
export function pausedBy(taskId: string, cause: unknown): RunPausedError {
  const why = isError(cause) ? cause.message : String(cause);
  return new RunPausedError(taskId, `a run within it couldn't go on (${why})`, { cause });
}

/** Whether a run stopped with this error, so that it may go on later. */
export function isStop(error: unknown): boolean {
  return error instanceof RunPausedError || (isError(error) && STOPS.has(error));
}
