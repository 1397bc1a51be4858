export { CheckpointManager } from "./checkpoint-manager.js";
export { type EncryptOptions, encrypt } from "./codec/encrypt.js";
export { keyFromPassphrase } from "./codec/encryption-keys.js";
export { gzip } from "./codec/gzip.js";
export type { Transform } from "./codec/transforms.js";
export type { StorageAdapter } from "./contract/adapter.js";
export type {
  Checkpoint,
  CheckpointFailure,
  CheckpointStatus,
  CheckpointSummary,
  JsonObject,
  TaskSummary,
} from "./contract/checkpoint.js";
export type { CorruptRecord } from "./contract/corrupt-record.js";
export {
  CheckpointConflictError,
  CheckpointCorruptError,
  CheckpointError,
  type CheckpointErrorCode,
  CheckpointNotFoundError,
  CheckpointStaleError,
  ClosedError,
  DecryptionFailedError,
  KeyUnavailableError,
  LeaseHeldError,
  LeaseLostError,
  PayloadTooLargeError,
  PlanOutdatedError,
  RunCancelledError,
  RunFailedError,
  RunMismatchError,
  RunPausedError,
  StateInvalidError,
  StateNotSerializableError,
  StepInterruptedError,
  StorageError,
  UnsupportedFormatError,
  UnsupportedOperationError,
} from "./contract/errors.js";
export type { RecordKind } from "./contract/log.js";
export type { Runtime } from "./contract/runtime.js";
export type { TaskEvent } from "./contract/task-events.js";
export type { DueCount } from "./contract/task-queue.js";
export type { AutoSave, AutoSaveOptions } from "./manager/auto-save.js";
export type { Lease, LeaseInfo, LeaseOptions } from "./manager/lease.js";
export type { Logger } from "./manager/logger.js";
export type { Maintenance } from "./manager/maintenance.js";
export type { Notifications } from "./manager/notifications.js";
export type { CheckpointManagerOptions } from "./manager/options.js";
export type { ListQuery, RecordsQuery, TasksQuery } from "./manager/queries.js";
export type { TaskRecord } from "./manager/records.js";
export type { RedactOptions } from "./manager/redaction.js";
export type { RekeyOptions, RekeyResult } from "./manager/rekey.js";
export type { RepairOptions, RepairResult } from "./manager/repair.js";
export type { PruneResult, Retention } from "./manager/retention.js";
export {
  type PlannedCheckpoint,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
} from "./manager/retention-plan.js";
export type { SaveOptions } from "./manager/save-options.js";
export type { SavedStateOf, StateOf, StateSchema } from "./manager/schema.js";
export type { StateChange } from "./manager/state-diff.js";
export type { DiagnosticsMessages } from "./manager/tracing.js";
export type { VerifyOptions, VerifyResult } from "./manager/verify.js";
export type {
  NextTurn,
  Run,
  RunFunction,
  RunOptions,
  StepCall,
  StepOptions,
} from "./runs/run.js";
export type { WorkOptions } from "./runs/worker.js";
