// `waymark/adapter`: for authors of adapters. Users of a manager only need `waymark`.
export {
  type MadePayload,
  type MakePayloadOptions,
  makePayload,
  type OpenedPayload,
  type OpenPayloadOptions,
  openPayload,
} from "./codec/payload.js";
export type { PayloadOwner, Transform, TransformContext } from "./codec/transforms.js";
export {
  type AdapterCapabilities,
  type AppendCondition,
  type AppendOptions,
  type CheckpointQuery,
  type CorruptRecord,
  compareTasks,
  type ExpectedTask,
  isCorrupt,
  isInRange,
  matchesQuery,
  matchesTaskId,
  matchRetry,
  nextSequence,
  type OrderedTask,
  requireNewest,
  requireUnchangedTasks,
  type StorageAdapter,
  type TaskPosition,
  type TaskQuery,
} from "./contract/adapter.js";
export { AdapterCalls, type AdapterCallsOptions } from "./contract/adapter-calls.js";
export { checkKeys, keysOf } from "./contract/arguments.js";
export {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointFailure,
  type CheckpointStatus,
  type CheckpointSummary,
  compareTaskIds,
  copyPayload,
  copyRecord,
  findDamage,
  type JsonObject,
  type JsonValue,
  type Payload,
  type SealedSummary,
  type StatusChange,
  type StoredCheckpoint,
  seal,
  sealDraft,
  sealedParts,
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
  ClosedError,
  LeaseHeldError,
  LeaseLostError,
  StorageError,
  UnsupportedFormatError,
  UnsupportedOperationError,
} from "./contract/errors.js";
export type {
  CheckedRecord,
  DamagedFinding,
  LeftoverFinding,
  MergedFinding,
  RefusedFinding,
  RepairStep,
  StorageFinding,
  StorageMaintenance,
  StorageRepair,
  StorageVerification,
} from "./contract/findings.js";
export {
  type HeaderPlace,
  headerOf,
  type IndexedTask,
  readHeader,
  requireIntact,
  selectHeaders,
  selectTasks,
} from "./contract/header-index.js";
export { type HolderProcess, ownHolder, processOf } from "./contract/holder.js";
export {
  type ClaimOptions,
  checkLease,
  type HeldLease,
  type HeldTask,
  type LapsedLease,
  type LeaseClaim,
  type LeaseRecord,
  type LeaseRecords,
  type LeaseStore,
  leaseStore,
  monotonicMs,
  NO_LEASE,
  nextLease,
  parseLease,
  standingOf,
  type TimedLease,
} from "./contract/leases.js";
export { parseSummary, type StoredFields } from "./contract/parse-summary.js";
export {
  dueAtOf,
  isCancelled,
  isInner,
  isOfRun,
  isPassing,
  NEVER,
  passingMetadata,
  type RunWaits,
  replacedBy,
  runMetadata,
  waitsOf,
} from "./contract/passing.js";
export { keptErrorsText, type RunRecord, type StepRecord, stepText } from "./contract/run-record.js";
export { isSignals, ownerOf, senderOf, signalsOf } from "./contract/signals.js";
export type { ClaimedTask, DueCount, DueQuery, TaskQueue } from "./contract/task-queue.js";
