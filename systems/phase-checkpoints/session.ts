import { failureOf } from "../../src/contract/checkpoint.js";
import type { CheckpointOptions } from "./options.js";
import { cleanupCheckpoints, detectIncompleteCheckpoint } from "./phase-checkpoints.js";

/** What `sessionEndCleanup` answers. */
export type CleanupResult =
  | { readonly ok: true; readonly deleted: number }
  | { readonly ok: false; readonly error: string };

/**
 * What a session shows at its start: `Checkpoint: Resume from Phase 4? (Refactor the login flow)`; `undefined` where
 * there is nothing to resume. One line, whatever the summary holds.
 *
 * @throws {StorageError} The checkpoints' folder can't be read.
 */
export async function sessionStartContext(options: CheckpointOptions = {}): Promise<string | undefined> {
  const checkpoint = await detectIncompleteCheckpoint(options);
  if (checkpoint === null) return undefined;
  // A line break in a summary would put words into the session's context that look like its own.
  const summary = checkpoint.taskSummary.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return `Checkpoint: Resume from Phase ${checkpoint.phaseNumber}? (${summary})`;
}

/**
 * `cleanupCheckpoints` for the end of a session, which must come to its end: never throws.
 *
 * @param olderThanDays - Default 30.
 */
export async function sessionEndCleanup(
  olderThanDays?: number,
  options: CheckpointOptions = {},
): Promise<CleanupResult> {
  try {
    return { ok: true, ...(await cleanupCheckpoints(olderThanDays, options)) };
  } catch (error) {
    return { ok: false, error: failureOf(error).message };
  }
}
