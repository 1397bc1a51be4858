// `waymark/kit`: what waymark-runners and waymark-cli need from the SDK and users don't, at most 50 names. It carries no
// promise: any version may change it, so both depend on the exact version of waymark that they were built with.
import type { FeatureCheckpoints } from "./oneshot/storage.js";
import type { PrpCheckpointManager } from "./prp/checkpoint-manager.js";
import type { SessionCheckpoints } from "./prp/storage.js";

export { describeCause } from "../adapters/files/failure.js";
export { toFileName } from "../adapters/files/names.js";
export { compareTasks, hasCheckpoint } from "../src/contract/adapter.js";
export {
  checkKeys,
  checkSignal,
  checkTaskId,
  checkText,
  listKeys,
  MAX_DELAY_MS,
} from "../src/contract/arguments.js";
export { isError } from "../src/contract/errors.js";
export { parseHolder } from "../src/contract/holder.js";
export type { HeldLease } from "../src/contract/leases.js";
export { parseSummary } from "../src/contract/parse-summary.js";
export { readOrigin } from "../src/contract/run-note.js";
export { keptErrorsText, type RunRecord, type StepRecord, stepText } from "../src/contract/run-record.js";
export { findTaskStatus } from "../src/contract/task-status.js";
export { isCancelled, isChild, isOfRun, NEVER, readParent, readWaits } from "../src/contract/transient.js";
export { onAbort } from "../src/manager/abort-signals.js";
export { safeLogger, warningLogger } from "../src/manager/logger.js";
export { compareStates } from "../src/manager/state-diff.js";
export { listTasks } from "../src/manager/task-list.js";
export { onTermination } from "../src/manager/termination.js";
export { listEventHeaders, listOpenWaits } from "../src/runs/event-headers.js";
export { readRun } from "../src/runs/run-view.js";
export { collectSteps, readLastSteps, readTurns } from "../src/runs/step-view.js";
export { isRecord } from "./json-object.js";
export { assertFresh, DEFAULT_MAX_AGE_MS, describeAge } from "./oneshot/staleness.js";
export type { FeatureCheckpoints, StoredFeature } from "./oneshot/storage.js";
export type { SessionCheckpoints } from "./prp/storage.js";
export { isStillBeingRun, RunLock, runLockPath } from "./run-lock.js";

// These two load zod, which takes longer than a whole command needs without it. So they load it when they are called.

export async function openFeatureCheckpoints(baseDir: string, folder?: string): Promise<FeatureCheckpoints> {
  const { FeatureCheckpoints } = await import("./oneshot/storage.js");
  return new FeatureCheckpoints(baseDir, folder);
}

/** The checkpoints of the manager's session; `undefined` if its configuration has switched them off. */
export async function enabledCheckpoints(manager: PrpCheckpointManager): Promise<SessionCheckpoints | undefined> {
  return (await import("./prp/checkpoint-manager.js")).enabledCheckpoints(manager);
}
