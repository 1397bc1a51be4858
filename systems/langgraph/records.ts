import { Decoder } from "../../src/codec/decoder.js";
import type { CheckpointStatus, CheckpointSummary } from "../../src/contract/checkpoint.js";

/**
 * A value as JSON, as JSON with Waymark's tags (for values that JSON would lose), or as bytes. In both kinds of JSON,
 * messages have the form of LangGraph's serializer.
 */
export type StoredValue = StoredJson | { readonly type: string; readonly bytes: Uint8Array };
export type StoredJson = { readonly json: unknown } | { readonly tagged: unknown };

/** A value's JSON; `undefined` if it is bytes. */
export function toText(stored: StoredValue): string | undefined {
  return "bytes" in stored ? undefined : JSON.stringify("tagged" in stored ? stored.tagged : stored.json);
}

/** A value for people and tools. Messages and other objects of LangChain appear as their JSON. */
export function readableValue(stored: StoredValue): unknown {
  if ("bytes" in stored) return stored.bytes;
  if ("json" in stored) return stored.json;
  const readable = new Decoder(undefined, { key: "lc", read: (json, reading) => reading.members(json) });
  return readable.value(structuredClone(stored.tagged));
}

/**
 * The state in a checkpoint's record. The record's own id and parentId are the checkpoint's.
 *
 * @typeParam Rest - LangGraph's checkpoint without its id and its values.
 */
export interface CheckpointState<Rest = unknown> {
  readonly checkpoint: Rest;
  readonly metadata: StoredValue;
  /** The values of channels that changed. The record's metadata names the checkpoints that store the others. */
  readonly values: Readonly<Record<string, StoredValue>>;
}

/** A record's metadata, which lists show without its state. */
export interface RecordMetadata {
  /** By channel: the id of the checkpoint that stores its value. */
  readonly holders?: Readonly<Record<string, string>>;
  /** The thread's highest checkpoint id when this record was stored; absent if that is the record's own id. */
  readonly highest?: string;
  /** How many ancestors the checkpoint's DeltaChannels need. */
  readonly ancestors?: number;
  /** In the history of a subgraph's call: the id of the checkpoint that it was called from. */
  readonly caller?: string;
  /** The checkpoint's writes come after this sequence. Absent if all of them come after the checkpoint itself. */
  readonly writesAfter?: number;
}

/** The metadata of a record that this saver stored. */
export function readMetadata({ metadata = {} }: Pick<CheckpointSummary, "metadata">): RecordMetadata {
  return metadata as RecordMetadata;
}

/** The sequence after which the writes on top of a checkpoint come. */
export function findWritesStart(checkpoint: Pick<CheckpointSummary, "sequence" | "metadata">): number {
  return readMetadata(checkpoint).writesAfter ?? checkpoint.sequence;
}

/** By channel: the id of the checkpoint that stores its value. */
export function listHolders(
  record: Pick<CheckpointSummary, "id" | "metadata">,
  { values }: Pick<CheckpointState, "values">,
): Map<string, string> {
  const own = Object.keys(values).map((channel) => [channel, record.id] as const);
  return new Map([...Object.entries(readMetadata(record).holders ?? {}), ...own]);
}

/** A thread's checkpoints by id, with the fields that `isWhole` needs. */
export type KnownSummaries = ReadonlyMap<string, Pick<CheckpointSummary, "parentId" | "metadata">>;

/**
 * Whether a checkpoint still reads as it was saved. If pruning kept it only because others need it, checkpoints that it
 * needs may be gone.
 */
export function isWhole(checkpoint: Pick<CheckpointSummary, "parentId" | "metadata">, all: KnownSummaries): boolean {
  return neededBy(checkpoint, all).every((id) => all.has(id));
}

/**
 * Returns the ids that a checkpoint depends on: the checkpoints that store its channel values, the ancestors that its
 * DeltaChannels need, and the checkpoints that store those ancestors' values.
 */
export function neededBy(checkpoint: Pick<CheckpointSummary, "parentId" | "metadata">, all: KnownSummaries): string[] {
  const { holders = {}, ancestors = 0 } = readMetadata(checkpoint);
  const needed = Object.values(holders);
  let { parentId } = checkpoint;
  for (let left = ancestors; left > 0 && parentId !== undefined; left--) {
    const ancestor = all.get(parentId);
    needed.push(parentId, ...Object.values(readMetadata(ancestor ?? {}).holders ?? {}));
    parentId = ancestor?.parentId;
  }
  return needed;
}

/** The value of the record that one `putWrites` stores. The record's name is the id of the checkpoint. */
export interface WritesRecord {
  readonly taskId: string;
  readonly taskPath: string;
  readonly stateVersion: number;
  readonly writes: readonly StoredWrite[];
}

/** A value that a node has written to a channel. */
export interface StoredWrite {
  readonly channel: string;
  /** Negative for LangGraph's own channels, where only a task's last write counts. */
  readonly index: number;
  readonly value: StoredValue;
}

/** A stored {@link WritesRecord}; `unmarked` restores it. */
export interface MarkedWritesRecord extends Omit<WritesRecord, "writes"> {
  readonly writes: readonly (StoredWrite | MarkedWrite)[];
}

/**
 * A write that repeats values of its checkpoint, such as a Send of the whole state. Questions, answers and errors are
 * never marked.
 */
export interface MarkedWrite extends Omit<StoredWrite, "value"> {
  readonly marked: StoredJson;
  readonly marks: Marks;
}

/** By mark: the channel whose value the mark stands for. In the order in which the marks were set. */
export type Marks = Readonly<Record<string, string>>;

/** LangGraph's own channels. */
export const CHANNELS = {
  error: "__error__",
  interrupt: "__interrupt__",
  resume: "__resume__",
  tasks: "__pregel_tasks",
} as const;

/** A checkpoint's status by the channel values of a StateGraph: `running` if a node is to run next. */
export function statusOfValues(values: Readonly<Record<string, unknown>>): CheckpointStatus {
  return nextNodes(values).length > 0 ? "running" : "completed";
}

/**
 * The nodes that a StateGraph runs next, by its channel values. Only then does the channel that calls the node have a
 * value. If a channel waits for several nodes, it then has all their names.
 */
export function nextNodes(values: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(values).flatMap(([channel, value]) => {
    if (channel === CHANNELS.tasks) return Array.isArray(value) ? value.map(nodeOfSend) : [];
    const [, names, waiting = ""] = /^join:(.*):(.*)$/.exec(channel) ?? [];
    if (names !== undefined) return namesSeen(value).length === names.split("+").length ? [waiting] : [];
    const node = channel === "__start__" ? channel : /^branch:to:(.*)$/.exec(channel)?.[1];
    // A deferred node's channel is listed even if it has no value.
    return node === undefined || value === undefined ? [] : [node];
  });
}

/** The node that a Send calls. */
function nodeOfSend(send: unknown): string {
  return typeof send === "object" && send !== null && "node" in send ? String(send.node) : "?";
}

/**
 * The names of the nodes that a waiting channel has seen. A deferred node's channel is a pair: the names, and whether
 * all other nodes are done.
 */
function namesSeen(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) return [];
  return Array.isArray(value[0]) ? value[0] : value;
}

/**
 * The writes that count. For each index, a task's first write counts; on LangGraph's own channels, its last.
 *
 * @param records - In the order in which they were stored.
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
