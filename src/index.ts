export { type EncryptOptions, encrypt } from "./codec/encrypt.js";
export { type EncryptionKey, keyFromPassphrase, type PassphraseOptions } from "./codec/encryption-keys.js";
export { type GzipOptions, gzip } from "./codec/gzip.js";
export type { RedactOptions } from "./codec/redaction.js";
export type { PayloadOwner, Transform, TransformContext } from "./codec/transforms.js";
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
} from "./contract/adapter.js";
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
} from "./contract/checkpoint.js";
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
} from "./contract/errors.js";
export type { AutoSave, AutoSaveOptions } from "./manager/auto-save.js";
export type { AutoSaveFailure, CheckpointEvents, CheckpointListener, RemovedCheckpoints } from "./manager/events.js";
export type { Logger } from "./manager/logger.js";
export { CheckpointManager } from "./manager/manager.js";
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
} from "./manager/options.js";
export type { PruneResult } from "./manager/pruner.js";
export type { RekeyOptions, RekeyProgress, RekeyRefusal, RekeyResult } from "./manager/rekeyer.js";
export type { RepairedTask, RepairOptions, RepairResult } from "./manager/repair.js";
export {
  checkRetentionPolicy,
  type PlannedCheckpoint,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
  whyOutdated,
} from "./manager/retention.js";
export type { SavedStateOf, StateOf, StateSchema } from "./manager/schema.js";
export type { VerifyCounts, VerifyOptions, VerifyResult } from "./manager/verify.js";
