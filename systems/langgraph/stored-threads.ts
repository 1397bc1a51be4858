// `waymark/langgraph/records`: reads, copies and removes stored threads. Needs no package of LangGraph.
export { type CopyOptions, copyThread } from "./copying.js";
export { unmarked } from "./marks.js";
export {
  CHANNELS,
  type CheckpointState,
  countedWrites,
  findWritesStart,
  isWhole,
  type KnownSummaries,
  listHolders,
  type MarkedWrite,
  type MarkedWritesRecord,
  type Marks,
  nextNodes,
  type RecordMetadata,
  readableValue,
  readMetadata,
  type StoredJson,
  type StoredValue,
  type StoredWrite,
  toText,
  type WritesRecord,
} from "./records.js";
export {
  checkpointsTask,
  parseThread,
  parseThreadPrefix,
  THREADS_PREFIX,
  type Thread,
  threadPrefix,
} from "./task-ids.js";
export { deriveStatus, questionsIn } from "./thread-status.js";
export {
  countBytes,
  type FoundThread,
  removeThread,
  type ThreadQuery,
  type ThreadsSource,
  type ThreadTask,
  threadBatches,
} from "./threads.js";
export { readWrites } from "./writes.js";
