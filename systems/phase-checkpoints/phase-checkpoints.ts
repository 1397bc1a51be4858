import { checkText, listKeys } from "../../src/contract/arguments.js";
import { toFailure } from "../../src/contract/checkpoint.js";
import { prepareCheckpointFile } from "./checkpoint-file.js";
import { newCheckpointId } from "./checkpoint-id.js";
import type { PhaseCheckpointEvent } from "./event-log.js";
import {
  type CheckpointOptions,
  type ResolvedCheckpointOptions,
  readLogger,
  resolveCheckpointOptions,
} from "./options.js";
import type { CheckpointState, IscCriterionSnapshot } from "./schema.js";
import { clearCheckpointRef, setCheckpointRef } from "./seed.js";
import { CheckpointFolder, type StoredCheckpointFile } from "./storage.js";

/** The result of `createCheckpoint`: the id and the file's name, or the error. */
export type CheckpointResult =
  | { readonly ok: true; readonly checkpointId: string; readonly file: string }
  | { readonly ok: false; readonly error: string };

/** The result of `completeCheckpoint`. */
export type CompletionResult = { readonly ok: true } | { readonly ok: false; readonly error: string };

export interface ListCheckpointsOptions extends CheckpointOptions {
  /** Only completed checkpoints (true), or only those that aren't (false). Default: all. */
  readonly completed?: boolean | undefined;
}

/** The result of `cleanupCheckpoints`. */
export type CleanupAnswer =
  | { readonly deleted: number }
  /** The call failed. Checkpoints deleted before that are gone, the others intact. */
  | { readonly deleted: number; readonly ok: false; readonly error: string };

export interface CompleteCheckpointOptions extends CheckpointOptions {
  /** Also completes the session's older checkpoints, so that none is offered for a resume. Default false. */
  readonly withEarlier?: boolean | undefined;
}

const LIST_KEYS = listKeys<Omit<ListCheckpointsOptions, keyof CheckpointOptions>>({ completed: true });
const COMPLETE_KEYS = listKeys<Omit<CompleteCheckpointOptions, keyof CheckpointOptions>>({ withEarlier: true });
const DEFAULT_MAX_AGE_DAYS = 30;
const DAY_MS = 86_400_000;

/**
 * Saves a new checkpoint, writes its id to `seed.json` and logs `checkpoint_created`. Resolves once the checkpoint
 * survives a killed process and a power cut. If only `seed.json` or the log fails, the checkpoint is safe: the answer
 * is `ok`, and `options.logger` gets a warning. Never throws.
 *
 * @param phase - The phase's name, any text; data, never a path.
 * @param phaseNumber - From 1 to 7.
 * @param taskSummary - The task in some eight words.
 * @param iscCriteria - Each one's id, subject and status are kept.
 * @param metadata - The phase's own state. Dates, Maps and more come back as they were. A value without a stored form
 * (a function) is refused. The caller may change it as soon as the call has returned its promise.
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
    const id = newCheckpointId();
    const draft = { id, sessionId, phase, phaseNumber, completed: false, taskSummary, iscCriteria, metadata };
    const file = await openFolder(resolved).add(phase, prepareCheckpointFile(draft));
    await attempt(resolved, SEED_FAILED, () => setCheckpointRef(seedPath, id));
    await logEvent(resolved, { action: "checkpoint_created", checkpointId: id, phase });
    return { ok: true, checkpointId: id, file };
  } catch (error) {
    return { ok: false, error: toFailure(error).message };
  }
}

/**
 * The checkpoint with that id, or null if there is none. If the call fails, it returns null and logs the error. Never
 * throws.
 */
export async function loadCheckpoint(
  checkpointId: string,
  options: CheckpointOptions = {},
): Promise<CheckpointState | null> {
  return orElse(null, "loadCheckpoint", options, () => {
    const resolved = resolveCheckpointOptions(options);
    checkText("A checkpoint id", checkpointId);
    const found = openFolder(resolved)
      .list()
      .find(({ state }) => state.id === checkpointId);
    return found?.state ?? null;
  });
}

/**
 * The checkpoints, newest first by `createdAt`. Files without a checkpoint are skipped. Empty if there is no folder. If
 * the call fails, it returns an empty list and logs the error. Never throws.
 *
 * @param more - The options, if the filter is the first argument, as in the spec's program.
 */
export async function listCheckpoints(
  options: ListCheckpointsOptions = {},
  more: CheckpointOptions = {},
): Promise<CheckpointState[]> {
  const all: ListCheckpointsOptions = { ...options, ...more };
  return orElse([], "listCheckpoints", all, () => {
    const resolved = resolveCheckpointOptions(all, ...LIST_KEYS);
    const { completed } = all;
    checkBoolean("completed", completed);
    const states = openFolder(resolved)
      .list()
      .map(({ state }) => state);
    return completed === undefined ? states : states.filter((state) => state.completed === completed);
  });
}

/**
 * The newest checkpoint of any session that isn't completed, or null if there is none. If the call fails, it returns
 * null and logs the error. Never throws.
 */
export async function detectIncompleteCheckpoint(options: CheckpointOptions = {}): Promise<CheckpointState | null> {
  return orElse(null, "detectIncompleteCheckpoint", options, () => {
    const newest = openFolder(resolveCheckpointOptions(options))
      .list()
      .find(({ state }) => !state.completed);
    return newest?.state ?? null;
  });
}

/**
 * Marks a checkpoint as completed, so that it is no longer offered for resuming. Removes its id from `seed.json` and
 * logs `checkpoint_completed`. Completing it again changes nothing. Never throws.
 */
export async function completeCheckpoint(
  checkpointId: string,
  options: CompleteCheckpointOptions = {},
): Promise<CompletionResult> {
  try {
    const resolved = resolveCheckpointOptions(options, ...COMPLETE_KEYS);
    const { withEarlier = false } = options;
    checkBoolean("withEarlier", withEarlier);
    checkText("A checkpoint id", checkpointId);

    const chosen = await openFolder(resolved).complete((all) => chooseToComplete(all, checkpointId, withEarlier));
    if (chosen.length === 0) return { ok: false, error: notFound(checkpointId, resolved.checkpointsDir) };
    const ids = chosen.map(({ id }) => id);
    await attempt(resolved, SEED_FAILED, () => clearCheckpointRef(resolved.seedPath, ids));
    for (const { id, phase, completed } of chosen.toReversed()) {
      if (!completed) await logEvent(resolved, { action: "checkpoint_completed", checkpointId: id, phase });
    }
    return { ok: true };
  } catch (error) {
    return { ok: false, error: toFailure(error).message };
  }
}

/**
 * Removes old checkpoints, completed or not: completed ones first, then oldest first. If `seed.json` names one of them,
 * the reference is removed. Files without a checkpoint stay. Never throws.
 *
 * @param olderThanDays - By `createdAt`, in days of 24 hours from 0; may be a fraction. Default 30.
 * @returns How many were deleted; with `ok: false` and `error` if it failed.
 */
export async function cleanupCheckpoints(
  olderThanDays: number = DEFAULT_MAX_AGE_DAYS,
  options: CheckpointOptions = {},
): Promise<CleanupAnswer> {
  let deleted = 0;
  try {
    const resolved = resolveCheckpointOptions(options);
    if (typeof olderThanDays !== "number" || !(olderThanDays >= 0)) {
      throw new RangeError(`olderThanDays must be a number of days from 0, not ${String(olderThanDays)}.`);
    }
    await openFolder(resolved).removeOlder(Date.now() - olderThanDays * DAY_MS, {
      // Changed before the removal: if the cleanup is interrupted, seed.json must not name a removed checkpoint.
      beforeRemoval: async (doomed) => {
        const ids = doomed.map(({ id }) => id);
        await attempt(resolved, SEED_FAILED, () => clearCheckpointRef(resolved.seedPath, ids));
      },
      afterEach: () => {
        deleted += 1;
      },
    });
    return { deleted };
  } catch (error) {
    return { deleted, ok: false, error: toFailure(error).message };
  }
}

const SEED_FAILED = "The checkpoints are safe, but state.checkpointRef of seed.json was not changed";

function openFolder({ checkpointsDir, onInvalidFile }: ResolvedCheckpointOptions): CheckpointFolder {
  return new CheckpointFolder(checkpointsDir, onInvalidFile);
}

/**
 * Every checkpoint with that id (a person may have copied a file) and, if asked, the session's checkpoints before the
 * newest.
 */
function chooseToComplete(
  all: readonly StoredCheckpointFile[],
  checkpointId: string,
  withEarlier: boolean,
): StoredCheckpointFile[] {
  const named = all.findIndex(({ state }) => state.id === checkpointId);
  const sessionId = all[named]?.state.sessionId;
  const isEarlier = (state: CheckpointState, index: number) => index > named && state.sessionId === sessionId;
  return all.filter(
    ({ state }, index) => state.id === checkpointId || (withEarlier && named !== -1 && isEarlier(state, index)),
  );
}

/**
 * Returns the result of `read`. If it fails, logs the error and returns `otherwise`, because the spec's answer has no
 * place for an error.
 */
function orElse<Answer>(otherwise: Answer, name: string, options: unknown, read: () => Answer): Answer {
  try {
    return read();
  } catch (error) {
    readLogger(options).error({ error }, `${name} failed and returned ${JSON.stringify(otherwise)}`);
    return otherwise;
  }
}

async function logEvent(options: ResolvedCheckpointOptions, event: PhaseCheckpointEvent): Promise<void> {
  const failed = `The checkpoint is safe, but its event ${event.action} was not logged`;
  await attempt(options, failed, async () => void (await options.logEvent("custom", event)));
}

/** Runs a step after the checkpoint is stored. If the step fails, only a warning is logged: the checkpoint is safe. */
async function attempt(
  { logger }: ResolvedCheckpointOptions,
  failed: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    logger.warn({ error }, failed);
  }
}

function checkBoolean(what: string, value: boolean | undefined): void {
  if (value !== undefined && typeof value !== "boolean") throw new TypeError(`${what} must be true or false.`);
}

function notFound(checkpointId: string, checkpointsDir: string): string {
  return (
    `Checkpoint ${JSON.stringify(checkpointId)} was not found in ${checkpointsDir}: it was never created, it was removed, ` +
    "or its file can't be read. Nothing was changed; listCheckpoints() lists the existing ones."
  );
}
