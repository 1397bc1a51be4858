import {
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  maxChannelVersion,
  type SerializerProtocol,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import type { CheckpointManager } from "../../src/checkpoint-manager.js";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import type { CheckpointSummary, Checkpoint as Saved } from "../../src/contract/checkpoint.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError, CheckpointNotFoundError } from "../../src/contract/errors.js";
import { type Config, makeConfig, namesIn } from "./config.js";
import type { DamageLog } from "./damage-log.js";
import { type KnownCheckpoint, KnownCheckpoints, type ThreadEnd, type WholeCheckpoint } from "./known-checkpoints.js";
import { unmarked } from "./marks.js";
import type { ChannelMigrations } from "./migrations.js";
import { pendingWrites } from "./pending-writes.js";
import {
  type CheckpointState,
  findWritesStart,
  listHolders,
  type MarkedWritesRecord,
  readMetadata,
} from "./records.js";
import { loadedValue, mapEntries, type SerializedValue, serializedFrom } from "./stored-values.js";
import { checkpointsPrefix, checkpointsTask, parseThread, THREADS_PREFIX, type Thread } from "./task-ids.js";
import { readWrites, type WritesIndex } from "./writes.js";

/** LangGraph's checkpoint without the fields that a record stores elsewhere. */
type RestOfCheckpoint = Omit<Checkpoint, "id" | "channel_values">;
export type SavedCheckpoint = Saved<CheckpointState<RestOfCheckpoint>>;

export interface ThreadReaderOptions {
  readonly storage: StorageAdapter;
  /** A manager over `storage`. */
  readonly manager: CheckpointManager;
  readonly serde: SerializerProtocol;
  readonly migrations: ChannelMigrations;
  /** The manager must log to this log's `logger`. */
  readonly damageLog: DamageLog;
}

/** Makes LangGraph's checkpoints from stored records, and remembers those that runs may continue from. */
export class ThreadReader {
  readonly known = new KnownCheckpoints();
  readonly #storage: StorageAdapter;
  readonly #manager: CheckpointManager;
  readonly #serde: SerializerProtocol;
  readonly #migrations: ChannelMigrations;
  readonly #damageLog: DamageLog;

  constructor({ storage, manager, serde, migrations, damageLog }: ThreadReaderOptions) {
    this.#storage = storage;
    this.#manager = manager;
    this.#serde = serde;
    this.#migrations = migrations;
    this.#damageLog = damageLog;
  }

  /** The threads and namespaces that the config names, ordered by task id. */
  async threads(config: Config): Promise<readonly Thread[]> {
    const { threadId, namespace } = namesIn(config);
    if (threadId !== undefined && namespace !== undefined) return [{ threadId, namespace }];
    const prefix = threadId === undefined ? THREADS_PREFIX : checkpointsPrefix(threadId);
    const tasks = await this.#manager.tasks({ prefix });
    const threads = tasks.flatMap(({ taskId, newest }) => parseThread(taskId, newest.metadata) ?? []);
    return namespace === undefined ? threads : threads.filter((thread) => thread.namespace === namespace);
  }

  /** The newest checkpoint whose values can all be read. */
  async newestTuple(thread: Thread): Promise<CheckpointTuple | undefined> {
    const taskId = checkpointsTask(thread);
    const known = this.known.last(taskId);
    const whole = known?.checkpoint?.values.size === known?.checkpoint?.holders.size ? known?.checkpoint : undefined;
    // The three reads run at once, because each may be a round trip to a server.
    const [end, last, writes] = await Promise.all([
      this.end(taskId),
      whole === undefined ? this.#manager.latest(taskId) : undefined,
      whole === undefined ? [] : this.#writes(taskId, whole),
    ]);
    if (end.newestId === "") {
      // The empty end is remembered for a graph only, because a replay may begin a subgraph's history again.
      if (thread.namespace === "") this.known.set(taskId, "", { end, checkpoint: undefined });
      return undefined;
    }
    const isNewest = known?.end.sequence === end.sequence && whole?.id === end.newestId;
    if (whole !== undefined && isNewest) return this.#tuple(thread, whole, writes, end);
    let damage: CheckpointCorruptError | undefined;
    try {
      const saved = last?.id === end.newestId ? savedCheckpoint(last) : await this.find(taskId, end.newestId);
      if (saved !== undefined) return await this.tuple(thread, saved, end);
    } catch (error) {
      if (!(error instanceof CheckpointCorruptError)) throw error;
      damage = error;
      this.#damageLog.takesOlder(thread.threadId, error);
    }
    for await (const checkpoint of this.#manager.history(taskId)) {
      const tuple = await skippingDamage(this.tuple(thread, savedCheckpoint(checkpoint), end));
      if (tuple !== undefined) return tuple;
    }
    if (damage !== undefined) throw damage;
    return undefined;
  }

  /**
   * @param end - The thread's end, if a run may continue from this checkpoint.
   * @param near - Records of the thread that were already read. Afterwards the map has those that this checkpoint was
   * made from.
   * @param index - Finds the writes, for a caller that reads many checkpoints.
   * @throws {CheckpointCorruptError} One of its values can't be read.
   */
  async tuple(
    thread: Thread,
    saved: SavedCheckpoint,
    end: ThreadEnd | undefined,
    near: Map<string, SavedCheckpoint> = new Map(),
    index?: WritesIndex,
  ): Promise<CheckpointTuple> {
    const writesAfter = findWritesStart(saved);
    const [whole, writes] = await Promise.all([
      this.#whole(saved, near),
      this.#writes(saved.taskId, { id: saved.id, writesAfter }, index),
    ]);
    return this.#tuple(thread, whole, writes, end);
  }

  async #tuple(
    thread: Thread,
    whole: WholeCheckpoint,
    records: readonly MarkedWritesRecord[],
    end: ThreadEnd | undefined,
  ): Promise<CheckpointTuple> {
    const { id, parentId, checkpoint: rest, metadata, values, stateVersion } = whole;
    const asStored: Checkpoint = {
      // In the form passed to `put`.
      ...(JSON.parse(rest) as RestOfCheckpoint),
      id,
      // fromEntries makes own properties, whatever the channels' names are.
      channel_values: Object.fromEntries(await mapEntries(values, (value) => loadedValue(this.#serde, value))),
    };
    if (asStored.v < 4 && parentId !== undefined) await this.#migratePendingSends(asStored, thread, parentId);
    const stored = { checkpoint: asStored, stateVersion, writes: unmarkedBy(values, records) };
    const { checkpoint, writes } = this.#migrations.apply(stored);
    if (end !== undefined) this.known.set(checkpointsTask(thread), id, { end, checkpoint: whole });
    return {
      config: makeConfig(thread, id),
      checkpoint,
      // In the form passed to `put`.
      metadata: (await loadedValue(this.#serde, metadata)) as CheckpointMetadata,
      ...(parentId === undefined ? undefined : { parentConfig: makeConfig(thread, parentId) }),
      pendingWrites: await pendingWrites(this.#serde, writes),
    };
  }

  /**
   * A checkpoint's ancestors, nearest first. They aren't remembered, so this doesn't count as a run's reading of the
   * thread.
   */
  async *ancestors(thread: Thread, id: string): AsyncGenerator<CheckpointTuple> {
    const taskId = checkpointsTask(thread);
    let isDamaged = false;
    const stop = this.#manager.on("corrupt", (record) => {
      // Damaged checkpoints have an id. Those that are needed are missed below.
      isDamaged ||= record.taskId === taskId && record.id === undefined;
    });
    try {
      let saved = id === "" ? undefined : await this.find(taskId, id);
      for (let left = readMetadata(saved ?? {}).ancestors ?? 0; saved?.parentId !== undefined; left--) {
        saved = await this.find(taskId, saved.parentId);
        const tuple = saved && (await this.tuple(thread, saved, undefined));
        if (isDamaged || (tuple === undefined && left > 0)) throw lostPart({ taskId, id });
        if (tuple !== undefined) yield tuple;
      }
    } finally {
      stop();
    }
  }

  /** Adds the values that other checkpoints store. */
  async #whole(saved: SavedCheckpoint, near: Map<string, SavedCheckpoint>): Promise<WholeCheckpoint> {
    const { taskId, id } = saved;
    const holders = listHolders(saved, saved.state);
    const others = new Set(holders.values());
    others.delete(id);
    const stored = new Map([[id, saved]]);
    await Promise.all(
      Array.from(others, async (holder) => {
        const found = near.get(holder) ?? (await this.find(taskId, holder));
        if (found === undefined) throw lostPart(saved, holder);
        stored.set(holder, found);
      }),
    );
    near.clear();
    for (const [holder, record] of stored) near.set(holder, record);
    const values = new Map<string, SerializedValue>();
    for (const [channel, holder] of holders) {
      const held = stored.get(holder)?.state.values ?? {};
      const value = Object.hasOwn(held, channel) ? held[channel] : undefined;
      if (value === undefined) throw lostPart(saved, holder);
      values.set(channel, serializedFrom(value));
    }
    return { ...withoutOthersValues(saved), values };
  }

  /** A checkpoint that `put` builds on, as if the thread ended with it; `undefined` if there is no such checkpoint. */
  async parent(taskId: string, id: string): Promise<KnownCheckpoint | undefined> {
    const saved = await this.find(taskId, id);
    if (saved === undefined) return undefined;
    const end = { sequence: saved.sequence, newestId: id, highestId: highestIdAt(saved) };
    return { end, checkpoint: withoutOthersValues(saved) };
  }

  /** Before version 4, LangGraph stores a checkpoint's sends among the writes of its parent. */
  async #migratePendingSends(checkpoint: Checkpoint, thread: Thread, parentId: string): Promise<void> {
    const taskId = checkpointsTask(thread);
    const parent = await skippingDamage(this.find(taskId, parentId));
    const writesAfter = parent === undefined ? 0 : findWritesStart(parent);
    const records = await this.#writes(taskId, { id: parentId, writesAfter });
    // Writes without marks can be read even if a value of the parent is gone.
    const isMarked = records.some((record) => record.writes.some((write) => "marks" in write));
    const whole = isMarked && parent ? await this.#whole(parent, new Map()) : undefined;
    const sends = await pendingWrites(this.#serde, unmarkedBy(whole?.values, records));
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = sends.filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
    checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : 1;
  }

  /** The writes that can be read. Damage has been reported; the tasks whose writes are lost run again. */
  async #writes(
    taskId: string,
    { id, writesAfter }: Pick<WholeCheckpoint, "id" | "writesAfter">,
    index?: WritesIndex,
  ): Promise<readonly MarkedWritesRecord[]> {
    const range = index === undefined ? { afterSequence: writesAfter } : await index.find(id, writesAfter);
    return range === undefined ? [] : readWrites(this.#manager, taskId, id, range);
  }

  /** Where the thread's checkpoints end. Damaged ones count too, because the next one is appended after them. */
  async end(taskId: string): Promise<ThreadEnd> {
    for await (const last of this.#storage.list({ taskId, order: "newest", limit: 1 })) {
      // The manager reports the damage and finds the newest intact record.
      const [newest] = isCorrupt(last) ? await this.#manager.list(taskId, { limit: 1 }) : [last];
      const ids = newest && { newestId: newest.id, highestId: highestIdAt(newest) };
      return { sequence: last.sequence, newestId: "", highestId: "", ...ids };
    }
    return { sequence: 0, newestId: "", highestId: "" };
  }

  async find(taskId: string, id: string): Promise<SavedCheckpoint | undefined> {
    try {
      return savedCheckpoint(await this.#manager.restore(taskId, id));
    } catch (error) {
      if (error instanceof CheckpointNotFoundError) return undefined;
      throw error;
    }
  }
}

/** @param values - The values of the checkpoint that the writes are on top of. */
function unmarkedBy(values: ReadonlyMap<string, SerializedValue> | undefined, records: readonly MarkedWritesRecord[]) {
  const jsonOf = (channel: string) => {
    const value = values?.get(channel);
    return value && "text" in value ? value.text : undefined;
  };
  return records.map((record) => unmarked(record, jsonOf));
}

/** Only the saver stores records in these tasks, and the seal has been checked. */
function savedCheckpoint(checkpoint: Saved): SavedCheckpoint {
  return checkpoint as SavedCheckpoint;
}

/** The thread's highest checkpoint id when this one was stored. After a clock was set back, new ids are lower. */
function highestIdAt(summary: CheckpointSummary): string {
  return readMetadata(summary).highest ?? summary.id;
}

function withoutOthersValues(saved: SavedCheckpoint): WholeCheckpoint {
  const { id, parentId, state, stateVersion } = saved;
  const { checkpoint, metadata, values } = state;
  return {
    ...{ id, parentId, stateVersion },
    checkpoint: JSON.stringify(checkpoint),
    metadata: serializedFrom(metadata),
    values: new Map(Object.entries(values).map(([channel, value]) => [channel, serializedFrom(value)])),
    versions: checkpoint.channel_versions,
    holders: listHolders(saved, state),
    ancestors: readMetadata(saved).ancestors ?? 0,
    writesAfter: findWritesStart(saved),
  };
}

/** `undefined` if the reading meets damage, which has been reported. */
export async function skippingDamage<Result>(reading: Promise<Result>): Promise<Result | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return undefined;
    throw error;
  }
}

function lostPart({ taskId, id }: Pick<CheckpointSummary, "taskId" | "id">, holder?: string): CheckpointCorruptError {
  const part = holder === undefined ? "its history" : `a value stored in checkpoint ${holder}`;
  return new CheckpointCorruptError(
    `Checkpoint ${id} of task ${JSON.stringify(taskId)} has lost ${part}: pruning removed it, or it is damaged. ` +
      "Nothing was changed; list() returns the intact checkpoints.",
  );
}
