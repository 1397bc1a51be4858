// `waymark/langgraph/records`: reads, copies and removes stored threads. It needs no package of LangGraph.
export { copyThread } from "./copying.js";
export { unmarked } from "./marks.js";
export {
  CHANNELS,
  type CheckpointState,
  countedWrites,
  holdersOf,
  isWhole,
  type KnownSummaries,
  type MarkedWritesRecord,
  metadataOf,
  readableValue,
  type StoredValue,
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
  removeThread,
  type ThreadQuery,
  type ThreadsPlace,
  threadBatches,
} from "./threads.js";
