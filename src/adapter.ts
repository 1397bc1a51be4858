// `waymark/adapter`: for authors of adapters, at most 60 names. Errors and what users see come from `waymark`.
export { makePayload, openPayload } from "./codec/payload.js";
export {
  type AdapterCapabilities,
  type AppendOptions,
  type CheckpointQuery,
  matchesQuery,
  matchesTaskId,
  matchRetry,
  nextSequence,
  type StorageAdapter,
  type StoredTask,
  type TaskPosition,
  type TaskQuery,
} from "./contract/adapter.js";
export { AdapterCalls } from "./contract/adapter-calls.js";
export {
  type CheckpointDraft,
  type CheckpointSummary,
  copyPayload,
  copyRecord,
  findDamage,
  type JsonValue,
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
  type ExpectedTask,
  requireNewest,
  requireUnchangedTasks,
} from "./contract/conditions.js";
export { type CorruptRecord, isCorrupt } from "./contract/corrupt-record.js";
export type { StorageFinding, StorageMaintenance } from "./contract/findings.js";
export {
  type HeaderPlace,
  type IndexedTask,
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
  monotonicMs,
  nextLease,
  type TimedLease,
} from "./contract/leases.js";
export type { DueCount, DueQuery, TaskQueue } from "./contract/task-queue.js";
export { findDueTime, isTransient, replacedBy } from "./contract/transient.js";
