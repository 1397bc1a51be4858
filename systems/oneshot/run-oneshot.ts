import { nanoid } from "nanoid";
import { CheckpointConflictError, CheckpointCorruptError, CheckpointNotFoundError } from "../../src/contract/errors.js";
import { checkText, MAX_TASK_ID_LENGTH } from "../../src/manager/arguments.js";
import { safeLogger } from "../../src/manager/logger.js";
import { interruptibly } from "../processes/interruption.js";
import { ProcessStuckError } from "../processes/process-group.js";
import { isUnderWay, Runner } from "../processes/runner.js";
import { OneshotError } from "./errors.js";
import { safeListener, type WorkstreamFailure } from "./events.js";
import { FeatureJournal } from "./feature-journal.js";
import { FeatureRun } from "./feature-run.js";
import { type OneshotOptions, resolveOptions, type Settings } from "./oneshot-options.js";
import { type LoadedPlan, loadPlan } from "./plan-file.js";
import type { OneshotCheckpoint } from "./schema.js";
import { assertFresh, describeAge } from "./staleness.js";
import { FeatureCheckpoints, type StoredFeature } from "./storage.js";

/** What came of a run that came to its end by itself. */
export interface OneshotResult {
  /** All is completed, and the checkpoint is gone. Else it says `failed`, and `resume` goes on from it. */
  readonly success: boolean;
  /** Those of the plan, in the order in which they were completed, by earlier runs too. */
  readonly completed: readonly string[];
  /** In the order in which they failed. */
  readonly failed: readonly WorkstreamFailure[];
  /** What wasn't started because of that, in the plan's order. */
  readonly notStarted: readonly string[];
  /** It went on from a checkpoint. */
  readonly resumed: boolean;
}

/**
 * Runs a feature's workstreams in the plan's order, each once those that it depends on are completed, and keeps in
 * `.sdp/checkpoints/<feature>.json` what is done: written before a workstream starts and after each. When all is
 * completed, the file is removed.
 *
 * What is acknowledged is not done again: a workstream that the checkpoint has as completed is run by no later
 * `resume`. One that a killed run has left running is ended first, with its process group; so it never runs twice at a
 * time. (This takes one machine: what runs on another one can't be seen.)
 *
 * Where one fails, no other is started; those that run come to their end, since their work counts, and then `failed` is
 * saved. SIGINT and SIGTERM end what runs, save `paused`, and then end this process as they would have.
 *
 * Each command runs under `sh` in a process group of its own without stdin; what it leaves running in its group is
 * ended with it.
 *
 * @example
 * ```ts
 * import { runOneshot } from "waymark/oneshot";
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
 * @returns Also where a workstream failed: then `success` is false, and `failed` says why.
 * @throws {OneshotError} The plan can't be read or is invalid (nothing was run); a process group can't be ended; or
 *   `INTERRUPTED`, where this process listens to the signal itself.
 * @throws {CheckpointConflictError} The feature has a checkpoint, and neither `resume` nor `restart` is given; or it is
 *   being run already, and that run goes on untouched; or somebody else has changed the checkpoint meanwhile, and what
 *   ran was ended.
 * @throws {CheckpointNotFoundError} `resume`, and there is no checkpoint.
 * @throws {CheckpointStaleError} `resume`, and the checkpoint is older than `maxAgeMs`; `force` takes it all the same.
 * @throws {CheckpointCorruptError} The checkpoint can't be read; it was left untouched. `restart` gives it another name,
 *   `<feature>.json.damaged-<time>`, and says so to the logger.
 * @throws {StorageError} A checkpoint could not be saved; what ran was ended.
 * @throws {TypeError | RangeError} An option is misspelled or out of range; the message names it.
 * @throws The signal's reason, once it aborts.
 */
export async function runOneshot(feature: string, options: OneshotOptions = {}): Promise<OneshotResult> {
  checkText("A feature", feature, 1, MAX_TASK_ID_LENGTH);
  const settings = resolveOptions(options);
  const { signal, baseDir } = settings;
  signal?.throwIfAborted();
  const checkpoints = new FeatureCheckpoints(baseDir);
  const found = await findStart(feature, checkpoints, settings);
  const { plan: recorded } = found?.state.waymark ?? {};
  const plan = await loadPlan({ featureId: feature, baseDir, plan: options.plan, recorded });
  const runner = await Runner.begin();
  try {
    return await interruptibly((ending) => run({ feature, settings, checkpoints, found, plan, runner }, ending), {
      signal,
      reason: (name) => new OneshotError("INTERRUPTED", `${name} came while ${feature} was run; it is paused.`),
    });
  } catch (error) {
    if (!(error instanceof ProcessStuckError)) throw error;
    throw new OneshotError("PROCESS_STUCK", error.message, { cause: error });
  } finally {
    runner.end();
  }
}

/** All that a run stands on. */
interface RunParts {
  readonly feature: string;
  readonly settings: Settings;
  readonly checkpoints: FeatureCheckpoints;
  readonly found: StoredFeature | undefined;
  readonly plan: LoadedPlan;
  readonly runner: Runner;
}

/** The checkpoint that is there and can be read, once it is sure that this run may take its place. */
async function findStart(
  feature: string,
  checkpoints: FeatureCheckpoints,
  { resume, restart, maxAgeMs, clock }: Settings,
): Promise<StoredFeature | undefined> {
  const found = await checkpoints.find(feature).catch((error: unknown) => {
    // It is set aside once the run can begin.
    if (restart && error instanceof CheckpointCorruptError) return undefined;
    throw error;
  });
  if (found === undefined) {
    if (!resume) return undefined;
    throw new CheckpointNotFoundError(
      `Feature ${JSON.stringify(feature)} has nothing to resume: there is no checkpoint of it in ${checkpoints.folder}. ` +
        "Either it was completed, or never started: then start it.",
      { taskId: feature },
    );
  }
  await assertNotUnderWay(found.state);
  if (!resume && !restart) throw alreadyThere(found.state, clock());
  if (resume) assertFresh(found.state, maxAgeMs, clock());
  return found;
}

async function run(parts: RunParts, signal: AbortSignal): Promise<OneshotResult> {
  const { feature, settings, checkpoints, found, plan, runner } = parts;
  const { logger, clock, jobs } = settings;
  const { workstreams } = plan;
  const startedMs = performance.now();
  const tell = safeListener(settings.onEvent, logger);
  const resumed = settings.resume;
  const agentId = settings.agentId ?? (resumed ? found?.state.agentId : undefined) ?? nanoid();
  const orphans = found?.state.waymark?.processes ?? [];
  const journal = new FeatureJournal(
    checkpoints,
    {
      featureId: feature,
      agentId,
      startTime: (resumed ? found?.state.startTime : undefined) ?? new Date(clock()),
      completed: (resumed ? found?.state.completedWs : undefined) ?? [],
      orphans,
      runner: runner.identity,
      workstreams,
      planFile: plan.file,
      revision: found?.revision,
    },
    clock,
  );
  if (settings.restart && found === undefined) await setDamagedAside(parts);
  await claim(parts, journal);
  if (journal.unplanned.length > 0)
    safeLogger(logger).warn({ unplanned: journal.unplanned }, unplannedText(feature, journal));
  tell({
    type: "runStarted",
    feature,
    agentId,
    resumed,
    jobs,
    ...(plan.file === undefined ? undefined : { plan: plan.file }),
    workstreams: workstreams.map((workstream) => ({ ...workstream, completed: journal.hasCompleted(workstream.id) })),
  });
  const runEnded = (status: "completed" | "failed" | "paused") =>
    tell({ type: "runEnded", status, completed: journal.completed, durationMs: performance.now() - startedMs });

  const work = new FeatureRun(workstreams, journal, { ...settings, signal, tell });
  /** What is on disk stands in any case, and is gone on with just as well: the caller is told why the run ended. */
  const close = async (status: "paused" | "failed") => {
    try {
      await journal.close(status);
      runEnded(status);
    } catch (error) {
      safeLogger(logger).warn({ error }, `The run of feature ${feature} could not be marked as ${status}`);
    }
  };
  try {
    await work.endOrphans(orphans);
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

/** Nothing is written over what can't be read, and nobody but its owner may delete it: it gets another name. */
async function setDamagedAside({ feature, checkpoints, settings }: RunParts): Promise<void> {
  const aside = await checkpoints.setAside(feature);
  if (aside === undefined) return;
  safeLogger(settings.logger).warn(
    { ...aside },
    `The checkpoint of feature ${JSON.stringify(feature)} can't be read: ${aside.reason}. It is set aside as ${aside.movedTo}, ` +
      "and the feature begins anew. What a killed run may have left running is not known without it: look for that yourself.",
  );
}

function unplannedText(feature: string, { unplanned }: FeatureJournal): string {
  const ids = unplanned.map((id) => JSON.stringify(id)).join(", ");
  return (
    `The checkpoint of feature ${JSON.stringify(feature)} has ${ids} as completed, which the plan doesn't have: not counted. ` +
    "If that is a misspelling, what was meant is run again."
  );
}

/** Writes the first entry: from now on the feature is this run's. Of two that come at once, one gets here. */
async function claim({ feature, checkpoints }: RunParts, journal: FeatureJournal): Promise<void> {
  try {
    await journal.save();
  } catch (error) {
    if (error instanceof CheckpointConflictError) {
      const other = await checkpoints.find(feature);
      if (other !== undefined) await assertNotUnderWay(other.state);
    }
    throw error;
  }
}

/** @throws {CheckpointConflictError} It says who runs it. */
async function assertNotUnderWay({ featureId, agentId, waymark, startTime }: OneshotCheckpoint): Promise<void> {
  const runner = waymark?.runner;
  if (runner === undefined || !(await isUnderWay(runner))) return;
  throw new CheckpointConflictError(
    `Feature ${JSON.stringify(featureId)} is being run already, by process ${runner.pid} (agent ${JSON.stringify(agentId)}, ` +
      `started ${startTime.toISOString()}). Nothing was changed; wait for it, or end that process and resume.`,
  );
}

function alreadyThere({ featureId, status, completedWs, currentWs, lastUpdate }: OneshotCheckpoint, nowMs: number) {
  const where = currentWs === "" ? "" : `, at ${JSON.stringify(currentWs)}`;
  const age = describeAge(Math.max(0, nowMs - lastUpdate.getTime()));
  return new CheckpointConflictError(
    `Feature ${JSON.stringify(featureId)} has been started already: ${completedWs.length} completed${where}, ` +
      `${status}, last update ${age} ago. Nothing was changed; resume it to go on from there, or restart it to begin anew.`,
  );
}
