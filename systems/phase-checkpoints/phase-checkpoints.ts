import { nanoid } from "nanoid";
import { exposuresOf } from "../../adapters/exposure.js";
import { failureOf } from "../../src/contract/checkpoint.js";
import { checkText } from "../../src/manager/arguments.js";
import { prepareCheckpointFile } from "./checkpoint-file.js";
import type { PhaseCheckpointEvent } from "./event-log.js";
import {
  CHECKPOINT_OPTION_KEYS,
  type CheckpointOptions,
  type ResolvedCheckpointOptions,
  resolveCheckpointOptions,
} from "./options.js";
import type { CheckpointState, IscCriterionSnapshot } from "./schema.js";
import { clearCheckpointRef, setCheckpointRef } from "./seed.js";
import { CheckpointFolder, type StoredCheckpointFile } from "./storage.js";

/** What `createCheckpoint` answers: the checkpoint's id and its file's name in the folder, or what went wrong. */
export type CheckpointResult =
  | { readonly ok: true; readonly checkpointId: string; readonly file: string }
  | { readonly ok: false; readonly error: string };

/** What `completeCheckpoint` answers. */
export type CompletionResult = { readonly ok: true } | { readonly ok: false; readonly error: string };

export interface ListCheckpointsOptions extends CheckpointOptions {
  /** Only those that are completed, or only those that aren't. Default: all. */
  readonly completed?: boolean | undefined;
}

export interface CompleteCheckpointOptions extends CheckpointOptions {
  /**
   * Completes the older checkpoints of the same session too: all its work up to this phase is done. Without it, they
   * are still offered for resuming. Default false.
   */
  readonly withEarlier?: boolean | undefined;
}

/** What is older is cleaned up. */
const DEFAULT_MAX_AGE_DAYS = 30;
const DAY_MS = 86_400_000;

/**
 * Saves where the work stands as a new checkpoint, notes its id in `seed.json` and logs `checkpoint_created`. Resolves
 * once the checkpoint survives a killed process and a power cut. Where only the note or the log fails, the checkpoint is
 * safe: that goes to `options.logger`, and the answer is `ok`. Never throws.
 *
 * @param phase - The phase's name, any text; data, never a path.
 * @param phaseNumber - From 1 to 7.
 * @param taskSummary - The task in some eight words.
 * @param iscCriteria - Of each, id, subject and status are kept.
 * @param metadata - The phase's own state. Dates, Maps and more come back as they were; what could not (a function) is
 *   refused. May be changed once the call has returned its promise.
 */
export async function createCheckpoint(
  phase: string,
  phaseNumber: number,
  taskSummary: string,
  iscCriteria: readonly IscCriterionSnapshot[],
  metadata: Readonly<Record<string, unknown>>,
  options: CheckpointOptions = {},
): Promise<CheckpointResult> {
  try {
    const resolved = resolveCheckpointOptions(options);
    const { sessionId, seedPath } = resolved;
    checkText("A phase", phase, 1);
    const id = nanoid();
    const draft = { id, sessionId, phase, phaseNumber, completed: false, taskSummary, iscCriteria, metadata };
    const contentAt = prepareCheckpointFile(draft);
    const file = await folderOf(resolved).add(phase, contentAt);
    await attempt(resolved, () => setCheckpointRef(seedPath, id), SEED_FAILED);
    await logEvent(resolved, { action: "checkpoint_created", checkpointId: id, phase });
    return { ok: true, checkpointId: id, file };
  } catch (error) {
    return { ok: false, error: failureOf(error).message };
  }
}

/**
 * The checkpoint of that id, or null.
 *
 * @throws {StorageError} The folder can't be read.
 */
export async function loadCheckpoint(
  checkpointId: string,
  options: CheckpointOptions = {},
): Promise<CheckpointState | null> {
  const resolved = resolveCheckpointOptions(options);
  checkText("A checkpoint id", checkpointId);
  return (await folderOf(resolved).find(checkpointId))?.state ?? null;
}

/**
 * The checkpoints, newest first by `createdAt`. Files that are no checkpoints are passed over. Empty where there is no
 * folder.
 *
 * @throws {StorageError} The folder can't be read.
 */
export async function listCheckpoints(options: ListCheckpointsOptions = {}): Promise<CheckpointState[]> {
  const resolved = resolveCheckpointOptions(options, "ListCheckpointsOptions", [
    ...CHECKPOINT_OPTION_KEYS,
    "completed",
  ]);
  const { completed } = options;
  checkBoolean("completed", completed);
  const states = (await folderOf(resolved).list()).map(({ state }) => state);
  return completed === undefined ? states : states.filter((state) => state.completed === completed);
}

/**
 * The newest checkpoint that isn't completed, of any session, or null.
 *
 * @throws {StorageError} The folder can't be read.
 */
export async function detectIncompleteCheckpoint(options: CheckpointOptions = {}): Promise<CheckpointState | null> {
  const [newest] = await listCheckpoints({ ...checkedOptions(options), completed: false });
  return newest ?? null;
}

/**
 * Marks a checkpoint as completed, so that it isn't offered for resuming, clears its note in `seed.json` and logs
 * `checkpoint_completed`. Completing it again changes nothing. Never throws.
 */
export async function completeCheckpoint(
  checkpointId: string,
  options: CompleteCheckpointOptions = {},
): Promise<CompletionResult> {
  try {
    const keys = [...CHECKPOINT_OPTION_KEYS, "withEarlier"];
    const resolved = resolveCheckpointOptions(options, "CompleteCheckpointOptions", keys);
    const { withEarlier = false } = options;
    checkBoolean("withEarlier", withEarlier);
    checkText("A checkpoint id", checkpointId);

    const chosen = await folderOf(resolved).complete((all) => chooseToComplete(all, checkpointId, withEarlier));
    if (chosen.length === 0) return { ok: false, error: notFound(checkpointId, resolved.checkpointsDir) };
    const ids = chosen.map(({ id }) => id);
    await attempt(resolved, () => clearCheckpointRef(resolved.seedPath, ids), SEED_FAILED);
    for (const { id, phase, completed } of chosen.toReversed()) {
      if (!completed) await logEvent(resolved, { action: "checkpoint_completed", checkpointId: id, phase });
    }
    return { ok: true };
  } catch (error) {
    return { ok: false, error: failureOf(error).message };
  }
}

/**
 * Removes checkpoints that are older, completed or not: completed work first, then the oldest first. A note of one of
 * them in `seed.json` is cleared. Files that are no checkpoints stay.
 *
 * @param olderThanDays - By `createdAt`, in days of 24 hours from 0; fractions too. Default 30.
 * @returns How many were deleted.
 * @throws {RangeError} `olderThanDays` is no such number.
 * @throws {StorageError} The folder can't be read or written; those deleted before are gone, the others intact.
 */
export async function cleanupCheckpoints(
  olderThanDays: number = DEFAULT_MAX_AGE_DAYS,
  options: CheckpointOptions = {},
): Promise<{ deleted: number }> {
  const resolved = resolveCheckpointOptions(options);
  if (typeof olderThanDays !== "number" || !(olderThanDays >= 0)) {
    throw new RangeError(`olderThanDays must be a number of days from 0; it is ${String(olderThanDays)}.`);
  }
  const deleted = await folderOf(resolved).removeOlder(Date.now() - olderThanDays * DAY_MS, async (doomed) => {
    // Before they go: a note of one that is gone would stay for good, should this be interrupted.
    const ids = doomed.map(({ id }) => id);
    await attempt(resolved, () => clearCheckpointRef(resolved.seedPath, ids), SEED_FAILED);
  });
  return { deleted };
}

const SEED_FAILED = "The checkpoints are safe, but state.checkpointRef of seed.json was not changed";

/** Folders that this process has been warned of, or needn't be: there is no opening to do it at. */
const looked = new Set<string>();

function folderOf({ checkpointsDir, onInvalidFile, logger }: ResolvedCheckpointOptions): CheckpointFolder {
  if (!looked.has(checkpointsDir)) {
    looked.add(checkpointsDir);
    for (const { path, message } of exposuresOf(checkpointsDir)) logger.warn({ path }, message);
  }
  return new CheckpointFolder(checkpointsDir, onInvalidFile);
}

/** The checkpoint, under every name that it was copied to, and those that come before the newest of these. */
function chooseToComplete(
  all: readonly StoredCheckpointFile[],
  checkpointId: string,
  withEarlier: boolean,
): StoredCheckpointFile[] {
  const named = all.findIndex(({ state }) => state.id === checkpointId);
  const sessionId = all[named]?.state.sessionId;
  return all.filter(
    ({ state }, index) =>
      state.id === checkpointId || (withEarlier && index > named && state.sessionId === sessionId && named !== -1),
  );
}

async function logEvent(options: ResolvedCheckpointOptions, event: PhaseCheckpointEvent): Promise<void> {
  const failed = `The checkpoint is safe, but its event ${event.action} was not logged`;
  await attempt(options, async () => void (await options.logEvent("custom", event)), failed);
}

/** What comes after the checkpoint itself must not make it look as if it weren't there. */
async function attempt(
  { logger }: ResolvedCheckpointOptions,
  work: () => Promise<void>,
  failed: string,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    logger.warn({ error }, failed);
  }
}

function checkedOptions(options: CheckpointOptions): CheckpointOptions {
  resolveCheckpointOptions(options);
  return options;
}

function checkBoolean(what: string, value: boolean | undefined): void {
  if (value !== undefined && typeof value !== "boolean") throw new TypeError(`${what} must be true or false.`);
}

function notFound(checkpointId: string, checkpointsDir: string): string {
  return (
    `Checkpoint ${JSON.stringify(checkpointId)} was not found in ${checkpointsDir}: it was never created, was removed, ` +
    "or its file can't be read. Nothing was changed; listCheckpoints() shows those that are there."
  );
}
