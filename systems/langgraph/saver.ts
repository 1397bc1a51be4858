import { randomInt } from "node:crypto";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  copyCheckpoint,
  type DeltaChannelHistory,
  getCheckpointId,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { CheckpointManager } from "../../src/checkpoint-manager.js";
import { checkId } from "../../src/contract/arguments.js";
import type { TaskLog } from "../../src/contract/log.js";
import type { Lease, LeaseOptions } from "../../src/manager/lease.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { requireLog } from "../../src/manager/records.js";
import type { PruneResult } from "../../src/manager/retention.js";
import { checkRetentionPolicy, type RetentionPolicy } from "../../src/manager/retention-plan.js";
import { type Config, checkThreadId, makeConfig, requiredThread, threadIn } from "./config.js";
import { copyThread } from "./copying.js";
import { DamageLog } from "./damage-log.js";
import { deltaHistories } from "./delta-histories.js";
import type { KnownCheckpoint } from "./known-checkpoints.js";
import { listed } from "./listing.js";
import { ChannelMigrations } from "./migrations.js";
import { checkOptions, type WaymarkSaverOptions, warnOfCompression } from "./options.js";
import { serializedWrites } from "./pending-writes.js";
import { pruneThread } from "./pruning.js";
import { statusOfValues } from "./records.js";
import { DefaultSerializer, mapEntries, type SerializedValue, serializedValue } from "./stored-values.js";
import { checkpointsTask, listLongNames, type Thread, threadPrefix } from "./task-ids.js";
import {
  type DeletedThreads,
  type DeleteThreadsQuery,
  ThreadList,
  type ThreadSummary,
  type ThreadsQuery,
} from "./thread-list.js";
import { ThreadReader } from "./thread-reader.js";
import { ThreadWriter } from "./thread-writer.js";

/**
 * Keeps the threads of LangGraph graphs in any Waymark storage.
 *
 * A `put` stores one checkpoint: the channel values that changed, and the ids of the checkpoints that store the others. A
 * `putWrites` stores one record under the checkpoint's id. Both are in the log of one task,
 * `langgraph/<thread>/c/<namespace>`.
 *
 * The most recently used checkpoints stay in memory, up to 16 million characters in all. The next turn takes its
 * checkpoint from memory, once a query has shown that nothing was stored since.
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
  readonly #options: WaymarkSaverOptions;
  readonly #log: TaskLog;
  readonly #manager: CheckpointManager;
  readonly #reader: ThreadReader;
  readonly #writer: ThreadWriter;
  readonly #threads: ThreadList;
  readonly #stateVersion: number;
  readonly #retention: RetentionPolicy | undefined;
  readonly #logger: Logger;
  readonly #damageLog: DamageLog;

  /**
   * @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it.
   * @throws {UnsupportedOperationError} The storage keeps no log.
   */
  constructor(options: WaymarkSaverOptions) {
    checkOptions(options);
    const { serde, retention, exclusive = true, migrations = {}, ...forManager } = options;
    super(serde ?? new DefaultSerializer());
    this.#options = options;
    // A checkpoint's values may come from several records. So the manager's migrations change nothing, and the saver
    // migrates the values once it has them all.
    const kept = Object.entries(migrations).map(([version, migrate]) => [
      version,
      typeof migrate === "function" ? (stored: unknown) => stored : migrate,
    ]);
    this.#logger = safeLogger(options.logger ?? warningLogger);
    this.#damageLog = new DamageLog(this.#logger);
    const { logger } = this.#damageLog;
    this.#manager = new CheckpointManager({ ...forManager, logger, migrations: Object.fromEntries(kept) });
    this.#log = requireLog(options.storage, "WaymarkSaver");
    warnOfCompression(options, this.#logger);
    this.#stateVersion = options.stateVersion ?? 1;
    const forReader = {
      storage: options.storage,
      manager: this.#manager,
      serde: this.serde,
      damageLog: this.#damageLog,
    };
    const channelMigrations = new ChannelMigrations(this.#stateVersion, migrations, this.#logger);
    this.#reader = new ThreadReader({ ...forReader, migrations: channelMigrations });
    this.#writer = new ThreadWriter({ ...options, stateVersion: this.#stateVersion, exclusive, reader: this.#reader });
    this.#threads = new ThreadList({ ...forReader, logger });
    this.#retention = retention;
  }

  /**
   * The checkpoint that the config names, or else the thread's newest intact one. The newest is the one that was put
   * last, whatever the clocks said.
   *
   * @throws {CheckpointCorruptError} The named checkpoint or one of its values can't be read. Or no checkpoint is
   * named, and none of the thread can be read.
   */
  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const thread = threadIn(config);
    return thread && this.#damageLog.once(() => this.#tuple(thread, getCheckpointId(config)));
  }

  async #tuple(thread: Thread, id: string): Promise<CheckpointTuple | undefined> {
    const taskId = checkpointsTask(thread);
    if (id === "") return this.#reader.newestTuple(thread);
    const end = await this.#reader.end(taskId);
    const saved = await this.#reader.find(taskId, id);
    if (saved !== undefined) return this.#reader.tuple(thread, saved, end);
    this.#reader.known.set(taskId, id, { end, checkpoint: undefined });
    return undefined;
  }

  /**
   * The checkpoints that the config and the options ask for, higher ids first, as in LangGraph's own savers. If a clock
   * was set back, the first one need not be the newest.
   */
  override async *list(config: Config, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const sources = { log: this.#log, reader: this.#reader, manager: this.#manager, serde: this.serde };
    yield* listed(sources, config, options);
  }

  /**
   * Stores a checkpoint in one record: the values that changed, and for the others the ids of the checkpoints that
   * store them.
   *
   * @throws {CheckpointConflictError} Another run or an `updateState` has continued from the same checkpoint (see
   * `exclusive`), the thread was deleted meanwhile, or another checkpoint has the id. Nothing was stored.
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
    checkId("A checkpoint id", id);
    const parentId = getCheckpointId(config);
    const known = this.#reader.known.get(taskId, parentId);
    const isOwn = (channel: string, parent: KnownCheckpoint | undefined) =>
      Object.hasOwn(newVersions, channel) ||
      // If this is a copy, or the parent is of an older graph, no other record has the value.
      ((parentId !== "" || metadata.source === "fork") &&
        Object.hasOwn(rest.channel_versions, channel) &&
        this.#findHolder(channel, rest.channel_versions[channel], parent) === undefined);
    const [parent, serializedMetadata, serializedValues] = await Promise.all([
      known ?? (parentId === "" ? undefined : this.#reader.parent(taskId, parentId)),
      serializedValue(this.serde, metadata),
      // Called before the first await: afterwards the graph may change the values.
      mapEntries(
        Object.entries(values).filter(([channel]) => isOwn(channel, known)),
        (value, channel) => serializedValue(this.serde, value, channel),
      ),
    ]);

    const ownValues = new Map([...serializedValues].filter(([channel]) => isOwn(channel, parent)));
    const heldValues = new Map<string, SerializedValue>();
    const holders = new Map<string, string>();
    for (const [channel, version] of Object.entries(rest.channel_versions)) {
      const holder = Object.hasOwn(newVersions, channel) ? undefined : this.#findHolder(channel, version, parent);
      if (holder === undefined) continue;
      holders.set(channel, holder);
      const value = parent?.checkpoint?.values.get(channel);
      if (value !== undefined) heldValues.set(channel, value);
    }
    const state = { checkpoint: JSON.stringify(rest), metadata: serializedMetadata, values: ownValues };
    const ofParent = parent?.checkpoint?.ancestors;
    const ancestors = ofParent === undefined ? 0 : Math.min(ancestorsNeeded(rest.v, metadata), ofParent + 1);
    const caller = callerOf(thread, metadata);
    const recordMetadata = {
      ...listLongNames(thread),
      ...(holders.size === 0 ? undefined : { holders: Object.fromEntries(holders) }),
      ...(ancestors === 0 ? undefined : { ancestors }),
      ...(caller === undefined ? undefined : { caller }),
    };
    const { end, writesAfter } = await this.#writer.append(thread, state, {
      id,
      parentId,
      stage: metadata.source,
      status: statusOfValues(values),
      metadata: recordMetadata,
      // If the run hasn't read the thread, the parent counts as newest. In a subgraph it doesn't: a replay continues
      // from older checkpoints.
      read: (thread.namespace === "" ? parent : known)?.end,
    });
    for (const channel of ownValues.keys()) holders.set(channel, id);
    // This run's next put has the new checkpoint as its parent, so the old parent is forgotten. The empty parent stays
    // known, because other runs may also begin the thread.
    if (parentId !== "") this.#reader.known.delete(taskId, parentId);
    const whole = {
      ...state,
      ...{ id, parentId: parentId || undefined, holders, ancestors, writesAfter, stateVersion: this.#stateVersion },
      versions: rest.channel_versions,
      values: new Map([...heldValues, ...ownValues]),
    };
    this.#reader.known.set(taskId, id, { end, checkpoint: whole });
    if (this.#retention !== undefined) await this.#retain(thread, this.#retention);
    return makeConfig(thread, id);
  }

  /** Stores writes that a node made on top of the config's checkpoint. */
  override async putWrites(config: Config, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const thread = requiredThread(config, "put writes");
    const id = getCheckpointId(config);
    if (id === "") throw new TypeError(`Can't put writes: the config has no "checkpoint_id" in "configurable".`);
    checkId("A checkpoint id", id);
    if (writes.length === 0) return;
    const known = this.#reader.known.get(checkpointsTask(thread), id);
    const serialized = await serializedWrites(this.serde, writes, known?.checkpoint?.values);
    await this.#writer.appendWrites(thread, id, { taskId, taskPath, writes: serialized });
  }

  /**
   * Like LangGraph's own method, but throws if a part is lost. LangGraph's method silently leaves that part out.
   *
   * @throws {CheckpointCorruptError} A part of the history is damaged, or pruning removed it.
   */
  override async getDeltaChannelHistory({
    config,
    channels,
  }: Parameters<BaseCheckpointSaver["getDeltaChannelHistory"]>[0]): Promise<Record<string, DeltaChannelHistory>> {
    const thread = requiredThread(config, "read a history");
    const id = getCheckpointId(config) || (await this.#reader.end(checkpointsTask(thread))).newestId;
    return deltaHistories(channels, this.#reader.ancestors(thread, id));
  }

  /**
   * Claims the right to run the thread. One runner at a time has it, on all machines that share the storage; see
   * `CheckpointManager.lease`. The lease stops only runners that claim it too. Pass its `signal` to the run, and
   * release the lease afterwards.
   *
   * @throws {LeaseHeldError} Another runner has the lease; the error says who, and for how long.
   * @throws {UnsupportedOperationError} The storage has no leases.
   */
  async lease(threadId: string, options: LeaseOptions = {}): Promise<Lease> {
    checkThreadId(threadId);
    return this.#manager.lease(checkpointsTask({ threadId, namespace: "" }), options);
  }

  /**
   * Removes a thread with all its namespaces and writes. On SQLite, on PostgreSQL and in memory this is one step; on
   * files the tasks are removed one by one. A run of the thread that is under way is refused at its next step.
   */
  override async deleteThread(threadId: string): Promise<void> {
    checkThreadId(threadId);
    this.#reader.known.clear(threadPrefix(threadId));
    await this.#manager.removeTask({ prefix: threadPrefix(threadId) });
  }

  /**
   * The threads that match the query, most recently written first. Reads summaries and questions, but no states.
   *
   * @throws {TypeError | RangeError} A part of the query is misspelled or out of range; the message names it.
   */
  async threads(query: ThreadsQuery = {}): Promise<ThreadSummary[]> {
    return this.#damageLog.once(() => this.#threads.find(query));
  }

  /**
   * Deletes the threads that match the query, as {@link deleteThread} does, in batches. A thread is kept if a program
   * writes to it before its turn, or if a runner holds its lease.
   *
   * @throws {TypeError} The query has neither `status` nor `idleSince`, or a part of it is misspelled.
   */
  async deleteThreads(query: DeleteThreadsQuery): Promise<DeletedThreads> {
    return this.#threads.delete(query, (prefix) => this.#reader.known.clear(prefix));
  }

  /**
   * Copies the thread `from` to the new thread `to`: checkpoints under the same ids, subgraphs and pending writes. A
   * graph can continue either thread. The copy takes as much space as the original.
   *
   * @throws {TypeError} `from` and `to` are the same, or one isn't a thread id.
   * @throws {CheckpointNotFoundError} The thread `from` has no checkpoint.
   * @throws {CheckpointConflictError} The thread `to` already has records. Nothing was stored.
   * @throws {CheckpointCorruptError} A record can't be read. The unfinished copy was removed.
   */
  async copyThread(from: string, to: string): Promise<void> {
    checkThreadId(from);
    checkThreadId(to);
    await copyThread(this.#options, from, to);
  }

  /**
   * Removes the thread's checkpoints that the policy doesn't keep, with their writes and the subgraphs called from
   * them. Kept checkpoints read as before, because the checkpoints that they need stay too. A checkpoint that stays
   * only because others need it may lack values: `list` leaves it out, and `getTuple` with its id throws a
   * CheckpointCorruptError.
   *
   * @throws {TypeError | RangeError} The policy is empty, or a part of it is misspelled or out of range.
   */
  async prune(threadId: string, policy: RetentionPolicy): Promise<PruneResult> {
    checkThreadId(threadId);
    checkRetentionPolicy(policy);
    const total = { tasks: 0, removed: 0, removedBytes: 0 };
    for (const thread of await this.#reader.threads({ configurable: { thread_id: threadId } })) {
      const { removed, removedBytes } = await pruneThread(
        { storage: this.#options.storage, manager: this.#manager },
        thread,
        policy,
      );
      total.tasks += 1;
      total.removed += removed;
      total.removedBytes += removedBytes;
    }
    return { ...total, failures: [] };
  }

  /** A channel's next version. A random part makes it practically impossible that two branches get the same one. */
  override getNextVersion(current: number | undefined): number {
    if (typeof current === "string") {
      throw new TypeError(
        `This thread has the channel version ${JSON.stringify(current)}, which another program wrote. Waymark supports only numbers.`,
      );
    }
    return Math.floor(current ?? 0) + 1 + randomInt(1_000_000) / 2_000_000;
  }

  /** Waits for calls under way, then closes the storage unless `ownsStorage` is false. Idempotent. */
  async close(): Promise<void> {
    await this.#manager.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The id of the checkpoint that stores a channel's value, if the parent has the same value. */
  #findHolder(channel: string, version: unknown, parent: KnownCheckpoint | undefined): string | undefined {
    const found = parent?.checkpoint;
    const isSame = found?.stateVersion === this.#stateVersion && found.versions[channel] === version;
    return isSame ? found.holders.get(channel) : undefined;
  }

  /** Never rejects, because the new checkpoint is already stored. */
  async #retain(thread: Thread, policy: RetentionPolicy): Promise<void> {
    try {
      await pruneThread({ storage: this.#options.storage, manager: this.#manager }, thread, policy);
    } catch (error) {
      const what = `Old checkpoints of thread ${JSON.stringify(thread.threadId)} can't be removed; the new one is stored`;
      this.#logger.error({ ...thread, error }, what);
    }
  }
}

/**
 * How many ancestors may hold writes that this checkpoint needs. Its DeltaChannels need the writes of several. Before
 * version 4 of the format, its sends are writes of its parent.
 */
function ancestorsNeeded(
  version: number,
  { counters_since_delta_snapshot: counters = {} }: CheckpointMetadata,
): number {
  return Math.max(version < 4 ? 1 : 0, ...Object.values(counters).map(([, supersteps]) => supersteps));
}

/** The checkpoint that a subgraph was called from; `undefined` if several calls share its history. */
function callerOf({ namespace }: Thread, { parents = {} }: CheckpointMetadata): string | undefined {
  // `parents` goes from the outermost graph to the direct caller. A subgraph with a checkpointer of its own has one
  // namespace without a UUID for all its calls.
  return namespace.includes(":") ? Object.values(parents).at(-1) : undefined;
}
