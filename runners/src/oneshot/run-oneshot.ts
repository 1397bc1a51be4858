import { randomUUID } from "node:crypto";
import { CheckpointConflictError, CheckpointCorruptError, CheckpointNotFoundError } from "waymark";
import {
  assertFresh,
  checkText,
  describeAge,
  type FeatureCheckpoints,
  isStillBeingRun,
  openFeatureCheckpoints,
  RunLock,
  runLockPath,
  type StoredFeature,
} from "waymark/kit";
import type { OneshotCheckpoint } from "waymark/oneshot";
import { interruptibly } from "../interruption.js";
import { RunnerError } from "../runner-error.js";
import { safeListener, type WorkstreamFailure } from "./events.js";
import { FeatureJournal } from "./feature-journal.js";
import { FeatureRun } from "./feature-run.js";
import { type OneshotOptions, resolveOptions, type Settings } from "./oneshot-options.js";
import { type LoadedPlan, loadPlan, namesNoWorkstream } from "./plan-file.js";

/** The maximum length of a feature in UTF-16 units, the same as for a task's id. */
const MAX_FEATURE_LENGTH = 512;

/** The result of a run that was not paused. */
export interface OneshotResult {
  /**
   * True: all workstreams are completed, and the checkpoint is removed. False: the checkpoint's status is `failed`, and
   * `resume` continues the run.
   */
  readonly success: boolean;
  /** The completed workstreams in the order of their completion, including those that earlier runs completed. */
  readonly completed: readonly string[];
  /** The failures in the order in which they happened. */
  readonly failed: readonly WorkstreamFailure[];
  /** The workstreams that were not started because of the failures, in the plan's order. */
  readonly notStarted: readonly string[];
  /** True if the run resumed from a checkpoint. */
  readonly resumed: boolean;
}

/**
 * Runs a feature's workstreams in the plan's order. A workstream starts once its dependencies are completed. The
 * progress is saved in `.sdp/checkpoints/<feature>.json` before and after each workstream. When all are completed, the
 * file is removed.
 *
 * Completed workstreams aren't run again: `resume` skips those that the checkpoint lists as completed. If this process
 * dies, watchdogs end the running workstreams. The next run waits for that, so no workstream runs twice at the same
 * time. (Only on one machine: runs on another machine aren't detected.)
 *
 * If a workstream fails, no other is started. The running ones finish, since their work counts, and then `failed` is
 * saved. SIGINT, SIGTERM and SIGHUP end the running workstreams, save `paused`, and then end this process as usual.
 *
 * Each command runs under `sh` in its own process group, without stdin. When it ends, the processes that it left in its
 * group are also ended. Unix only.
 *
 * @example
 * ```ts
 * import { runOneshot } from "waymark-runners/oneshot";
 *
 * const { success } = await runOneshot("F01", {
 *   plan: {
 *     workstreams: [
 *       { id: "00-001-01", command: "npm run build" },
 *       { id: "00-001-02", command: "npm test", dependsOn: ["00-001-01"] },
 *     ],
 *   },
 *   jobs: 2,
 * });
 * ```
 *
 * @param feature - Any non-empty string of at most 512 UTF-16 units.
 * @returns The result, even if a workstream failed: `success` is then false, and `failed` has the reasons.
 * @throws {RunnerError} The plan can't be read or is invalid (nothing was run); or `INTERRUPTED`, if this process
 *   listens to the signal itself.
 * @throws {CheckpointConflictError} The feature has a checkpoint, and neither `resume` nor `restart` is given. Or the
 *   feature is already being run: that run continues, and the error is `retryable`. Or another run or program changed
 *   the checkpoint: the running workstreams were ended.
 * @throws {CheckpointNotFoundError} `resume` is true, and there is no checkpoint.
 * @throws {CheckpointStaleError} `resume` is true, and the checkpoint is older than `maxAgeMs`; `force` accepts it.
 * @throws {CheckpointCorruptError} The checkpoint can't be read; it was left untouched. `restart` renames it to
 *   `<feature>.json.damaged-<time>`, and logs it.
 * @throws {UnsupportedFormatError} Another program wrote the file of that name. Even `restart` leaves it untouched:
 *   use another `checkpointDir`.
 * @throws {StorageError} A checkpoint could not be saved; running workstreams were ended.
 * @throws {TypeError} An option is misspelled or out of range; the message names it.
 * @throws The signal's reason, once it aborts.
 */
export async function runOneshot(feature: string, options: OneshotOptions = {}): Promise<OneshotResult> {
  checkText("A feature", feature, 1, MAX_FEATURE_LENGTH);
  const settings = resolveOptions(options);
  const { signal, baseDir } = settings;
  signal?.throwIfAborted();
  const checkpoints = await openFeatureCheckpoints(baseDir, settings.checkpointDir);
  const lockPath = runLockPath(checkpoints.lockFolder, feature);
  const found = await findStart(feature, checkpoints, { ...settings, lockPath });
  const plan = await loadPlan({ featureId: feature, baseDir, plan: settings.plan, recorded: found?.state.waymark });
  const lock = await RunLock.take(lockPath);
  if (lock === undefined) throw alreadyRun(feature, found?.state);
  try {
    return await interruptibly((ending) => run({ feature, settings, checkpoints, found, plan, lock }, ending), {
      signal,
      reason: (name) => new RunnerError("INTERRUPTED", `${name} paused the run of feature ${feature}.`),
    });
  } finally {
    lock.release();
  }
}

interface RunParts {
  readonly feature: string;
  readonly settings: Settings;
  readonly checkpoints: FeatureCheckpoints;
  readonly found: StoredFeature | undefined;
  readonly plan: LoadedPlan;
  readonly lock: RunLock;
}

/** Returns the feature's checkpoint, if this run may replace it. */
async function findStart(
  feature: string,
  checkpoints: FeatureCheckpoints,
  { resume, restart, maxAgeMs, clock, lockPath }: Settings & { readonly lockPath: string },
): Promise<StoredFeature | undefined> {
  const found = await checkpoints.find(feature).catch((error: unknown) => {
    // The damaged file is set aside once the run begins.
    if (restart && error instanceof CheckpointCorruptError) return undefined;
    throw error;
  });
  if (await isStillBeingRun(lockPath)) throw alreadyRun(feature, found?.state);
  if (found === undefined) {
    if (!resume) return undefined;
    throw new CheckpointNotFoundError(
      `Feature ${JSON.stringify(feature)} can't be resumed: it has no checkpoint in ${checkpoints.folder}. ` +
        "It was completed, or never started. Start it instead.",
      { taskId: feature },
    );
  }
  if (!resume && !restart) throw alreadyThere(found.state, clock());
  if (resume) assertFresh(found.state, maxAgeMs, clock());
  return found;
}

async function run(parts: RunParts, signal: AbortSignal): Promise<OneshotResult> {
  const { feature, settings, checkpoints, found, plan, lock } = parts;
  const { logger, clock, jobs } = settings;
  const { workstreams } = plan;
  const startedMs = performance.now();
  const tell = safeListener(settings.onEvent, logger);
  const resumed = settings.resume;
  const agentId = settings.agentId ?? (resumed ? found?.state.agentId : undefined) ?? randomUUID();
  const startTime = (resumed ? found?.state.startTime : undefined) ?? new Date(clock());
  const source = { ...(plan.file === undefined ? undefined : { plan: plan.file }), ...plan.folder };
  const waymark = Object.keys(source).length === 0 ? undefined : source;
  const completed = (resumed ? found?.state.completedWs : undefined) ?? [];
  const journal = new FeatureJournal(
    checkpoints,
    { featureId: feature, agentId, startTime, waymark },
    { completed, workstreams, revision: found?.revision },
    clock,
  );
  if (settings.restart && found === undefined) await setDamagedAside(parts);
  // Once this save has succeeded, the run owns the feature: if two runs start at once, only one of them succeeds.
  await journal.save();
  await lock.claim(() => logger.info({ feature }, waitText(feature)));
  if (journal.unplanned.length > 0) logger.warn({ unplanned: journal.unplanned }, unplannedText(feature, journal));
  if (namesNoWorkstream(plan)) {
    const message =
      "The command names neither $WS nor $WS_FILE, so it is the same for each workstream. Put it in single quotes, or the shell replaces them";
    logger.warn({ command: plan.workstreams[0]?.command }, message);
  }
  tell({
    type: "runStarted",
    feature,
    agentId,
    resumed,
    jobs,
    ...(plan.file === undefined ? undefined : { plan: plan.file }),
    workstreams: workstreams.map(({ isCompleted: _, ...workstream }) => ({
      ...workstream,
      completed: journal.hasCompleted(workstream.id),
    })),
  });
  const runEnded = (status: "completed" | "failed" | "paused") => {
    const durationMs = Math.round(performance.now() - startedMs);
    tell({ type: "runEnded", status, completed: journal.completed, durationMs });
  };

  const work = new FeatureRun(workstreams, journal, settings, { signal, watched: lock.watched, tell });
  /**
   * Never rejects: the run can also be resumed from its previous entry, and the caller must get the reason why the run
   * ended.
   */
  const close = async (status: "paused" | "failed") => {
    try {
      await journal.close(status);
      runEnded(status);
    } catch (error) {
      logger.warn({ error }, `The run of feature ${feature} could not be marked as ${status}`);
    }
  };
  try {
    await work.work();
    if (workstreams.every(({ id }) => journal.hasCompleted(id))) {
      await journal.complete();
      runEnded("completed");
      return { success: true, completed: journal.completed, failed: [], notStarted: [], resumed };
    }
  } catch (error) {
    await close("failed");
    throw error;
  }
  await close(work.failures.length > 0 ? "failed" : "paused");
  signal.throwIfAborted();
  const failed = new Set(work.failures.map(({ workstream }) => workstream));
  return {
    success: false,
    completed: journal.completed,
    failed: work.failures,
    notStarted: workstreams.map(({ id }) => id).filter((id) => !failed.has(id) && !journal.hasCompleted(id)),
    resumed,
  };
}

/** Renames an unreadable checkpoint instead of overwriting it. */
async function setDamagedAside({ feature, checkpoints, settings }: RunParts): Promise<void> {
  const aside = await checkpoints.setAside(feature);
  if (aside === undefined) return;
  settings.logger.warn(
    { ...aside },
    `The checkpoint of feature ${JSON.stringify(feature)} can't be read: ${aside.reason}. It is set aside as ${aside.movedTo}, ` +
      "and the feature starts from the beginning.",
  );
}

function waitText(feature: string): string {
  return `The last run of feature ${JSON.stringify(feature)} was killed; waiting until its commands have ended`;
}

function unplannedText(feature: string, { unplanned }: FeatureJournal): string {
  const ids = unplanned.map((id) => JSON.stringify(id)).join(", ");
  return (
    `The checkpoint of feature ${JSON.stringify(feature)} lists completed workstreams that aren't in the plan: ${ids}. They are ignored. ` +
    "If an id was misspelled, its workstream runs again."
  );
}

function alreadyRun(feature: string, running: OneshotCheckpoint | undefined): CheckpointConflictError {
  const by = running && ` by agent ${JSON.stringify(running.agentId)}, started ${running.startTime.toISOString()}`;
  return new CheckpointConflictError(
    `Feature ${JSON.stringify(feature)} is being run already${by ?? ""}. Nothing was changed; wait for that run, or end it ` +
      "and resume.",
    { retryable: true },
  );
}

function alreadyThere({ featureId, status, completedWs, currentWs, lastUpdate }: OneshotCheckpoint, nowMs: number) {
  const where = currentWs === "" ? "" : `, ${JSON.stringify(currentWs)} is current`;
  const age = describeAge(Math.max(0, nowMs - lastUpdate.getTime()));
  return new CheckpointConflictError(
    `Feature ${JSON.stringify(featureId)} has been started already: ${completedWs.length} of its workstreams completed${where}. ` +
      `Its status is ${status}, last updated ${age} ago. Nothing was changed; resume it to continue from there, or restart it to start over.`,
  );
}
