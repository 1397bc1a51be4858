import type { CheckpointOptions } from "./options.js";
import { cleanupCheckpoints, detectIncompleteCheckpoint } from "./phase-checkpoints.js";

/** The result of `sessionEndCleanup`. */
export type CleanupResult =
  | { readonly ok: true; readonly deleted: number }
  | { readonly ok: false; readonly error: string };

/**
 * The line that a session shows at its start: `Checkpoint: Resume from Phase 4? (Refactor the login flow)`. Always one
 * line. `undefined` if there is nothing to resume. If the checkpoints can't be read, it returns `undefined` and logs
 * the error. Never throws.
 */
export async function sessionStartContext(options: CheckpointOptions = {}): Promise<string | undefined> {
  const checkpoint = await detectIncompleteCheckpoint(options);
  if (checkpoint === null) return undefined;
  // After a line break, a summary could pass for the session's own words.
  const summary = checkpoint.taskSummary.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return `Checkpoint: Resume from Phase ${checkpoint.phaseNumber}? (${summary})`;
}

/**
 * `cleanupCheckpoints` for the end of a session. Never throws.
 *
 * @param olderThanDays - Default 30.
 */
export async function sessionEndCleanup(
  olderThanDays?: number,
  options: CheckpointOptions = {},
): Promise<CleanupResult> {
  const answer = await cleanupCheckpoints(olderThanDays, options);
  return "error" in answer ? { ok: false, error: answer.error } : { ok: true, deleted: answer.deleted };
}
