// `waymark/langgraph/records`: what stands of LangGraph's threads in a storage. It needs no package of LangGraph, so that a
// program can look at threads, copy and remove them without one.
export { type CopyPlace, copyThread } from "./copying.js";
export { unmarked } from "./marks.js";
export {
  CALL_STAGE,
  CHANNELS,
  type CheckpointState,
  countedWrites,
  holdersOf,
  isWhole,
  type KnownSummaries,
  type MarkedWritesRecord,
  metadataOf,
  neededBy,
  type RecordMetadata,
  readableValue,
  type StoredValue,
  type StoredWrite,
  statusOfValues,
  statusOfWrites,
  summaryOfWrites,
  textOf,
  WRITES_STAGE,
  type WritesRecord,
} from "./records.js";
export {
  checkpointsTask,
  THREADS_PREFIX,
  type Thread,
  threadOf,
  threadPrefix,
  threadPrefixOf,
  writesTask,
} from "./task-ids.js";
export {
  bytesOf,
  type FoundThread,
  type RecordPlace,
  removeThread,
  type ThreadQuery,
  type ThreadsPlace,
  type ThreadTask,
  threadBatches,
} from "./threads.js";
