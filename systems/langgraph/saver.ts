import { randomInt } from "node:crypto";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  copyCheckpoint,
  getCheckpointId,
  maxChannelVersion,
  type PendingWrite,
  type SerializerProtocol,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import { checkKeys } from "../../src/contract/adapter.js";
import type {
  CheckpointStatus,
  CheckpointSummary,
  JsonObject,
  Checkpoint as Saved,
} from "../../src/contract/checkpoint.js";
import { CheckpointConflictError, CheckpointCorruptError, CheckpointNotFoundError } from "../../src/contract/errors.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { CheckpointManager } from "../../src/manager/manager.js";
import type { CheckpointManagerOptions } from "../../src/manager/options.js";
import type { PruneResult } from "../../src/manager/pruner.js";
import { checkRetentionPolicy, type RetentionPolicy } from "../../src/manager/retention.js";
import { type ChannelMigration, migrated } from "./migrations.js";
import { pendingWrites, writesRecord } from "./pending-writes.js";
import { pruneThread } from "./pruning.js";
import {
  type CheckpointState,
  holdersOf,
  metadataOf,
  statusOfWrites,
  WRITES_STAGE,
  type WritesRecord,
} from "./records.js";
import { type Newest, type SeenCheckpoint, SeenCheckpoints } from "./seen.js";
import { loadedValue, mapEntries, storedValue } from "./stored-values.js";
import {
  checkpointsPrefix,
  checkpointsTask,
  longNamesOf,
  THREADS_PREFIX,
  type Thread,
  threadOf,
  threadPrefix,
  writesTask,
} from "./task-ids.js";

export type { ChannelMigration } from "./migrations.js";

type Config = Parameters<BaseCheckpointSaver["getTuple"]>[0];

/** The options of a manager that a saver passes on. */
type ManagerOptions = Pick<
  CheckpointManagerOptions,
  "storage" | "ownsStorage" | "transforms" | "stateVersion" | "maxPayloadBytes" | "clock" | "logger"
>;

export interface WaymarkSaverOptions extends ManagerOptions {
  /** How values become bytes. Default: LangGraph's own serializer. */
  readonly serde?: SerializerProtocol | undefined;
  /** What is kept of a thread after each `put`; see {@link WaymarkSaver.prune}. Default: everything. */
  readonly retention?: RetentionPolicy | undefined;
  /**
   * Whether a run stops that goes on from a checkpoint after another one has gone on from it: its `put` is a
   * CheckpointConflictError. Default true. With false both go on, as in LangGraph's own savers, and the last one wins.
   */
  readonly exclusive?: boolean | undefined;
  /** Under `n`: brings the channel values of `stateVersion` n to n + 1. */
  readonly migrations?: Readonly<Record<number, ChannelMigration>> | undefined;
}

type StoredState = CheckpointState<Omit<Checkpoint, "id" | "channel_values">>;
type SavedCheckpoint = Saved<StoredState>;

/**
 * Keeps the threads of LangGraph graphs in any storage of Waymark.
 *
 * A `put` is one record: the channel values that changed, and the names of those that have the others. A thread's
 * checkpoints are one task, `langgraph/<thread>/c/<namespace>`, and the pending writes of each checkpoint another.
 *
 * @example
 * ```ts
 * import { openStorage } from "waymark/adapters";
 * import { WaymarkSaver } from "waymark/langgraph";
 *
 * const checkpointer = new WaymarkSaver({ storage: openStorage("sqlite:.waymark/agent.db") });
 * const tuple = await checkpointer.getTuple({ configurable: { thread_id: "support-42" } });
 * await checkpointer.close();
 * ```
 */
export class WaymarkSaver extends BaseCheckpointSaver {
  readonly #manager: CheckpointManager;
  readonly #seen = new SeenCheckpoints();
  readonly #stateVersion: number;
  readonly #migrations: Readonly<Record<number, ChannelMigration>>;
  readonly #retention: RetentionPolicy | undefined;
  readonly #isExclusive: boolean;
  readonly #logger: Logger;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: WaymarkSaverOptions) {
    checkKeys("WaymarkSaverOptions", options, OPTIONS);
    const { serde, retention, exclusive = true, migrations = {}, ...forManager } = options;
    super(serde);
    if (typeof exclusive !== "boolean") throw new TypeError("WaymarkSaverOptions.exclusive must be true or false.");
    if (retention !== undefined) checkRetentionPolicy(retention);
    // The values of a checkpoint may be of several records, so the saver migrates them when it has them all.
    const kept = Object.fromEntries(Object.keys(migrations).map((version) => [version, (stored: unknown) => stored]));
    this.#manager = new CheckpointManager({ ...forManager, migrations: kept });
    this.#stateVersion = options.stateVersion ?? 1;
    this.#migrations = migrations;
    this.#retention = retention;
    this.#isExclusive = exclusive;
    this.#logger = safeLogger(options.logger ?? warningLogger);
  }

  /**
   * The checkpoint that the config names, or the thread's newest intact one.
   *
   * @throws {CheckpointCorruptError} The named checkpoint, or a value of it, can't be read; or none of the thread can.
   */
  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const thread = threadIn(config);
    if (thread === undefined) return undefined;
    const taskId = checkpointsTask(thread);
    const id = getCheckpointId(config);
    if (id === "") return this.#newestTuple(thread);
    const newest = await this.#newest(taskId);
    const saved = await this.#find(taskId, id);
    return saved && this.#tuple(thread, saved, newest);
  }

  /** The checkpoints that the config and the options ask for; those with higher ids first. */
  override async *list(config: Config, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { limit = Number.POSITIVE_INFINITY, before, filter = {} } = options;
    const [id, beforeId] = [getCheckpointId(config), before && getCheckpointId(before)];
    const asked: { readonly thread: Thread; readonly id: string }[] = [];
    for (const thread of await this.#threads(config)) {
      for (const summary of await this.#manager.list(checkpointsTask(thread))) {
        if (id !== "" && summary.id !== id) continue;
        if (beforeId && summary.id >= beforeId) continue;
        asked.push({ thread, id: summary.id });
      }
    }
    asked.sort((a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0));
    let wanted = limit;
    for (const { thread, id } of asked) {
      if (wanted <= 0) return;
      // Damage has been reported; the others are given.
      const saved = await skippingDamage(this.#find(checkpointsTask(thread), id));
      if (saved === undefined) continue;
      const metadata = await loadedValue(this.serde, saved.state.metadata);
      if (!contains(metadata, filter)) continue;
      const tuple = await skippingDamage(this.#tuple(thread, saved, undefined));
      if (tuple === undefined) continue;
      wanted -= 1;
      yield tuple;
    }
  }

  /**
   * Stores a checkpoint: in one record the values that changed, and for the others the ids of the checkpoints that have
   * them.
   *
   * @throws {CheckpointConflictError} Another run has gone on from the same checkpoint, see `exclusive`; or the id is
   *   that of another checkpoint. Nothing was stored.
   */
  override async put(
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Config> {
    const thread = requiredThread(config, "put a checkpoint");
    const taskId = checkpointsTask(thread);
    const { id, channel_values: values, ...rest } = copyCheckpoint(checkpoint);
    const changed = Object.keys(newVersions).filter((channel) => Object.hasOwn(values, channel));
    // Begun at once: the graph may change its values while this waits.
    const stored = [storedValue(this.serde, metadata), this.#stored(values, changed)] as const;
    const parentId = getCheckpointId(config);
    const parent = parentId === "" ? undefined : await this.#seenParent(taskId, parentId);

    const valuesIn = new Map<string, string>();
    const alone: string[] = [];
    for (const [channel, version] of Object.entries(rest.channel_versions)) {
      if (Object.hasOwn(newVersions, channel)) continue;
      const holder = parent?.stateVersion === this.#stateVersion ? parent.valuesIn.get(channel) : undefined;
      if (holder !== undefined && parent?.versions[channel] === version) valuesIn.set(channel, holder);
      // The values of a copy, or of an older graph, are nowhere else.
      else if ((parentId !== "" || metadata.source === "fork") && Object.hasOwn(values, channel)) alone.push(channel);
    }
    const [storedMetadata, storedChanged] = await Promise.all(stored);
    const state: StoredState = {
      checkpoint: rest,
      metadata: storedMetadata,
      values: { ...storedChanged, ...(await this.#stored(values, alone)) },
    };
    const history = ancestorsNeeded(metadata);
    const described = {
      ...longNamesOf(thread),
      ...(valuesIn.size === 0 ? undefined : { valuesIn: Object.fromEntries(valuesIn) }),
      ...(history === 0 ? undefined : { history }),
    };
    // An update or a copy is made on top of what was just read, which need not be what was read last of its parent.
    const goesOn = metadata.source === "input" || metadata.source === "loop";
    const newest = await this.#append(taskId, state, {
      id,
      parentId,
      stage: metadata.source,
      status: statusOf(values),
      described,
      seen: goesOn ? parent?.newest : undefined,
    });
    for (const channel of Object.keys(state.values)) valuesIn.set(channel, id);
    const stateVersion = this.#stateVersion;
    this.#seen.set(taskId, id, { versions: rest.channel_versions, valuesIn, stateVersion, newest });
    if (this.#retention !== undefined) await this.#retain(thread, this.#retention);
    return configOf(thread, id);
  }

  /** Stores writes that a node made on top of the config's checkpoint. */
  override async putWrites(config: Config, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const thread = requiredThread(config, "put writes");
    const id = getCheckpointId(config);
    if (id === "") throw new TypeError(`Can't put writes: the config has no "checkpoint_id" in "configurable".`);
    const record = await writesRecord(this.serde, writes, taskId, taskPath);
    const status = statusOfWrites(writes.map(([channel]) => channel));
    await this.#manager.save(writesTask(thread, id), record, { stage: WRITES_STAGE, status });
  }

  /** Removes a thread with all its namespaces and writes; in one step where the storage can do that. */
  override async deleteThread(threadId: string): Promise<void> {
    this.#seen.delete(threadPrefix(threadId));
    await this.#manager.removeTasks({ prefix: threadPrefix(threadId) });
  }

  /**
   * Removes the thread's checkpoints that the policy doesn't keep, with their writes. A checkpoint stays, too, if one
   * that stays has a value from it, or needs it for a DeltaChannel: what stays reads the same as before.
   */
  async prune(threadId: string, policy: RetentionPolicy): Promise<PruneResult> {
    const total = { tasks: 0, removed: 0, removedBytes: 0 };
    for (const thread of await this.#threads({ configurable: { thread_id: threadId } })) {
      const { removed, removedBytes } = await pruneThread(this.#manager, thread, policy);
      total.tasks += 1;
      total.removed += removed;
      total.removedBytes += removedBytes;
    }
    return total;
  }

  /** A channel's next version. No two branches of a thread have the same. */
  override getNextVersion(current: number | undefined): number {
    if (typeof current === "string") {
      throw new TypeError(
        `This thread has the channel version ${JSON.stringify(current)}: another program's. Only numbers are known.`,
      );
    }
    return Math.floor(current ?? 0) + 1 + randomInt(1_000_000) / 2_000_000;
  }

  /** Waits for what is under way, and closes the storage, unless `ownsStorage` is false. Idempotent. */
  async close(): Promise<void> {
    await this.#manager.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The threads and namespaces that the config names, in the order of their tasks. */
  async #threads({ configurable = {} }: Config): Promise<readonly Thread[]> {
    const { thread_id: threadId, checkpoint_ns: namespace } = configurable;
    if (typeof threadId === "string" && typeof namespace === "string") return [{ threadId, namespace }];
    const prefix = typeof threadId === "string" ? checkpointsPrefix(threadId) : THREADS_PREFIX;
    const tasks = await this.#manager.tasks({ prefix });
    const threads = tasks.flatMap(({ taskId, newest }) => threadOf(taskId, newest.metadata) ?? []);
    return typeof namespace === "string" ? threads.filter((thread) => thread.namespace === namespace) : threads;
  }

  async #newestTuple(thread: Thread): Promise<CheckpointTuple | undefined> {
    const taskId = checkpointsTask(thread);
    const last = await this.#manager.latest(taskId);
    if (last === undefined) return undefined;
    const saved = savedCheckpoint(last);
    const newest = newestBy(saved);
    try {
      const highest = newest.id === saved.id ? saved : await this.#highest(taskId, newest.id);
      return await this.#tuple(thread, highest ?? saved, { ...newest, id: highest?.id ?? saved.id });
    } catch (error) {
      if (!(error instanceof CheckpointCorruptError)) throw error;
      this.#logger.warn(
        { taskId, error },
        `A checkpoint of thread ${JSON.stringify(thread.threadId)} can't be read; an older one is taken`,
      );
      return this.#olderTuple(thread, error);
    }
  }

  /** The checkpoint with the highest id, when it isn't the one that was stored last. */
  async #highest(taskId: string, id: string): Promise<SavedCheckpoint | undefined> {
    const found = await this.#find(taskId, id);
    if (found !== undefined) return found;
    // It has been removed since.
    const ids = (await this.#manager.list(taskId)).map((summary) => summary.id).sort();
    const last = ids.at(-1);
    return last === undefined ? undefined : this.#find(taskId, last);
  }

  /** The newest checkpoint that can be read with all its values. */
  async #olderTuple(thread: Thread, error: CheckpointCorruptError): Promise<CheckpointTuple> {
    const taskId = checkpointsTask(thread);
    const newest = await this.#newest(taskId);
    for await (const checkpoint of this.#manager.history(taskId)) {
      const tuple = await skippingDamage(this.#tuple(thread, savedCheckpoint(checkpoint), newest));
      if (tuple !== undefined) return tuple;
    }
    throw error;
  }

  /** @throws {CheckpointCorruptError} It has a value that can't be read. */
  async #tuple(thread: Thread, saved: SavedCheckpoint, newest: Newest | undefined): Promise<CheckpointTuple> {
    const taskId = checkpointsTask(thread);
    const { id, parentId, state, stateVersion } = saved;
    const valuesIn = holdersOf(saved, state);
    const [values, metadata, pending] = await Promise.all([
      this.#values(saved, valuesIn),
      loadedValue(this.serde, state.metadata),
      this.#writes(thread, id),
    ]);
    const checkpoint: Checkpoint = { ...state.checkpoint, id, channel_values: values };
    if (checkpoint.v < 4 && parentId !== undefined) await this.#migratePendingSends(checkpoint, thread, parentId);
    migrated(checkpoint, { from: stateVersion, to: this.#stateVersion, migrations: this.#migrations }, this.#logger);
    if (newest !== undefined) {
      this.#seen.set(taskId, id, { versions: state.checkpoint.channel_versions, valuesIn, stateVersion, newest });
    }
    return {
      config: configOf(thread, id),
      checkpoint,
      // What `put` was given.
      metadata: metadata as CheckpointMetadata,
      ...(parentId === undefined ? undefined : { parentConfig: configOf(thread, parentId) }),
      pendingWrites: await pendingWrites(this.serde, pending),
    };
  }

  /** Every channel's value. */
  async #values(saved: SavedCheckpoint, valuesIn: ReadonlyMap<string, string>): Promise<Record<string, unknown>> {
    const { taskId, id } = saved;
    const others = new Set(valuesIn.values());
    others.delete(id);
    const holders = new Map([[id, saved.state.values]]);
    await Promise.all(
      Array.from(others, async (holder) => {
        const found = await this.#find(taskId, holder);
        if (found === undefined) throw lostValue(saved, holder);
        holders.set(holder, found.state.values);
      }),
    );
    return mapEntries(valuesIn, (holder, channel) => {
      const values = holders.get(holder) ?? {};
      const value = Object.hasOwn(values, channel) ? values[channel] : undefined;
      if (value === undefined) throw lostValue(saved, holder);
      return loadedValue(this.serde, value);
    });
  }

  /** Checkpoints of LangGraph before version 4 have their sends in the writes of their parent. */
  async #migratePendingSends(checkpoint: Checkpoint, thread: Thread, parentId: string): Promise<void> {
    const writes = await pendingWrites(this.serde, await this.#writes(thread, parentId));
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = writes.filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }

  async #writes(thread: Thread, id: string): Promise<readonly WritesRecord[]> {
    const records: WritesRecord[] = [];
    for await (const { state } of this.#manager.history(writesTask(thread, id), { order: "oldest" })) {
      // What `putWrites` has stored; its seal has been checked.
      records.push(state as WritesRecord);
    }
    return records;
  }

  #stored(values: Readonly<Record<string, unknown>>, channels: readonly string[]) {
    return mapEntries(
      channels.map((channel) => [channel, values[channel]] as const),
      (value) => storedValue(this.serde, value),
    );
  }

  /** What is known of the checkpoint that the next one is put on; `undefined` if it isn't there. */
  async #seenParent(taskId: string, id: string): Promise<SeenCheckpoint | undefined> {
    const seen = this.#seen.get(taskId, id);
    if (seen !== undefined) return seen;
    const saved = await this.#find(taskId, id);
    return (
      saved && {
        versions: saved.state.checkpoint.channel_versions,
        valuesIn: holdersOf(saved, saved.state),
        stateVersion: saved.stateVersion,
        newest: undefined,
      }
    );
  }

  /** Appends a record on top of the thread's newest, and gives what is the newest then. */
  async #append(
    taskId: string,
    state: StoredState,
    { id, parentId, stage, status, described, seen }: Appended,
  ): Promise<Newest> {
    for (let newest = seen ?? (await this.#newest(taskId)); ; ) {
      const highest = newest.id > id ? newest.id : id;
      const metadata = highest === id ? described : { ...described, newest: highest };
      try {
        const { sequence } = await this.#manager.save(taskId, state, {
          id,
          stage,
          status,
          metadata,
          expectedSequence: newest.sequence,
          ...(parentId === "" ? undefined : { parentId }),
        });
        return { sequence, id: highest };
      } catch (error) {
        if (!(error instanceof CheckpointConflictError)) throw error;
        const now = await this.#newest(taskId);
        // Not the sequence, but the id is taken.
        if (now.sequence === newest.sequence) throw error;
        if (seen !== undefined && this.#isExclusive) throw overtaken(taskId, parentId, error);
        newest = now;
      }
    }
  }

  async #newest(taskId: string): Promise<Newest> {
    const [summary] = await this.#manager.list(taskId, { limit: 1 });
    return summary === undefined ? { sequence: 0, id: "" } : newestBy(summary);
  }

  async #find(taskId: string, id: string): Promise<SavedCheckpoint | undefined> {
    try {
      return savedCheckpoint(await this.#manager.restore(taskId, id));
    } catch (error) {
      if (error instanceof CheckpointNotFoundError) return undefined;
      throw error;
    }
  }

  /** Never rejects: the checkpoint is stored. */
  async #retain(thread: Thread, policy: RetentionPolicy): Promise<void> {
    try {
      await pruneThread(this.#manager, thread, policy);
    } catch (error) {
      const what = `Old checkpoints of thread ${JSON.stringify(thread.threadId)} can't be removed; the new one is stored`;
      this.#logger.error({ ...thread, error }, what);
    }
  }
}

interface Appended {
  readonly id: string;
  /** Empty for none. */
  readonly parentId: string;
  readonly stage: string;
  readonly status: CheckpointStatus;
  readonly described: JsonObject;
  /** What was the newest when the parent was read. */
  readonly seen: Newest | undefined;
}

const OPTIONS = [
  "storage",
  "ownsStorage",
  "transforms",
  "stateVersion",
  "maxPayloadBytes",
  "clock",
  "logger",
  "serde",
  "retention",
  "exclusive",
  "migrations",
] satisfies (keyof WaymarkSaverOptions)[];

/** `undefined` without a thread's id. */
function threadIn({ configurable = {} }: Config): Thread | undefined {
  const { thread_id: threadId, checkpoint_ns: namespace = "" } = configurable;
  return typeof threadId === "string" && typeof namespace === "string" ? { threadId, namespace } : undefined;
}

function requiredThread(config: Config, what: string): Thread {
  const thread = threadIn(config);
  if (thread !== undefined) return thread;
  throw new TypeError(
    `Can't ${what}: the config has no "thread_id" in "configurable". Pass one: ` +
      `graph.invoke(input, { configurable: { thread_id: "support-42" } }).`,
  );
}

function configOf({ threadId, namespace }: Thread, id: string) {
  return { configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: id } };
}

/** A record of ours: its seal has been checked, and nobody else saves to these tasks. */
function savedCheckpoint(checkpoint: Saved): SavedCheckpoint {
  return checkpoint as SavedCheckpoint;
}

function newestBy(summary: CheckpointSummary): Newest {
  return { sequence: summary.sequence, id: metadataOf(summary).newest ?? summary.id };
}

/**
 * Whether a node is to run next, as far as the channels of a StateGraph tell: those that call a node are there only then, and
 * one that waits for several nodes has the names of all.
 */
function statusOf(values: Readonly<Record<string, unknown>>): CheckpointStatus {
  const calls = Object.entries(values).some(([channel, value]) => {
    if (channel === TASKS) return Array.isArray(value) && value.length > 0;
    const [, names] = /^join:(.*):/.exec(channel) ?? [];
    if (names !== undefined) return Array.isArray(value) && value.length === names.split("+").length;
    return channel === "__start__" || channel.startsWith("branch:to:");
  });
  return calls ? "running" : "completed";
}

/** How many ancestors hold writes that a DeltaChannel's value is made of. */
function ancestorsNeeded({ counters_since_delta_snapshot: counters = {} }: CheckpointMetadata): number {
  return Math.max(0, ...Object.values(counters).map(([, supersteps]) => supersteps + 1));
}

/** Whether a value has all that the filter has, at any depth. */
function contains(value: unknown, filter: unknown): boolean {
  if (typeof filter !== "object" || filter === null) return Object.is(value, filter);
  if (typeof value !== "object" || value === null || Array.isArray(value) !== Array.isArray(filter)) return false;
  const properties = new Map<string, unknown>(Object.entries(value));
  if (Array.isArray(filter) && filter.length !== properties.size) return false;
  return Object.entries(filter).every(([key, part]) => part === undefined || contains(properties.get(key), part));
}

async function skippingDamage<Result>(reading: Promise<Result>): Promise<Result | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return undefined;
    throw error;
  }
}

function lostValue({ taskId, id }: SavedCheckpoint, holder: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `Checkpoint ${id} of task ${JSON.stringify(taskId)} has a value from checkpoint ${holder}, which is gone or has it no ` +
      "more. Nothing was changed; an older checkpoint may be whole.",
  );
}

function overtaken(taskId: string, parentId: string, cause: CheckpointConflictError): CheckpointConflictError {
  return new CheckpointConflictError(
    `Another run has gone on with this thread since checkpoint ${parentId} was read (task ${JSON.stringify(taskId)}). ` +
      "Nothing of this run was stored since. Let one run at a time go on with a thread, or set exclusive: false.",
    { cause },
  );
}
