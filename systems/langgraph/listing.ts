import {
  type CheckpointListOptions,
  type CheckpointTuple,
  getCheckpointId,
  type SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import type { CheckpointManager } from "../../src/checkpoint-manager.js";
import type { CheckpointSummary } from "../../src/contract/checkpoint.js";
import type { TaskLog } from "../../src/contract/log.js";
import { type Config, contains } from "./config.js";
import { isWhole, type KnownSummaries, readMetadata } from "./records.js";
import { loadedValue, serializedFrom } from "./stored-values.js";
import { checkpointsTask, type Thread } from "./task-ids.js";
import { type SavedCheckpoint, skippingDamage, type ThreadReader } from "./thread-reader.js";
import { WritesIndex } from "./writes.js";

interface ListSources {
  readonly log: TaskLog;
  readonly reader: ThreadReader;
  readonly manager: CheckpointManager;
  readonly serde: SerializerProtocol;
}

/** The checkpoints that the config and the options ask for; higher ids first. */
export async function* listed(
  { log, reader, manager, serde }: ListSources,
  config: Config,
  options: CheckpointListOptions,
): AsyncGenerator<CheckpointTuple, void, void> {
  const { limit = Number.POSITIVE_INFINITY, before, filter = {} } = options;
  const [id, beforeId] = [getCheckpointId(config), before && getCheckpointId(before)];
  const indexes = new Map<Thread, WritesIndex>();
  /** The summaries of threads that use a DeltaChannel. */
  const summaries = new Map<Thread, KnownSummaries>();
  let last: Thread | undefined;
  // The records that the previous checkpoint (of thread `last`) was made of. The next checkpoint usually needs most of
  // them.
  const near = new Map<string, SavedCheckpoint>();
  let wanted = limit;
  if (wanted <= 0) return;
  for await (const { thread, summary } of highestFirst(manager, await reader.threads(config))) {
    if (summary.id < id) return;
    if (id !== "" && summary.id !== id) continue;
    if (beforeId && summary.id >= beforeId) continue;
    const taskId = checkpointsTask(thread);
    if (readMetadata(summary).ancestors !== undefined) {
      const all = summaries.get(thread) ?? new Map((await manager.list(taskId)).map((one) => [one.id, one]));
      summaries.set(thread, all);
      // Pruning kept this checkpoint only because others need it.
      if (!isWhole(summary, all)) continue;
    }
    if (thread !== last) near.clear();
    last = thread;
    // A checkpoint that lost a value is skipped. Damage has been reported.
    const saved = near.get(summary.id) ?? (await skippingDamage(reader.find(taskId, summary.id)));
    if (saved === undefined) continue;
    const metadata = await loadedValue(serde, serializedFrom(saved.state.metadata));
    if (!contains(metadata, filter)) continue;
    const index = indexes.get(thread) ?? new WritesIndex(log, taskId);
    indexes.set(thread, index);
    const tuple = await skippingDamage(reader.tuple(thread, saved, undefined, near, index));
    if (tuple === undefined) continue;
    // A replay lists a subgraph's checkpoints to find the one to continue from. Other runs may have continued from that
    // one since, so the replay must not count as a run that has read it.
    if (thread.namespace !== "") reader.known.delete(taskId, summary.id);
    yield tuple;
    wanted -= 1;
    if (wanted <= 0) return;
  }
}

/** A thread while it is listed. */
interface ListedThread {
  readonly thread: Thread;
  /** The next checkpoint to list. */
  summary: CheckpointSummary;
}

/** The checkpoints of all these threads, higher ids first. Reads little more than the caller takes. */
async function* highestFirst(
  manager: CheckpointManager,
  threads: readonly Thread[],
): AsyncGenerator<Readonly<ListedThread>, void, void> {
  const open: (ListedThread & { readonly rest: AsyncGenerator<CheckpointSummary, void, void> })[] = [];
  for (const thread of threads) {
    const rest = listSummaries(manager, checkpointsTask(thread));
    const first = await rest.next();
    if (!first.done) open.push({ thread, rest, summary: first.value });
  }
  while (open.length > 0) {
    const highest = open.reduce((a, b) => (b.summary.id > a.summary.id ? b : a));
    yield highest;
    const next = await highest.rest.next();
    if (next.done) open.splice(open.indexOf(highest), 1);
    else highest.summary = next.value;
  }
}

/** A task's checkpoints, higher ids first; read in pages by sequence. */
async function* listSummaries(
  manager: CheckpointManager,
  taskId: string,
): AsyncGenerator<CheckpointSummary, void, void> {
  const waiting: CheckpointSummary[] = [];
  let beforeSequence: number | undefined;
  for (let limit = 16; ; limit *= 2) {
    const page = await manager.list(taskId, { limit, beforeSequence });
    for (const summary of page) {
      waiting.push(summary);
      // If this checkpoint's id isn't the highest (a clock was set back), older checkpoints may have higher ids.
      if (readMetadata(summary).highest !== undefined) continue;
      waiting.sort((a, b) => (a.id < b.id ? 1 : -1));
      yield* waiting.splice(0, waiting.indexOf(summary) + 1);
    }
    if (page.length < limit) break;
    beforeSequence = page.at(-1)?.sequence;
  }
  yield* waiting.sort((a, b) => (a.id < b.id ? 1 : -1));
}
