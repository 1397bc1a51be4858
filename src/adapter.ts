// The entry `waymark/adapter`, for authors of adapters: at most 60 names. `waymark` exports errors and the types for
// users.
export { makePayload } from "./codec/payload.js";
export {
  type AdapterCapabilities,
  type AppendOptions,
  type CheckpointQuery,
  matchesTaskId,
  matchRetry,
  type StatusOptions,
  type StoredTask,
  type TaskQuery,
} from "./contract/adapter.js";
export { AdapterCalls } from "./contract/adapter-calls.js";
export {
  type CheckpointDraft,
  copyPayload,
  copyRecord,
  findDamage,
  type Payload,
  type SealedSummary,
  type StatusChange,
  type StoredCheckpoint,
  seal,
  sealDraft,
  toSummary,
  withPayload,
  withStatus,
} from "./contract/checkpoint.js";
export {
  type AppendCondition,
  nextSequence,
  requireNewest,
  requireNoEvent,
} from "./contract/conditions.js";
export { isCorrupt } from "./contract/corrupt-record.js";
export {
  readHeader,
  requireIntact,
  selectHeaders,
  selectTasks,
  toHeader,
} from "./contract/header-index.js";
export { ownHolder } from "./contract/holder.js";
export {
  checkLease,
  judgeLease,
  type LeaseRecord,
  type LeaseStore,
  leaseStore,
  type TimedLease,
} from "./contract/leases.js";
export {
  copyRecordDraft,
  findRecordDamage,
  type LogItem,
  type LogOptions,
  type LogRecord,
  matchEventRetry,
  matchesRecords,
  type RecordDraft,
  type RecordHeader,
  type RecordQuery,
  type RecordSelection,
  sealRecord,
  sealRecordDraft,
  type TaskLog,
  toRecordHeader,
} from "./contract/log.js";
export { monotonicMs } from "./contract/runtime.js";
export type { TaskQueue } from "./contract/task-queue.js";
export { findDueTime, isTransient, replacedBy } from "./contract/transient.js";
