import { LeaseHeldError, LeaseLostError, RunPausedError, StorageError } from "../contract/errors.js";

const STOPS = new WeakSet<object>();

/**
 * Notes an error with which a run stopped, and that isn't recorded as the run's end. A run around it stops, too, instead
 * of being recorded as failed.
 */
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

/** Whether a run stopped with this error, so that it may go on later. */
export function isStop(error: unknown): boolean {
  return error instanceof RunPausedError || (error instanceof Error && STOPS.has(error));
}
