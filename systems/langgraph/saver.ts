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
  maxChannelVersion,
  type PendingWrite,
  type SerializerProtocol,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import { makePayload } from "../../src/codec/payload.js";
import { checkKeys } from "../../src/contract/adapter.js";
import type {
  CheckpointStatus,
  CheckpointSummary,
  JsonObject,
  Checkpoint as Saved,
} from "../../src/contract/checkpoint.js";
import { CheckpointConflictError, CheckpointCorruptError, CheckpointNotFoundError } from "../../src/contract/errors.js";
import { checkId, checkTaskId } from "../../src/manager/arguments.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { CheckpointManager } from "../../src/manager/manager.js";
import type { CheckpointManagerOptions } from "../../src/manager/options.js";
import type { PruneResult } from "../../src/manager/pruner.js";
import { checkRetentionPolicy, type RetentionPolicy } from "../../src/manager/retention.js";
import { deltaHistories } from "./delta-histories.js";
import { type ChannelMigration, ChannelMigrations } from "./migrations.js";
import { pendingWrites, writesRecord } from "./pending-writes.js";
import { pruneThread } from "./pruning.js";
import {
  type CheckpointState,
  holdersOf,
  isWhole,
  type KnownCheckpoints,
  metadataOf,
  statusOfWrites,
  WRITES_STAGE,
  type WritesRecord,
} from "./records.js";
import { type Newest, Seen, type SeenCheckpoint } from "./seen.js";
import { loadedValue, mapEntries, storedValue } from "./stored-values.js";
import {
  checkpointsPrefix,
  checkpointsTask,
  longNamesOf,
  THREADS_PREFIX,
  type Thread,
  threadOf,
  threadPrefix,
  writesPrefix,
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
  /** Under `n`: brings the channel values of `stateVersion` n to n + 1. Pending writes keep their form. */
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
  readonly #options: WaymarkSaverOptions;
  readonly #manager: CheckpointManager;
  readonly #seen = new Seen<SeenCheckpoint>();
  /** The last record of a checkpoint's writes that a run of this saver knows. */
  readonly #written = new Seen<number>();
  readonly #stateVersion: number;
  readonly #migrations: ChannelMigrations;
  readonly #retention: RetentionPolicy | undefined;
  readonly #isExclusive: boolean;
  readonly #logger: Logger;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: WaymarkSaverOptions) {
    checkOptions(options);
    const { serde, retention, exclusive = true, migrations = {}, ...forManager } = options;
    super(serde);
    this.#options = options;
    // The values of a checkpoint may be of several records, so the saver migrates them when it has them all.
    const kept = Object.entries(migrations).map(([version, migrate]) => [
      version,
      typeof migrate === "function" ? (stored: unknown) => stored : migrate,
    ]);
    this.#manager = new CheckpointManager({ ...forManager, migrations: Object.fromEntries(kept) });
    this.#logger = safeLogger(options.logger ?? warningLogger);
    this.#stateVersion = options.stateVersion ?? 1;
    this.#migrations = new ChannelMigrations(this.#stateVersion, migrations, this.#logger);
    this.#retention = retention;
    this.#isExclusive = exclusive;
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
    const asked: { readonly thread: Thread; readonly all: KnownCheckpoints; readonly summary: CheckpointSummary }[] =
      [];
    for (const thread of await this.#threads(config)) {
      const summaries = await this.#manager.list(checkpointsTask(thread));
      const all = new Map(summaries.map((summary) => [summary.id, summary]));
      for (const summary of summaries) {
        if (id !== "" && summary.id !== id) continue;
        if (beforeId && summary.id >= beforeId) continue;
        asked.push({ thread, all, summary });
      }
    }
    asked.sort(({ summary: a }, { summary: b }) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0));
    let wanted = limit;
    for (const { thread, all, summary } of asked) {
      if (wanted <= 0) return;
      // Pruning has left it for the sake of others.
      if (!isWhole(summary, all)) continue;
      // Damage has been reported; the others are given.
      const saved = await skippingDamage(this.#find(checkpointsTask(thread), summary.id));
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
    checkTaskId(taskId);
    const { id, channel_values: values, ...rest } = copyCheckpoint(checkpoint);
    checkId("A checkpoint id", id);
    const parentId = getCheckpointId(config);
    // No wait where the parent has been seen: the graph may change its values once this waits.
    const parent =
      parentId === "" ? undefined : (this.#seen.get(taskId, parentId) ?? (await this.#readParent(taskId, parentId)));

    const valuesIn = new Map<string, string>();
    const own = new Set(Object.keys(newVersions));
    for (const [channel, version] of Object.entries(rest.channel_versions)) {
      if (own.has(channel)) continue;
      const holder = parent?.stateVersion === this.#stateVersion ? parent.valuesIn.get(channel) : undefined;
      if (holder !== undefined && parent?.versions[channel] === version) valuesIn.set(channel, holder);
      // The values of a copy, or of an older graph, are nowhere else.
      else if (parentId !== "" || metadata.source === "fork") own.add(channel);
    }
    const [storedMetadata, storedValues] = await Promise.all([
      storedValue(this.serde, metadata, "metadata"),
      mapEntries(
        Object.entries(values).filter(([channel]) => own.has(channel)),
        (value, channel) => storedValue(this.serde, value, channel),
      ),
    ]);
    const state: StoredState = { checkpoint: rest, metadata: storedMetadata, values: storedValues };
    const history = parent === undefined ? 0 : Math.min(ancestorsNeeded(rest.v, metadata), parent.history + 1);
    const written = this.#written.get(taskId, parentId);
    const described = {
      ...longNamesOf(thread),
      ...(valuesIn.size === 0 ? undefined : { valuesIn: Object.fromEntries(valuesIn) }),
      ...(history === 0 ? undefined : { history }),
      ...(history === 0 || written === undefined ? undefined : { written }),
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
    for (const channel of Object.keys(storedValues)) valuesIn.set(channel, id);
    const stateVersion = this.#stateVersion;
    this.#seen.set(taskId, id, { versions: rest.channel_versions, valuesIn, history, stateVersion, newest });
    // Once a turn is enough for what killed prunings have left.
    if (this.#retention !== undefined) await this.#retain(thread, this.#retention, metadata.source === "input");
    return configOf(thread, id);
  }

  /** Stores writes that a node made on top of the config's checkpoint. */
  override async putWrites(config: Config, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const thread = requiredThread(config, "put writes");
    const id = getCheckpointId(config);
    if (id === "") throw new TypeError(`Can't put writes: the config has no "checkpoint_id" in "configurable".`);
    const record = await writesRecord(this.serde, writes, taskId, taskPath);
    const status = statusOfWrites(writes.map(([channel]) => channel));
    const { sequence } = await this.#manager.save(writesTask(thread, id), record, { stage: WRITES_STAGE, status });
    this.#noteWritten(thread, id, sequence);
  }

  /**
   * As LangGraph's own, but what is lost isn't left out, and what other runs have written later doesn't count.
   *
   * @throws {CheckpointCorruptError} A part of the history is damaged, or was removed by pruning.
   */
  override async getDeltaChannelHistory({
    config,
    channels,
  }: Parameters<BaseCheckpointSaver["getDeltaChannelHistory"]>[0]): Promise<Record<string, DeltaChannelHistory>> {
    const thread = requiredThread(config, "read a history");
    const id = getCheckpointId(config) || (await this.#newest(checkpointsTask(thread))).id;
    return deltaHistories(channels, this.#ancestors(thread, id));
  }

  /** Removes a thread with all its namespaces and writes; in one step where the storage can do that. */
  override async deleteThread(threadId: string): Promise<void> {
    for (const seen of [this.#seen, this.#written]) seen.delete(threadPrefix(threadId));
    await this.#manager.removeTasks({ prefix: threadPrefix(threadId) });
  }

  /**
   * Removes the thread's checkpoints that the policy doesn't keep, with their writes. What it keeps reads the same as
   * before. So a checkpoint stays, too, if a kept one has a value from it, or needs it for a DeltaChannel; once it has
   * lost something itself, it isn't listed any more.
   */
  async prune(threadId: string, policy: RetentionPolicy): Promise<PruneResult> {
    const total = { tasks: 0, removed: 0, removedBytes: 0 };
    for (const thread of await this.#threads({ configurable: { thread_id: threadId } })) {
      const { removed, removedBytes } = await pruneThread(this.#manager, thread, policy, true);
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
  async #threads(config: Config): Promise<readonly Thread[]> {
    const { threadId, namespace } = namesIn(config);
    if (threadId !== undefined && namespace !== undefined) return [{ threadId, namespace }];
    const prefix = threadId === undefined ? THREADS_PREFIX : checkpointsPrefix(threadId);
    const tasks = await this.#manager.tasks({ prefix });
    const threads = tasks.flatMap(({ taskId, newest }) => threadOf(taskId, newest.metadata) ?? []);
    return namespace === undefined ? threads : threads.filter((thread) => thread.namespace === namespace);
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

  /**
   * @param newest - The thread's newest, if a run may go on from this.
   * @param written - The last record of its writes to read.
   * @throws {CheckpointCorruptError} It has a value that can't be read.
   */
  async #tuple(
    thread: Thread,
    saved: SavedCheckpoint,
    newest: Newest | undefined,
    written?: number,
  ): Promise<CheckpointTuple> {
    const taskId = checkpointsTask(thread);
    const { id, parentId, state, stateVersion } = saved;
    const valuesIn = holdersOf(saved, state);
    const [values, metadata, stored] = await Promise.all([
      this.#values(saved, valuesIn),
      loadedValue(this.serde, state.metadata),
      this.#writes(thread, id, written),
    ]);
    const asStored: Checkpoint = { ...state.checkpoint, id, channel_values: values };
    if (asStored.v < 4 && parentId !== undefined) await this.#migratePendingSends(asStored, thread, parentId);
    const { checkpoint, writes } = this.#migrations.apply({ checkpoint: asStored, stateVersion, writes: stored });
    if (newest !== undefined) this.#seen.set(taskId, id, { ...seenIn(saved), newest });
    return {
      config: configOf(thread, id),
      checkpoint,
      // What `put` was given.
      metadata: metadata as CheckpointMetadata,
      ...(parentId === undefined ? undefined : { parentConfig: configOf(thread, parentId) }),
      pendingWrites: await pendingWrites(this.serde, writes),
    };
  }

  /** A checkpoint's ancestors, the nearest first. This doesn't count as a run's reading of the thread. */
  async *#ancestors(thread: Thread, id: string): AsyncGenerator<CheckpointTuple> {
    const taskId = checkpointsTask(thread);
    let isDamaged = false;
    const stop = this.#manager.on("corrupt", (record) => {
      isDamaged ||= record.taskId?.startsWith(writesPrefix(thread)) ?? true;
    });
    try {
      let saved = id === "" ? undefined : await this.#find(taskId, id);
      for (let left = saved === undefined ? 0 : historyOf(saved); saved?.parentId !== undefined; left--) {
        const { written } = metadataOf(saved);
        saved = await this.#find(taskId, saved.parentId);
        const tuple = saved && (await this.#tuple(thread, saved, undefined, written));
        if (isDamaged || (tuple === undefined && left > 0)) throw lostPart({ taskId, id });
        if (tuple !== undefined) yield tuple;
      }
    } finally {
      stop();
    }
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
        if (found === undefined) throw lostPart(saved, holder);
        holders.set(holder, found.state.values);
      }),
    );
    return mapEntries(valuesIn, (holder, channel) => {
      const values = holders.get(holder) ?? {};
      const value = Object.hasOwn(values, channel) ? values[channel] : undefined;
      if (value === undefined) throw lostPart(saved, holder);
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

  /**
   * Those that can be read. Damage has been reported, and the tasks whose writes are lost run again.
   *
   * @param upTo - The last record to read. Default: all.
   */
  async #writes(thread: Thread, id: string, upTo?: number) {
    const records: (WritesRecord & { readonly stateVersion: number })[] = [];
    let last = 0;
    const readAll = async () => {
      const query = { order: "oldest", beforeSequence: upTo === undefined ? undefined : upTo + 1 } as const;
      for await (const { state, stateVersion, sequence } of this.#manager.history(writesTask(thread, id), query)) {
        // What `putWrites` has stored; its seal has been checked.
        records.push({ ...(state as WritesRecord), stateVersion });
        last = sequence;
      }
    };
    await skippingDamage(readAll());
    if (upTo === undefined) this.#noteWritten(thread, id, last);
    return records;
  }

  #noteWritten(thread: Thread, id: string, sequence: number): void {
    const taskId = checkpointsTask(thread);
    this.#written.set(taskId, id, Math.max(sequence, this.#written.get(taskId, id) ?? 0));
  }

  /** What is known of a checkpoint that hasn't been seen; `undefined` if it isn't there. */
  async #readParent(taskId: string, id: string): Promise<SeenCheckpoint | undefined> {
    const saved = await this.#find(taskId, id);
    return saved && { ...seenIn(saved), newest: undefined };
  }

  /** Appends a record on top of the thread's newest, and gives what is the newest then. */
  async #append(
    taskId: string,
    state: StoredState,
    { id, parentId, stage, status, described, seen }: Appended,
  ): Promise<Newest> {
    let newest = seen ?? (await this.#newest(taskId));
    for (let expectedSequence: number | undefined = newest.sequence; ; ) {
      const highest = newest.id > id ? newest.id : id;
      const metadata = highest === id ? described : { ...described, newest: highest };
      try {
        const parent = parentId === "" ? undefined : { parentId };
        const sequence = await this.#store({ taskId, id, stage, status, metadata, ...parent }, state, expectedSequence);
        return { sequence, id: highest };
      } catch (error) {
        if (!(error instanceof CheckpointConflictError)) throw error;
        const last = await this.#manager.latest(taskId);
        if (last?.sequence === newest.sequence) {
          if ((await skippingDamage(this.#find(taskId, id))) !== undefined) throw error;
          // Nobody has gone on: what comes after it is damaged, and that may hide its sequence.
          expectedSequence = undefined;
          continue;
        }
        const isRemoved = last === undefined || last.sequence < newest.sequence;
        if (isRemoved || (seen !== undefined && this.#isExclusive)) throw overtaken(taskId, parentId, error);
        newest = newestBy(last);
        expectedSequence = newest.sequence;
      }
    }
  }

  /** As the manager's `save`, which would read again what it has stored under a given id. */
  async #store(
    described: Omit<CheckpointSummary, "sequence" | "createdAt" | "stateVersion" | "sizeBytes">,
    state: StoredState,
    expectedSequence: number | undefined,
  ): Promise<number> {
    const { storage, transforms, maxPayloadBytes, clock = Date.now } = this.#options;
    const draft = { ...described, createdAt: new Date(clock()).toISOString(), stateVersion: this.#stateVersion };
    const made = await makePayload(state, { context: draft, transforms, maxBytes: maxPayloadBytes });
    return storage.append({ ...draft, ...made }, { expectedSequence });
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
  async #retain(thread: Thread, policy: RetentionPolicy, sweeps: boolean): Promise<void> {
    try {
      await pruneThread(this.#manager, thread, policy, sweeps);
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

function checkOptions(options: WaymarkSaverOptions): void {
  if (typeof options === "object" && options !== null && "append" in options) {
    throw new TypeError("WaymarkSaver takes options: new WaymarkSaver({ storage }).");
  }
  checkKeys("WaymarkSaverOptions", options, OPTIONS);
  const { serde, retention, exclusive = true } = options;
  if (serde !== undefined && (typeof serde?.dumpsTyped !== "function" || typeof serde.loadsTyped !== "function")) {
    throw new TypeError(
      "WaymarkSaverOptions.serde must have dumpsTyped and loadsTyped, as LangGraph's serializers have.",
    );
  }
  if (typeof exclusive !== "boolean") throw new TypeError("WaymarkSaverOptions.exclusive must be true or false.");
  if (retention !== undefined) checkRetentionPolicy(retention);
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
function threadIn(config: Config): Thread | undefined {
  const { threadId, namespace = "" } = namesIn(config);
  return threadId === undefined ? undefined : { threadId, namespace };
}

/** @throws {TypeError} One of them is no string. */
function namesIn({ configurable = {} }: Config): { readonly threadId?: string; readonly namespace?: string } {
  const { thread_id: threadId, checkpoint_ns: namespace } = configurable;
  for (const [key, name] of [
    ["thread_id", threadId],
    ["checkpoint_ns", namespace],
  ] as const) {
    if (name === undefined || (typeof name === "string" && (name !== "" || key === "checkpoint_ns"))) continue;
    throw new TypeError(`"${key}" in "configurable" must be a string that isn't empty; it is ${JSON.stringify(name)}.`);
  }
  return { threadId, namespace };
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

function seenIn(saved: SavedCheckpoint): Omit<SeenCheckpoint, "newest"> {
  const { state, stateVersion } = saved;
  const { channel_versions: versions } = state.checkpoint;
  return { versions, valuesIn: holdersOf(saved, state), history: historyOf(saved), stateVersion };
}

function historyOf(summary: CheckpointSummary): number {
  return metadataOf(summary).history ?? 0;
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

/**
 * How many ancestors at most hold writes that a checkpoint is read with: those that a DeltaChannel's value is made of; or
 * before version 4 the sends.
 */
function ancestorsNeeded(
  version: number,
  { counters_since_delta_snapshot: counters = {} }: CheckpointMetadata,
): number {
  return Math.max(version < 4 ? 1 : 0, ...Object.values(counters).map(([, supersteps]) => supersteps));
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

function lostPart({ taskId, id }: Pick<CheckpointSummary, "taskId" | "id">, holder?: string): CheckpointCorruptError {
  const part = holder === undefined ? "its history" : `a value from checkpoint ${holder}`;
  return new CheckpointCorruptError(
    `Checkpoint ${id} of task ${JSON.stringify(taskId)} has lost ${part}: pruning has removed that, or it is damaged. ` +
      "Nothing was changed; list() gives the checkpoints that are whole.",
  );
}

function overtaken(taskId: string, parentId: string, cause: CheckpointConflictError): CheckpointConflictError {
  return new CheckpointConflictError(
    `Another run has gone on with this thread since checkpoint ${parentId} was read, or has removed it ` +
      `(task ${JSON.stringify(taskId)}). What it stored is untouched, and no checkpoint of this run was stored since. ` +
      "Let one run at a time go on with a thread, or set exclusive: false.",
    { cause },
  );
}
