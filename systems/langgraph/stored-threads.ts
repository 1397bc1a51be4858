// `waymark/langgraph/records`: reads, copies and removes stored threads. Needs no package of LangGraph.
export { type CopyOptions, copyThread } from "./copying.js";
export { unmarked } from "./marks.js";
export {
  CHANNELS,
  type CheckpointState,
  countedWrites,
  isWhole,
  type KnownSummaries,
  listHolders,
  type MarkedWrite,
  type MarkedWritesRecord,
  type Marks,
  type RecordMetadata,
  readableValue,
  readMetadata,
  type StoredJson,
  type StoredValue,
  type StoredWrite,
  toText,
  WRITES_STAGE,
  type WritesRecord,
} from "./records.js";
export {
  checkpointsTask,
  parseThread,
  parseThreadPrefix,
  THREADS_PREFIX,
  type Thread,
  threadPrefix,
  writesTask,
} from "./task-ids.js";
export {
  countBytes,
  type FoundThread,
  type RecordKey,
  removeThread,
  type ThreadQuery,
  type ThreadsSource,
  type ThreadTask,
  threadBatches,
} from "./threads.js";
