import { type CorruptRecord, checkKeys } from "../contract/adapter.js";
import type { Checkpoint, CheckpointStatus, CheckpointSummary, TaskSummary } from "../contract/checkpoint.js";
import { ClosedError } from "../contract/errors.js";
import { checkId, checkStatus, checkTaskId } from "./arguments.js";
import { AutoSave, type AutoSaveOptions } from "./auto-save.js";
import { type CheckpointEvents, type CheckpointListener, EventHub } from "./events.js";
import {
  type CheckpointManagerOptions,
  type CompleteOptions,
  INCOMPLETE,
  type IncompleteQuery,
  type LatestFilter,
  type ListQuery,
  type ResolvedOptions,
  resolveLatestFilter,
  resolveListQuery,
  resolveOptions,
  resolveTasksQuery,
  type SaveOptions,
  type TasksQuery,
} from "./options.js";
import { type PruneResult, Pruner } from "./pruner.js";
import { CheckpointReader } from "./reader.js";
import { Rekeyer, type RekeyOptions, type RekeyResult } from "./rekeyer.js";
import { type RepairOptions, type RepairResult, repairStorage } from "./repair.js";
import type { RetentionPlan, RetentionPolicy } from "./retention.js";
import type { SavedStateOf, StateOf, StateSchema } from "./schema.js";
import { StatusChanger } from "./status-changer.js";
import { StorageWarnings } from "./storage-warnings.js";
import { type VerifyOptions, type VerifyResult, verifyStorage } from "./verify.js";
import { CheckpointWriter } from "./writer.js";

/**
 * Saves, finds and restores checkpoints of tasks, through a storage adapter.
 *
 * @example
 * ```ts
 * import { CheckpointManager } from "waymark";
 * import { MemoryAdapter } from "waymark/adapters/memory";
 *
 * const manager = new CheckpointManager({ storage: new MemoryAdapter() });
 * await manager.save("build-42", { phase: 2 }, { stage: "unit-tests" });
 * const latest = await manager.latest("build-42");
 * await manager.close();
 * ```
 */
export class CheckpointManager<Schema extends StateSchema = StateSchema> {
  readonly #options: ResolvedOptions<Schema>;
  readonly #events: EventHub;
  readonly #warnings: StorageWarnings;
  readonly #writer: CheckpointWriter<Schema>;
  readonly #reader: CheckpointReader<Schema>;
  readonly #pruner: Pruner<Schema>;
  readonly #statuses: StatusChanger<Schema>;
  readonly #rekeyer: Rekeyer<Schema>;
  readonly #autoSaves = new Map<string, AutoSave<SavedStateOf<Schema>>>();
  readonly #underWay = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: CheckpointManagerOptions<Schema>) {
    this.#options = resolveOptions(options);
    this.#events = new EventHub(this.#options.logger);
    this.#warnings = new StorageWarnings(this.#options.storage, this.#options.logger);
    this.#writer = new CheckpointWriter(this.#options);
    const onCorrupt = (record: CorruptRecord) => {
      this.#options.logger.warn({ ...record }, `Corrupt checkpoint passed over: ${record.location}: ${record.reason}`);
      this.#events.emit("corrupt", record);
    };
    this.#reader = new CheckpointReader(this.#options, onCorrupt);
    this.#pruner = new Pruner(this.#options, this.#reader, this.#events);
    this.#statuses = new StatusChanger(this.#options, this.#reader);
    this.#rekeyer = new Rekeyer(this.#options, onCorrupt);
  }

  /**
   * Saves `state` as the task's newest checkpoint. Resolves once the adapter's durability promise holds. The state is
   * read before the call returns its promise; it may be changed from then on. Saves of one task are stored in call
   * order. Automatic retention runs afterwards and never fails the save.
   *
   * @param taskId - Any non-empty, well-formed string of at most 512 UTF-16 units; data, never a path.
   * @param state - At most `maxPayloadBytes` once encoded; what would not come back as it is is refused, not dropped.
   * @returns The summary: `sequence` from 1, `createdAt` in ISO 8601 UTC by the manager's clock, `sizeBytes` as stored.
   * @throws {StateInvalidError} The schema refuses the state; nothing was stored.
   * @throws {StateNotSerializableError} Something in it would be lost; the error has its JSON path.
   * @throws {PayloadTooLargeError} It is larger than `maxPayloadBytes`.
   * @throws {CheckpointConflictError} Another writer saved since `expectedSequence`; nothing was stored.
   * @throws {StorageError} The backend failed; what was saved before is intact.
   */
  async save(taskId: string, state: SavedStateOf<Schema>, options: SaveOptions = {}): Promise<CheckpointSummary> {
    this.#assertOpen();
    return this.#save(taskId, state, options);
  }

  /**
   * The newest intact checkpoint (that the filter lets through), or `undefined`.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, and none of them is intact.
   * @throws {StateInvalidError} The schema refuses what is stored. It is not passed over: it isn't damage.
   */
  async latest(taskId: string, filter: LatestFilter = {}): Promise<Checkpoint<StateOf<Schema>> | undefined> {
    this.#assertOpen();
    checkTaskId(taskId);
    return this.#reader.first(resolveLatestFilter(taskId, filter));
  }

  /**
   * The checkpoint of that id. Changes nothing; two calls give two independent values.
   *
   * @throws {CheckpointNotFoundError} There is none.
   * @throws {CheckpointCorruptError} It can't be read.
   */
  async restore(taskId: string, id: string): Promise<Checkpoint<StateOf<Schema>>> {
    this.#assertOpen();
    checkTaskId(taskId);
    checkId("A checkpoint id", id);
    return this.#reader.byId(taskId, id);
  }

  /** Summaries of the task's checkpoints, newest first unless told otherwise. Reads no payloads. */
  async list(taskId: string, query: ListQuery = {}): Promise<CheckpointSummary[]> {
    this.#assertOpen();
    checkTaskId(taskId);
    return this.#reader.list(resolveListQuery(taskId, query));
  }

  /** The task's checkpoints whole, one at a time, in constant memory; newest first unless told otherwise. */
  async *history(taskId: string, query: ListQuery = {}): AsyncGenerator<Checkpoint<StateOf<Schema>>, void, void> {
    this.#assertOpen();
    checkTaskId(taskId);
    yield* this.#reader.all(resolveListQuery(taskId, query));
  }

  /** The tasks that have checkpoints, by id unless told otherwise. */
  async tasks(query: TasksQuery = {}): Promise<TaskSummary[]> {
    this.#assertOpen();
    return this.#reader.tasks(resolveTasksQuery(query));
  }

  /** The tasks whose newest checkpoint isn't `completed`, most recent first: what "Resume from …?" shows. */
  async findIncomplete(query: IncompleteQuery = {}): Promise<TaskSummary[]> {
    this.#assertOpen();
    checkKeys("IncompleteQuery", query, ["prefix", "limit"]);
    return this.#reader.tasks(resolveTasksQuery({ ...query, order: "recent", status: INCOMPLETE }));
  }

  /** Whether the task has any checkpoint, damaged or not. */
  async has(taskId: string): Promise<boolean> {
    this.#assertOpen();
    checkTaskId(taskId);
    return this.#reader.has(taskId);
  }

  /** Removes one checkpoint; the others stay whole. False where there is none of that id. */
  async remove(taskId: string, id: string): Promise<boolean> {
    this.#assertOpen();
    checkTaskId(taskId);
    checkId("A checkpoint id", id);
    return this.#track(async () => (await this.#remove(taskId, [id])) > 0);
  }

  /** Removes the task and ends its numbering. Returns how many checkpoints it had. */
  async removeTask(taskId: string): Promise<number> {
    this.#assertOpen();
    checkTaskId(taskId);
    return this.#track(() => this.#remove(taskId, "all"));
  }

  /**
   * Changes a checkpoint's status, and its error with it: the former error is dropped.
   *
   * @throws {CheckpointNotFoundError} There is none of that id.
   * @throws {CheckpointConflictError} It is `completed`, which a checkpoint never leaves.
   */
  async setStatus(taskId: string, id: string, status: CheckpointStatus, error?: unknown): Promise<void> {
    this.#assertOpen();
    checkTaskId(taskId);
    checkId("A checkpoint id", id);
    checkStatus(status);
    await this.#track(() => this.#statuses.set(taskId, id, status, error));
  }

  /**
   * Marks the task's newest checkpoint as `completed`.
   *
   * @throws {CheckpointNotFoundError} The task has none.
   * @throws {CheckpointConflictError} A newer checkpoint came in between; nothing was changed.
   */
  async complete(taskId: string, options: CompleteOptions = {}): Promise<void> {
    this.#assertOpen();
    await this.#track(() => this.#statuses.setNewest(taskId, "completed", undefined, options));
  }

  /**
   * Marks the task's newest checkpoint as `failed`, with the error.
   *
   * @throws {CheckpointNotFoundError} The task has none.
   * @throws {CheckpointConflictError} A newer checkpoint came in between, or it is completed; nothing was changed.
   */
  async fail(taskId: string, error: unknown, options: CompleteOptions = {}): Promise<void> {
    this.#assertOpen();
    await this.#track(() => this.#statuses.setNewest(taskId, "failed", error, options));
  }

  /** What the policy (default: the manager's) would keep and remove of the task, and why. Removes nothing. */
  async planRetention(taskId: string, policy?: RetentionPolicy): Promise<RetentionPlan> {
    this.#assertOpen();
    checkTaskId(taskId);
    return this.#pruner.plan(taskId, policy);
  }

  /**
   * Removes what a plan says, or what the policy (default: the manager's) says now.
   *
   * @throws {PlanOutdatedError} Something the plan keeps is gone, or something it removes has changed its status.
   */
  async prune(target: RetentionPlan | string, policy?: RetentionPolicy): Promise<PruneResult> {
    this.#assertOpen();
    if (typeof target === "string") {
      checkTaskId(target);
      return this.#track(() => this.#pruner.prune(target, policy));
    }
    if (policy !== undefined) throw new TypeError("prune takes a plan or a policy, not both: a plan has its policy.");
    return this.#track(() => this.#pruner.applyPlan(target));
  }

  /** Prunes every task. What can't be read is passed over and reported. */
  async pruneAll(policy?: RetentionPolicy): Promise<PruneResult> {
    this.#assertOpen();
    return this.#track(() => this.#pruner.pruneAll(policy));
  }

  /** Looks at all that is stored and gives what is wrong with it. Changes nothing, and needs neither key nor schema. */
  async verify(options: VerifyOptions = {}): Promise<VerifyResult> {
    this.#assertOpen();
    return this.#track(() => verifyStorage(this.#options.storage, options));
  }

  /**
   * Moves damaged checkpoints to the storage's quarantine, byte for byte and with the reason, and removes what killed
   * writes have left behind. It deletes nothing that was saved, and no sequence is given a second time.
   *
   * @throws {UnsupportedOperationError} The storage offers no repair.
   */
  async repair(options: RepairOptions = {}): Promise<RepairResult> {
    this.#assertOpen();
    return this.#track(() => repairStorage(this.#options.storage, options));
  }

  /**
   * Rewrites each checkpoint that isn't as the manager's transforms would store it now: under an old key, not encrypted
   * yet, not compressed. Ids, sequences, times and statuses stay. One checkpoint is rewritten at a time, beside whatever
   * else is done. It may be stopped or killed at any moment: run again, it passes over those that are current.
   *
   * @returns What was done, and what is left: something is where `signal` or `close` has stopped it.
   * @throws {UnsupportedOperationError} The storage can't replace payloads; nothing was changed.
   * @throws {KeyUnavailableError} A key that is needed can't be fetched; what was rewritten before stays.
   * @throws {TypeError} The manager has no transforms, or an option is misspelled.
   */
  async rekey(options: RekeyOptions = {}): Promise<RekeyResult> {
    this.#assertOpen();
    return this.#track(() => this.#rekeyer.run(options));
  }

  /**
   * Saves the task's state every `intervalMs` if it has changed, until `stop()`, which saves what is unsaved. Failures
   * go to `autoSaveFailed` and the log, and the next tick tries again. The timer never keeps the process alive.
   *
   * @param getState - The state now; `undefined` where there is nothing to save yet.
   * @throws {TypeError} The task is auto-saved already, or an option is misspelled.
   */
  autoSave(
    taskId: string,
    getState: () => SavedStateOf<Schema> | undefined,
    options: AutoSaveOptions = {},
  ): AutoSave<SavedStateOf<Schema>> {
    this.#assertOpen();
    checkTaskId(taskId);
    if (this.#autoSaves.has(taskId))
      throw new TypeError(`Task ${JSON.stringify(taskId)} is auto-saved already; stop() that one first.`);
    const autoSave = new AutoSave<SavedStateOf<Schema>>(
      {
        // Not `save`: the last one comes while the manager is closing.
        save: (state, saveOptions) => this.#save(taskId, state, saveOptions),
        digest: (state) => this.#writer.digest(state),
        isCompleted: () => this.#reader.isCompleted(taskId),
        failed: (error) => {
          this.#options.logger.error({ taskId, error }, `Auto-save of task ${JSON.stringify(taskId)} failed`);
          this.#events.emit("autoSaveFailed", { taskId, error });
        },
        stopped: () => this.#autoSaves.delete(taskId),
      },
      getState,
      options,
    );
    this.#autoSaves.set(taskId, autoSave);
    return autoSave;
  }

  /** Calls the listener at each event, until the function it returns is called. */
  on<Event extends keyof CheckpointEvents>(event: Event, listener: CheckpointListener<Event>): () => void {
    return this.#events.on(event, listener);
  }

  /**
   * Stops auto-saving (and saves what is unsaved), waits for the calls under way, and closes the storage unless
   * `ownsStorage` is false. Idempotent; every later call is a ClosedError.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Reads the state before its first await, so that the caller may change it afterwards. */
  async #save(taskId: string, state: SavedStateOf<Schema>, options: SaveOptions): Promise<CheckpointSummary> {
    const autoSave = this.#autoSaves.get(taskId);
    const digest = autoSave && this.#writer.digest(state);
    return this.#track(async () => {
      const saved = await this.#writer.append(taskId, state, options);
      if (digest !== undefined) autoSave?.noteSaved(digest, saved.sequence);
      this.#options.logger.debug({ ...saved }, "Checkpoint saved");
      this.#events.emit("saved", saved);
      await this.#pruner.afterSave(taskId);
      return saved;
    });
  }

  async #remove(taskId: string, ids: readonly string[] | "all"): Promise<number> {
    const removed = await this.#pruner.remove(taskId, ids, "request");
    this.#autoSaves.get(taskId)?.noteRemoved();
    return removed;
  }

  async #track<Result>(call: () => Promise<Result>): Promise<Result> {
    const underWay = call();
    this.#underWay.add(underWay);
    try {
      return await underWay;
    } finally {
      this.#underWay.delete(underWay);
    }
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError("The checkpoint manager");
    this.#warnings.ask();
  }

  async #close(): Promise<void> {
    this.#rekeyer.stop();
    const stopped = await Promise.allSettled([...this.#autoSaves.values()].map((autoSave) => autoSave.stop()));
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    await this.#warnings.told();
    if (this.#options.ownsStorage) await this.#options.storage.close();
    const failed = stopped.find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }
}
