// `waymark/adapter`: what authors of an adapter need. Users of a manager only need `waymark`.
export {
  type MadePayload,
  type MakePayloadOptions,
  makePayload,
  type OpenedPayload,
  type OpenPayloadOptions,
  openPayload,
} from "../codec/payload.js";
export type { PayloadOwner, Transform, TransformContext } from "../codec/transforms.js";
export {
  type AdapterCapabilities,
  type AppendCondition,
  type AppendOptions,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  checkExpectedTasks,
  checkKeys,
  compareTasks,
  type ExpectedTask,
  inRange,
  isCorrupt,
  matchesQuery,
  matchesTaskId,
  nextSequence,
  type OrderedTask,
  type StorageAdapter,
  sequenceOfSame,
  type TaskPosition,
  type TaskQuery,
} from "./adapter.js";
export { AdapterCalls, type AdapterCallsOptions } from "./adapter-calls.js";
export {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointFailure,
  type CheckpointStatus,
  type CheckpointSummary,
  compareTaskIds,
  copyOf,
  copyOfPayload,
  damageIn,
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
} from "./checkpoint.js";
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
} from "./errors.js";
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
} from "./findings.js";
export {
  type HeaderPlace,
  headerOf,
  type IndexedTask,
  readHeader,
  requireIntact,
  selectHeaders,
  selectTasks,
} from "./header-index.js";
export { type HolderProcess, ownHolder, processOf } from "./holder.js";
export {
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
  type TimedLease,
} from "./leases.js";
export { parseSummary, type StoredFields } from "./parse-summary.js";
export { isOfRun, isPassing, passingMetadata, replacedBy } from "./passing.js";
export { type RunRecord, type StepRecord, stepText } from "./run-record.js";
