import { Decoder } from "../../src/codec/decoder.js";
import type { CheckpointStatus, CheckpointSummary } from "../../src/contract/checkpoint.js";

/**
 * A value that is JSON, JSON with Waymark's tags for what JSON doesn't carry, or bytes. In both JSONs, messages are as
 * LangGraph's serializer writes them.
 */
export type StoredValue = StoredJson | { readonly type: string; readonly bytes: Uint8Array };
export type StoredJson = { readonly json: unknown } | { readonly tagged: unknown };

/** The text of a value's JSON; `undefined` if it is bytes. */
export function textOf(stored: StoredValue): string | undefined {
  return "bytes" in stored ? undefined : JSON.stringify("tagged" in stored ? stored.tagged : stored.json);
}

/** A value for people and tools. Messages, and other objects of LangChain's, are its JSON. */
export function readableValue(stored: StoredValue): unknown {
  if ("bytes" in stored) return stored.bytes;
  if ("json" in stored) return stored.json;
  const readable = new Decoder(undefined, { key: "lc", read: (json, reading) => reading.members(json) });
  return readable.value(structuredClone(stored.tagged));
}

/**
 * The state of a record of a thread's checkpoint. The checkpoint's id, and the id of its parent, are the record's own.
 *
 * @typeParam Rest - LangGraph's checkpoint without its id and its values.
 */
export interface CheckpointState<Rest = unknown> {
  readonly checkpoint: Rest;
  readonly metadata: StoredValue;
  /** The values of channels that have changed. The record's metadata says which checkpoints have the others. */
  readonly values: Readonly<Record<string, StoredValue>>;
}

/** The metadata of a record, which lists show without its state. */
export interface RecordMetadata {
  /** The id of the checkpoint that has the value, by channel. */
  readonly holders?: Readonly<Record<string, string>>;
  /** The highest id of the thread's checkpoints, if that isn't this one's. */
  readonly highest?: string;
  /** How many of its ancestors a DeltaChannel needs. */
  readonly ancestors?: number;
  /** The namespace of the call, in a record of the stage `call`. */
  readonly call?: string;
  /** LangGraph's id of the task that made the writes, in a record of writes. Older records lack it. */
  readonly by?: string;
  /** All the writes are answers to interrupts. In a record of writes only. */
  readonly isAnswer?: true;
}

/** The metadata of a record of ours. */
export function metadataOf({ metadata = {} }: Pick<CheckpointSummary, "metadata">): RecordMetadata {
  return metadata as RecordMetadata;
}

/** Which checkpoint has a channel's value, by channel. */
export function holdersOf(
  record: Pick<CheckpointSummary, "id" | "metadata">,
  { values }: Pick<CheckpointState, "values">,
): Map<string, string> {
  const own = Object.keys(values).map((channel) => [channel, record.id] as const);
  return new Map([...Object.entries(metadataOf(record).holders ?? {}), ...own]);
}

/** A thread's checkpoints by id, with the fields that tell which of them are whole. */
export type KnownSummaries = ReadonlyMap<string, Pick<CheckpointSummary, "parentId" | "metadata">>;

/**
 * Whether a checkpoint reads as it did when it was saved. One that pruning has left for another's sake may have lost
 * checkpoints that it needs itself.
 */
export function isWhole(checkpoint: Pick<CheckpointSummary, "parentId" | "metadata">, all: KnownSummaries): boolean {
  return neededBy(checkpoint, all).every((id) => all.has(id));
}

/** The ids of the checkpoints that have its values, and of the ancestors that its DeltaChannels need, with theirs. */
export function neededBy(checkpoint: Pick<CheckpointSummary, "parentId" | "metadata">, all: KnownSummaries): string[] {
  const { holders = {}, ancestors = 0 } = metadataOf(checkpoint);
  const needed = Object.values(holders);
  let { parentId } = checkpoint;
  for (let left = ancestors; left > 0 && parentId !== undefined; left--) {
    const ancestor = all.get(parentId);
    needed.push(parentId, ...Object.values(metadataOf(ancestor ?? {}).holders ?? {}));
    parentId = ancestor?.parentId;
  }
  return needed;
}

/** The record that one `putWrites` stores: a checkpoint of the task of the LangGraph checkpoint's writes. */
export interface WritesRecord {
  readonly taskId: string;
  readonly taskPath: string;
  readonly writes: readonly StoredWrite[];
}

/** A value that a node has written to a channel. */
export interface StoredWrite {
  readonly channel: string;
  /** Negative for LangGraph's own channels, which have one write per task: the last. */
  readonly index: number;
  readonly value: StoredValue;
}

/** A {@link WritesRecord} as it is stored; `unmarked` makes it whole. */
export interface MarkedWritesRecord extends Omit<WritesRecord, "writes"> {
  readonly writes: readonly (StoredWrite | MarkedWrite)[];
}

/** A write of what its checkpoint has, too, as a Send of the whole state. No question, answer or error is one. */
export interface MarkedWrite extends Omit<StoredWrite, "value"> {
  readonly marked: StoredJson;
  readonly marks: Marks;
}

/** The channels of the checkpoint whose values marks stand for, by mark, in the order in which they were set. */
export type Marks = Readonly<Record<string, string>>;

/** The stage of a record of writes. */
export const WRITES_STAGE = "writes";
/** The stage of a record, beside a checkpoint's writes, that names a subgraph's call which was made from the checkpoint. */
export const CALL_STAGE = "call";

/** LangGraph's own channels. */
export const CHANNELS = {
  error: "__error__",
  interrupt: "__interrupt__",
  resume: "__resume__",
  tasks: "__pregel_tasks",
} as const;

/**
 * Whether a thread is to go on from a checkpoint, as far as the values of a StateGraph tell. A channel that calls a node is
 * there only if the node is to run next; one that waits for several nodes then has the names of all.
 */
export function statusOfValues(values: Readonly<Record<string, unknown>>): CheckpointStatus {
  const calls = Object.entries(values).some(([channel, value]) => {
    if (channel === CHANNELS.tasks) return Array.isArray(value) && value.length > 0;
    const [, names] = /^join:(.*):/.exec(channel) ?? [];
    if (names !== undefined) return namesSeen(value).length === names.split("+").length;
    // That of a node that is deferred is there all the time.
    return value !== undefined && (channel === "__start__" || channel.startsWith("branch:to:"));
  });
  return calls ? "running" : "completed";
}

/** The names that a channel has seen. That of a deferred node also has whether all others are done. */
function namesSeen(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) return [];
  return Array.isArray(value[0]) ? value[0] : value;
}

/** The status that writes to these channels give their thread. */
export function statusOfWrites(channels: readonly string[]): CheckpointStatus {
  if (channels.includes(CHANNELS.error)) return "failed";
  return channels.includes(CHANNELS.interrupt) ? "paused" : "running";
}

/** The fields of a record of these writes that lists show. */
export function summaryOfWrites(taskId: string, channels: readonly string[]) {
  const isAnswer = channels.every((channel) => channel === CHANNELS.resume);
  return {
    stage: WRITES_STAGE,
    status: statusOfWrites(channels),
    metadata: { by: taskId, ...(isAnswer ? { isAnswer } : undefined) },
  } as const;
}

/**
 * The writes that count.
 *
 * @param records - In the order in which they were stored. A task's first write of an index counts; of LangGraph's own
 *   channels, the last.
 */
export function countedWrites(
  records: readonly WritesRecord[],
): { readonly record: WritesRecord; readonly write: StoredWrite }[] {
  const byKey = new Map<string, { readonly record: WritesRecord; readonly write: StoredWrite }>();
  for (const record of records) {
    for (const write of record.writes) {
      const key = JSON.stringify([record.taskId, write.index]);
      if (write.index < 0 || !byKey.has(key)) byKey.set(key, { record, write });
    }
  }
  return [...byKey.values()];
}
