export { checkpointFilename } from "./checkpoint-filename.js";
export type { LogPhaseCheckpointEvent, PhaseCheckpointEvent } from "./event-log.js";
export { type CheckpointOptions, resolveCheckpointsDir } from "./options.js";
export {
  type CheckpointResult,
  type CleanupAnswer,
  type CompleteCheckpointOptions,
  type CompletionResult,
  cleanupCheckpoints,
  completeCheckpoint,
  createCheckpoint,
  detectIncompleteCheckpoint,
  type ListCheckpointsOptions,
  listCheckpoints,
  loadCheckpoint,
} from "./phase-checkpoints.js";
export {
  type CheckpointState,
  checkpointStateSchema,
  type IscCriterionSnapshot,
  iscCriterionSnapshotSchema,
} from "./schema.js";
export { type CleanupResult, sessionEndCleanup, sessionStartContext } from "./session.js";
export type { InvalidCheckpointFile } from "./storage.js";
