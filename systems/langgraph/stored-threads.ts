// `waymark/langgraph/records`: reads, copies and removes stored threads. Needs no package of LangGraph.
export { type CopyOptions, copyThread } from "./copying.js";
export { unmarked } from "./marks.js";
export {
  CHANNELS,
  type CheckpointState,
  countedWrites,
  holdersOf,
  isWhole,
  type KnownSummaries,
  type MarkedWrite,
  type MarkedWritesRecord,
  type Marks,
  metadataOf,
  type RecordMetadata,
  readableValue,
  type StoredJson,
  type StoredValue,
  type StoredWrite,
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
  type RecordKey,
  removeThread,
  type ThreadQuery,
  type ThreadsSource,
  type ThreadTask,
  threadBatches,
} from "./threads.js";
