export {
  type AdapterCapabilities,
  type AppendCondition,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  checkKeys,
  inRange,
  isCorrupt,
  matchesQuery,
  nextSequence,
  type StorageAdapter,
  type StorageWarning,
  sequenceOfSame,
  type TaskPosition,
  type TaskQuery,
} from "./adapter.js";
export type { AutoSave, AutoSaveOptions } from "./auto-save.js";
export {
  CHECKPOINT_STATUSES,
  type Checkpoint,
  type CheckpointDraft,
  type CheckpointFailure,
  type CheckpointStatus,
  type CheckpointSummary,
  compareTaskIds,
  type JsonObject,
  type JsonValue,
  nestsTooDeep,
  type Payload,
  type SealedSummary,
  type StatusChange,
  type StoredCheckpoint,
  seal,
  sealDraft,
  summaryOf,
  type TaskSummary,
  withStatus,
} from "./checkpoint.js";
export { type GzipOptions, gzip } from "./codec/gzip.js";
export type { Transform, TransformContext } from "./codec/transforms.js";
export {
  CheckpointConflictError,
  CheckpointCorruptError,
  CheckpointError,
  type CheckpointErrorCode,
  type CheckpointErrorOptions,
  CheckpointNotFoundError,
  CheckpointStaleError,
  ClosedError,
  PayloadTooLargeError,
  PlanOutdatedError,
  StateInvalidError,
  type StateIssue,
  StateNotSerializableError,
  StorageError,
  UnsupportedFormatError,
  UnsupportedOperationError,
} from "./errors.js";
export type { AutoSaveFailure, CheckpointEvents, CheckpointListener, RemovedCheckpoints } from "./events.js";
export type { Logger } from "./logger.js";
export { CheckpointManager } from "./manager.js";
export type {
  CheckpointManagerOptions,
  CompleteOptions,
  IncompleteQuery,
  LatestFilter,
  ListQuery,
  Migration,
  NewCheckpoint,
  SaveOptions,
  TasksQuery,
} from "./options.js";
export type { PruneResult } from "./pruner.js";
export {
  checkRetentionPolicy,
  type PlannedCheckpoint,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
  whyOutdated,
} from "./retention.js";
export type { SavedStateOf, StateOf, StateSchema } from "./schema.js";
