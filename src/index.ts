export {
  type AdapterCapabilities,
  type AppendCondition,
  type CheckedRecord,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  checkKeys,
  type DatabaseFinding,
  inRange,
  isCorrupt,
  type LeftoverFinding,
  matchesQuery,
  type NumberingFinding,
  nextSequence,
  type RecordFinding,
  type RefusedFinding,
  type RepairStep,
  type StorageAdapter,
  type StorageFinding,
  type StorageRepair,
  type StorageVerification,
  type StorageWarning,
  type StrayFinding,
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
  damageIn,
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
  withPayload,
  withStatus,
} from "./checkpoint.js";
export { type EncryptOptions, encrypt } from "./codec/encrypt.js";
export { type EncryptionKey, keyFromPassphrase, type PassphraseOptions } from "./codec/encryption-keys.js";
export { type GzipOptions, gzip } from "./codec/gzip.js";
export type { RedactOptions } from "./codec/redaction.js";
export type { PayloadOwner, Transform, TransformContext } from "./codec/transforms.js";
export {
  CheckpointConflictError,
  CheckpointCorruptError,
  CheckpointError,
  type CheckpointErrorCode,
  type CheckpointErrorOptions,
  CheckpointNotFoundError,
  CheckpointStaleError,
  ClosedError,
  DecryptionFailedError,
  KeyUnavailableError,
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
export type { RekeyOptions, RekeyProgress, RekeyRefusal, RekeyResult } from "./rekeyer.js";
export type { RepairedTask, RepairOptions, RepairResult } from "./repair.js";
export {
  checkRetentionPolicy,
  type PlannedCheckpoint,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
  whyOutdated,
} from "./retention.js";
export type { SavedStateOf, StateOf, StateSchema } from "./schema.js";
export type { VerifyCounts, VerifyOptions, VerifyResult } from "./verify.js";
