import type { StateToSave, Storable } from "./codec/storable.js";
import { checkText } from "./contract/arguments.js";
import type {
  Checkpoint,
  CheckpointStatus,
  CheckpointSummary,
  PlainFields,
  TaskSummary,
} from "./contract/checkpoint.js";
import type { SendOptions, TaskEvent } from "./contract/task-events.js";
import type { DueCount } from "./contract/task-queue.js";
import type { AutoSave, AutoSaveOptions } from "./manager/auto-save.js";
import { AutoSaves } from "./manager/auto-saves.js";
import { Calls } from "./manager/calls.js";
import { countDue, type Lease, type LeaseInfo, type LeaseOptions, readLease, requireQueue } from "./manager/lease.js";
import { Maintenance } from "./manager/maintenance.js";
import { NotificationHub, type Notifications } from "./manager/notifications.js";
import { type CheckpointManagerOptions, type ResolvedOptions, resolveOptions } from "./manager/options.js";
import {
  type FollowOptions,
  type ListQuery,
  type OneOrMany,
  PREFIX_FORM,
  type RecordsQuery,
  resolveIncompleteQuery,
  resolveLatestFilter,
  resolveListQuery,
  resolvePrefix,
  resolveRecordsQuery,
  resolveSearchRange,
  resolveTasksQuery,
  type TasksQuery,
} from "./manager/queries.js";
import { CheckpointReader } from "./manager/reader.js";
import { RecordReader, type TaskRecord } from "./manager/records.js";
import { Removal } from "./manager/removal.js";
import { Retention } from "./manager/retention.js";
import type { SaveOptions } from "./manager/save-options.js";
import type { EncodingSchema, StateSchema } from "./manager/schema.js";
import { firstWhere } from "./manager/search.js";
import { compareStates, type StateChange } from "./manager/state-diff.js";
import { StatusChanger } from "./manager/status.js";
import { CheckpointWriter } from "./manager/writer.js";
import { Branches } from "./runs/branches.js";
import { cancelTasks, retryTasks } from "./runs/cancellation.js";
import { type FollowedItem, Follower } from "./runs/follower.js";
import { assertOutsideRun } from "./runs/nesting.js";
import type { NextTurn, RunFunction, RunOptions, RunSavedOf, RunStateOf, StorableResult } from "./runs/run.js";
import { RunStore } from "./runs/run-store.js";
import { Runs } from "./runs/runs.js";
import { TaskEvents } from "./runs/task-events.js";
import { Worker, type WorkOptions } from "./runs/worker.js";

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
export class CheckpointManager<State = unknown, Saved = State> {
  /** Plans and applies retention policies. */
  readonly retention: Retention;
  /** Verifies, repairs and re-encrypts the storage. */
  readonly maintenance: Maintenance;
  readonly #options: ResolvedOptions;
  readonly #calls = new Calls();
  readonly #notifications: NotificationHub;
  readonly #writer: CheckpointWriter;
  readonly #reader: CheckpointReader<State>;
  readonly #records: RecordReader;
  readonly #branches: Branches;
  readonly #removal: Removal;
  readonly #statuses: StatusChanger;
  readonly #autoSaves: AutoSaves<Saved>;
  readonly #events: TaskEvents;
  readonly #runStore: RunStore;
  readonly #runs: Runs;
  #closed: Promise<void> | undefined;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: CheckpointManagerOptions<EncodingSchema<State>>);
  constructor(options: CheckpointManagerOptions<StateSchema<Saved, State>>);
  constructor(given: CheckpointManagerOptions) {
    const options = resolveOptions(given);
    this.#options = options;
    this.#notifications = new NotificationHub(options.logger);
    this.#reader = new CheckpointReader(options, this.#notifications);
    this.#records = new RecordReader(options, this.#reader);
    this.#removal = new Removal(options, this.#notifications);
    this.retention = new Retention(options, this.#calls, this.#reader, this.#removal);
    this.maintenance = new Maintenance(options, this.#calls, this.#reader);
    this.#writer = new CheckpointWriter(options, this.#calls, this.#notifications, this.retention);
    this.#statuses = new StatusChanger(options, this.#reader);
    const parts = { options, notifications: this.#notifications, reader: this.#reader, writer: this.#writer };
    this.#autoSaves = new AutoSaves(parts);
    this.#runStore = new RunStore({ ...parts, statuses: this.#statuses, closing: this.#calls.closing });
    this.#branches = new Branches(this.#runStore);
    this.#events = new TaskEvents(this.#runStore);
    this.#runs = new Runs(this.#runStore, this.#autoSaves);
  }

  /**
   * Saves `state` as the task's newest checkpoint. Resolves once the adapter's durability promise holds. The state is
   * read before the call returns its promise, so the caller may change it afterwards. Saves of one task are stored in
   * call order. Automatic retention runs afterwards and never makes the save fail.
   *
   * @param taskId - Any non-empty, well-formed string of at most 512 UTF-16 units; data, never a path.
   * @param state - At most `maxPayloadBytes` once encoded. Values that can't be stored without loss are refused.
   * @returns The summary: `sequence` from 1, `createdAt` in ISO 8601 UTC by the manager's clock, `sizeBytes` as stored.
   * @throws {StateInvalidError} The schema refuses the state; nothing was stored.
   * @throws {StateNotSerializableError} The state contains a value that can't be stored without loss. The error has its
   *   JSON path.
   * @throws {PayloadTooLargeError} The state is larger than `maxPayloadBytes`, or than V8's longest text (some 512 MB).
   * @throws {CheckpointConflictError} Another writer saved since `expectedSequence`, or `id` is taken by another
   *   checkpoint; nothing was stored.
   * @throws {StorageError} The backend failed; earlier checkpoints are intact.
   * @throws {TypeError} The call comes from within the task's own run, which saves with `run.save` and `run.next`.
   */
  async save<Metadata extends object & PlainFields<Metadata> = object, Given = Saved>(
    taskId: string,
    state: StateToSave<Saved, Given>,
    options: SaveOptions<Metadata> = {},
  ): Promise<CheckpointSummary> {
    this.#calls.assertOpen();
    assertOutsideRun(this.#runs, "manager.save", taskId);
    return this.#writer.save(taskId, state, options);
  }

  /**
   * Returns the newest intact checkpoint that matches the filter, or `undefined`. Like every read except `result` and
   * `follow`, it may return data that another caller has stored and that doesn't survive a power cut yet.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, and none of them is intact.
   * @throws {StateInvalidError} The schema refuses the newest checkpoint, which isn't skipped.
   */
  async latest(
    taskId: string,
    filter: Pick<ListQuery, "stage" | "status"> = {},
  ): Promise<Checkpoint<State> | undefined> {
    return this.#openReader.first(resolveLatestFilter(taskId, filter));
  }

  /**
   * Loads the checkpoint with this id. Each call returns an independent state.
   *
   * @throws {CheckpointNotFoundError} There is no such checkpoint.
   * @throws {CheckpointCorruptError} The checkpoint can't be read.
   */
  async restore(taskId: string, id: string): Promise<Checkpoint<State>> {
    return this.#openReader.byId(taskId, id);
  }

  /**
   * Begins a new task with the state of a checkpoint. The new task's first checkpoint also has that checkpoint's stage,
   * label and metadata, and the status `running`. Its `metadata.forkedFrom`, `{ taskId, id }`, names the original,
   * since `parentId` can't name a checkpoint of another task. If a run saved the checkpoint, the fork continues the
   * same turn: it has the turn's first state and the results recorded up to `point`. A fork from the end of a run runs
   * every step again.
   *
   * The stored state is copied unchanged: the schema, migrations and `redact` don't run. `encrypt` encrypts it again.
   * The original's events are also copied, so both tasks can receive an event that no wait has received yet. The
   * original's other log records aren't copied.
   *
   * @param point - A checkpoint's id, or the sequence of any record of the log.
   * @param options - `label` and `metadata` replace the original's. `lease` is the new task's lease.
   * @returns The new task's first checkpoint.
   * @throws {CheckpointConflictError} The new task has checkpoints; nothing was stored.
   * @throws {CheckpointNotFoundError} There is no such checkpoint.
   * @throws {CheckpointCorruptError} The checkpoint can't be read.
   */
  async fork<Metadata extends object & PlainFields<Metadata> = object>(
    taskId: string,
    point: string | number,
    newTaskId: string,
    options: Pick<SaveOptions<Metadata>, "label" | "metadata" | "lease"> = {},
  ): Promise<CheckpointSummary> {
    this.#calls.assertOpen();
    return this.#branches.fork(taskId, point, newTaskId, options);
  }

  /**
   * Goes back to a checkpoint. It saves a new checkpoint with the old one's state, stage, label and metadata, the
   * status `running`, and the old one's id as `parentId`. Nothing is removed, so another rewind can undo it, and the
   * records of the log stay where they are. The stored state and the turn's results are copied as in `fork`. Events
   * that the task has received stay received.
   *
   * If the task has an auto-save, first change the state that its `getState` returns. Otherwise the auto-save stores
   * the state from before the rewind again.
   *
   * @param point - A checkpoint's id, or the sequence of any record of the log.
   * @param options - `label` and `metadata` replace the old checkpoint's. `expectedSequence` and `lease` work as for
   *   `save`.
   * @returns The new checkpoint.
   * @throws {CheckpointConflictError} Another writer saved since `expectedSequence`; nothing was stored.
   * @throws {CheckpointNotFoundError} There is no such checkpoint.
   * @throws {CheckpointCorruptError} The checkpoint can't be read.
   */
  async rewind<Metadata extends object & PlainFields<Metadata> = object>(
    taskId: string,
    point: string | number,
    options: Pick<SaveOptions<Metadata>, "label" | "metadata" | "expectedSequence" | "lease"> = {},
  ): Promise<CheckpointSummary> {
    this.#calls.assertOpen();
    assertOutsideRun(this.#runs, "manager.rewind", taskId);
    return this.#branches.rewind(taskId, point, options);
  }

  /**
   * Lists the changes of the state from checkpoint `a` to `b`; empty if the states are equal. Items of a list match by
   * their `id`, or else by their content. States are compared in their stored form, migrated to the current version.
   *
   * @throws {CheckpointNotFoundError} One of the two checkpoints doesn't exist.
   * @throws {CheckpointCorruptError} One of the two checkpoints can't be read.
   */
  async diff(taskId: string, a: string, b: string): Promise<StateChange[]> {
    const reader = this.#openReader;
    return [...compareStates(await reader.storedState(taskId, a), await reader.storedState(taskId, b))];
  }

  /**
   * Returns the oldest checkpoint for which the predicate holds, or `undefined`. It searches by bisection, so once the
   * predicate holds, it must hold for all newer checkpoints.
   *
   * @example
   * ```ts
   * import { CheckpointManager } from "waymark";
   * import { MemoryAdapter } from "waymark/adapters/memory";
   * import { z } from "zod";
   *
   * const schema = z.object({ errors: z.array(z.string()) });
   * const manager = new CheckpointManager({ storage: new MemoryAdapter(), schema });
   * const first = await manager.firstWhere("build-42", ({ state }) => state.errors.length > 0);
   * console.log(first?.createdAt ?? "no errors");
   * ```
   *
   * If a checkpoint is damaged, it is reported, and the search takes the next newer one. So the result is the oldest
   * intact match.
   *
   * @param predicate - May return `undefined` if it can't decide: the checkpoint is skipped.
   * @param query - Limits the search to the checkpoints that match.
   * @throws {CheckpointCorruptError} There are checkpoints, and none of them is intact.
   * @throws {StateInvalidError} The schema refuses a state that the search reads.
   */
  async firstWhere(
    taskId: string,
    predicate: (checkpoint: Checkpoint<State>) => boolean | undefined | Promise<boolean | undefined>,
    query: Pick<ListQuery, "stage" | "status" | "afterSequence" | "beforeSequence"> = {},
  ): Promise<Checkpoint<State> | undefined> {
    return firstWhere(this.#openReader, resolveSearchRange(taskId, query), predicate);
  }

  /**
   * Returns summaries of the task's checkpoints, by default the newest first. Reads no payloads. See {@link latest} on
   * power cuts.
   */
  async list(taskId: string, query: ListQuery = {}): Promise<CheckpointSummary[]> {
    return this.#openReader.list(resolveListQuery(taskId, query));
  }

  /** Reads the task's checkpoints with their states, one at a time, in constant memory; by default the newest first. */
  async *history(taskId: string, query: ListQuery = {}): AsyncGenerator<Checkpoint<State>, void, void> {
    yield* this.#openReader.all(resolveListQuery(taskId, query));
  }

  /**
   * Reads the task's log as it is stored, one item at a time, in constant memory: the decoded records, and checkpoints
   * as summaries. By default the oldest first. Damaged items are reported and skipped. See {@link latest} on power
   * cuts.
   *
   * @throws {CheckpointCorruptError} Items are damaged, and the task has nothing intact.
   * @throws {UnsupportedOperationError} The storage keeps no log.
   */
  records<Kind extends TaskRecord["kind"] = TaskRecord["kind"]>(
    taskId: string,
    query?: RecordsQuery<Kind>,
  ): AsyncGenerator<TaskRecord & { readonly kind: Kind }, void, void>;
  async *records(taskId: string, query: RecordsQuery = {}): AsyncGenerator<TaskRecord, void, void> {
    this.#calls.assertOpen();
    yield* this.#records.read(resolveRecordsQuery(taskId, query));
  }

  /**
   * Reads the log like {@link records}, then continues with the items that any process adds. Yields each item above
   * `afterSequence` once, in order, and only once it survives a power cut. Ends once the task is completed or failed.
   * Waits for a task that doesn't exist yet. To reconnect, pass the last sequence that you saw.
   *
   * Removed checkpoints and the marks of ended steps may be missing. If a policy removed other records before they
   * could be read, an item of the kind `removed` is yielded, with the last removed sequence as `upToSequence`.
   *
   * @param options - `signal` ends the iteration.
   * @throws The reason of `signal`, once it is aborted.
   * @throws {CheckpointNotFoundError} The task was removed, and perhaps begun again.
   */
  follow<Kind extends TaskRecord["kind"] = TaskRecord["kind"]>(
    taskId: string,
    options?: Pick<RecordsQuery<Kind>, "afterSequence" | "kinds"> & { readonly signal?: AbortSignal | undefined },
  ): AsyncGenerator<
    | (TaskRecord & { readonly kind: Kind })
    | { readonly kind: "removed"; readonly taskId: string; readonly sequence: number; readonly upToSequence: number },
    void,
    void
  >;
  follow(taskId: string, options: FollowOptions = {}): AsyncGenerator<FollowedItem, void, void> {
    return new Follower(this.#runStore, this.#records).follow(taskId, options);
  }

  /**
   * Returns the tasks that have checkpoints, each with its status now; by default in the order of their ids.
   *
   * @param query - `status`: only tasks with this status, or with one of several, such as `["waiting", "interrupted"]`.
   */
  async tasks(query: TasksQuery = {}): Promise<TaskSummary[]> {
    return this.#openReader.tasks(resolveTasksQuery(query));
  }

  /**
   * Returns the tasks that aren't completed or cancelled, most recent first, for a prompt like "Resume from …?". Leaves
   * out child runs, because their parent run continues them. A task's `status` shows what the task waits for.
   */
  async findIncomplete(query: Pick<TasksQuery, "prefix" | "limit"> = {}): Promise<TaskSummary[]> {
    return this.#openReader.tasks(resolveIncompleteQuery(query));
  }

  /** Whether the task has any checkpoint, damaged or not. */
  async has(taskId: string): Promise<boolean> {
    return this.#openReader.has(taskId);
  }

  /** Removes one checkpoint; the others stay intact. Returns false if there is no such checkpoint. */
  async remove(taskId: string, id: string, options: Pick<SaveOptions, "lease"> = {}): Promise<boolean> {
    assertOutsideRun(this.#runs, "manager.remove", taskId);
    return this.#calls.run(() => this.#removal.removeCheckpoint(taskId, id, options), options.lease);
  }

  /** Removes the task with its events, and ends its numbering. Returns the number of removed checkpoints. */
  async removeTask(taskId: string, options?: Pick<SaveOptions, "lease">): Promise<number>;
  /**
   * Removes every task whose id begins with `prefix`, such as a tenant's; in one step if the storage supports that.
   *
   * @param query - `prefix` must not be empty, since an empty one would remove everything.
   * @returns The number of removed checkpoints.
   */
  async removeTask(query: { readonly prefix: string }): Promise<number>;
  async removeTask(task: OneOrMany, options: Pick<SaveOptions, "lease"> = {}): Promise<number> {
    if (typeof task !== "string") return this.#calls.run(() => this.#removal.removeTasks(task, options));
    assertOutsideRun(this.#runs, "manager.removeTask", task);
    return this.#calls.run(() => this.#removal.removeTask(task, options), options.lease);
  }

  /**
   * Changes a checkpoint's status and error. Without `error`, the checkpoint's old error is removed.
   *
   * @throws {CheckpointNotFoundError} There is no such checkpoint.
   * @throws {CheckpointConflictError} The checkpoint is `completed`, which is final.
   */
  async setStatus(
    taskId: string,
    id: string,
    status: CheckpointStatus,
    options: Pick<SaveOptions, "error" | "lease"> = {},
  ): Promise<void> {
    await this.#changeStatus(taskId, () => this.#statuses.set(taskId, id, status, options), options.lease);
  }

  /**
   * Marks the newest checkpoint as `completed`.
   *
   * @param options - `expectedSequence`: changes the status only if the newest checkpoint has this sequence.
   * @throws {CheckpointNotFoundError} The task has no checkpoint.
   * @throws {CheckpointConflictError} A newer checkpoint was saved meanwhile; nothing was changed.
   */
  async complete(taskId: string, options: Pick<SaveOptions, "expectedSequence" | "lease"> = {}): Promise<void> {
    await this.#changeStatus(
      taskId,
      () => this.#statuses.setNewest(taskId, "completed", undefined, options),
      options.lease,
    );
  }

  /**
   * Marks the newest checkpoint as `failed`, with the error.
   *
   * @param options - `expectedSequence`: changes the status only if the newest checkpoint has this sequence.
   * @throws {CheckpointNotFoundError} The task has no checkpoint.
   * @throws {CheckpointConflictError} A newer checkpoint was saved meanwhile, or the newest one is completed; nothing
   *   was changed.
   */
  async fail(
    taskId: string,
    error: unknown,
    options: Pick<SaveOptions, "expectedSequence" | "lease"> = {},
  ): Promise<void> {
    await this.#changeStatus(taskId, () => this.#statuses.setNewest(taskId, "failed", error, options), options.lease);
  }

  /**
   * Every `intervalMs`, saves the task's state if it differs from the newest checkpoint's. `stop()` saves the last
   * change and ends the auto-save. It stores a transient checkpoint that replaces the previous one, so policies don't
   * count it, and it never reopens a completed task. A failure is logged and emitted as `autoSaveFailed`; the next tick
   * tries again, unless the lease is lost. The timer never keeps the process alive.
   *
   * @param getState - Returns the current state; `undefined` if there is nothing to save yet.
   * @throws {TypeError} The task already has an auto-save, or an option is misspelled.
   */
  autoSave(taskId: string, getState: () => Saved | undefined, options: AutoSaveOptions = {}): AutoSave<Saved> {
    this.#calls.assertOpen();
    return this.#autoSaves.start(taskId, getState, options, this.#runs.has(taskId));
  }

  /**
   * Runs a function under the task's lease. After a kill, run it again: finished steps return their recorded results.
   * If the run is completed, nothing runs, and its stored result is returned. So the task's id is the idempotency key.
   *
   * @example
   * ```ts
   * import { CheckpointManager } from "waymark";
   * import { MemoryAdapter } from "waymark/adapters/memory";
   *
   * const manager = new CheckpointManager({ storage: new MemoryAdapter() });
   * const sum = await manager.run("sum", async (run) => {
   *   const a = await run.step("a", () => 1);
   *   const b = await run.step("b", () => 2);
   *   return a + b;
   * });
   * ```
   *
   * @param fn - Receives the run: its state, and `step`, `next`, `save`. Code outside of steps runs again at each
   *   resume.
   * @returns The function's result, as stored.
   * @throws The function's error. The task is then `failed`, and a later call tries the failed step again.
   * @throws {LeaseHeldError} Another runner holds the task's lease.
   * @throws {LeaseLostError} The lease was lost; another runner may have the task.
   * @throws {CheckpointConflictError} Another writer saved a checkpoint of the task. The next call continues with its
   *   state.
   * @throws {RunMismatchError} The run began with another version or input.
   * @throws {RunPausedError} `signal`, a process signal or `close` has paused the run.
   * @throws {StateNotSerializableError} The function's result can't be stored.
   * @throws {UnsupportedOperationError} The storage has no leases.
   */
  async run<Result, Input = undefined, Initial extends Saved | undefined = undefined>(
    taskId: string,
    fn: RunFunction<Result, RunStateOf<State, NoInfer<Initial>>, RunSavedOf<State, Saved, NoInfer<Initial>>, Input> &
      ((...args: never[]) => StorableResult<NoInfer<Result>>),
    options: RunOptions<Input, Initial> & { readonly input?: NoInfer<Storable<Input>> | undefined } = {},
  ): Promise<Exclude<Result, NextTurn>> {
    return this.#calls.run(() => this.#runs.run(taskId, fn, options)) as Promise<Exclude<Result, NextTurn>>;
  }

  /**
   * Saves a run of the task for a worker to begin. If the task already has a run, this changes nothing, so the task's
   * id is the idempotency key.
   *
   * @param input - The run's input, stored.
   * @param options - `dueAt`: when a worker may begin the run. Default: at once.
   * @returns True if the run was saved; false if the task already has a run with this input, ended or not.
   * @throws {RunMismatchError} The task has a run with another input.
   * @throws {RunCancelledError} The task was cancelled.
   */
  async enqueue<Input>(
    taskId: string,
    input: Input & NoInfer<Storable<Input>>,
    options?: { readonly dueAt?: Date | undefined },
  ): Promise<boolean>;
  /** Saves a run without an input. */
  async enqueue(taskId: string): Promise<boolean>;
  async enqueue(
    taskId: string,
    input?: unknown,
    options: { readonly dueAt?: Date | undefined } = {},
  ): Promise<boolean> {
    return this.#calls.run(() => this.#runs.enqueue(taskId, input, options));
  }

  /**
   * Runs the tasks that are due, on any number of machines: tasks that `enqueue` saved, tasks whose wait is over, and
   * tasks whose worker has died. Each runs as in `run`, but is suspended while it waits. A run that throws is recorded
   * as failed; `retry` puts it back.
   *
   * Resolves once the worker is drained: `signal` aborted, the process got a signal, or the manager closes.
   *
   * @example
   * ```ts
   * import { CheckpointManager } from "waymark";
   * import { SqliteAdapter } from "waymark/adapters/sqlite";
   *
   * const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: "queue.db" }) });
   * await manager.enqueue("mail/42", { to: "ada@example.org" });
   * await manager.work<{ to: string }>({ prefix: "mail/", concurrency: 4 }, async (run) => {
   *   await run.step("send", ({ key }) => send(run.input.to, key));
   * });
   *
   * declare function send(to: string, key: string): Promise<void>;
   * ```
   *
   * @throws {TypeError | RangeError} An option is missing, misspelled or out of range.
   * @throws {UnsupportedOperationError} The storage has no queue for workers.
   */
  async work<Input = unknown>(
    options: WorkOptions,
    fn: RunFunction<unknown, RunStateOf<State, undefined>, RunSavedOf<State, Saved, undefined>, Input>,
  ): Promise<void> {
    return this.#calls.run(async () => {
      requireQueue(this.#options.storage);
      await new Worker(this.#runStore, this.#runs, fn, options).work();
    });
  }

  /**
   * Counts the tasks with the prefix that are due for a worker now, and returns since when the oldest one has been due.
   */
  async queue(query: { readonly prefix: string }): Promise<DueCount> {
    return this.#calls.run(async () => countDue(this.#options, resolvePrefix("queue", query, PREFIX_FORM)));
  }

  /**
   * Sends an event to a task, for its `run.waitFor`. Resolves once the event is as durable as the adapter promises. Any
   * process may send it, even before the run waits or begins.
   *
   * An event sent to a failed task is kept for its retry.
   *
   * @param options - `id`: unique in the task; an event that is sent again with the same id counts once. `by`: the
   *   sender. `wait`: the key of the open wait to answer; default: the next wait with the event's name. `force`: sends
   *   the event even if the task is completed or cancelled, or the wait is over.
   * @returns The event's id.
   * @throws {CheckpointConflictError} The task is completed or cancelled, or has an event with the same id and another
   *   name or value, or `wait` has been answered or is over. Nothing was sent, unless the message says that the wait
   *   ended meanwhile.
   * @throws {StateNotSerializableError | PayloadTooLargeError} The value can't be stored.
   */
  async send<Value>(
    taskId: string,
    name: string,
    value: Value & NoInfer<Storable<Value>>,
    options?: SendOptions,
  ): Promise<{ readonly id: string }>;
  /** Sends an event without a value. */
  async send(taskId: string, name: string): Promise<{ readonly id: string }>;
  async send(
    taskId: string,
    name: string,
    value?: unknown,
    options: SendOptions = {},
  ): Promise<{ readonly id: string }> {
    return this.#calls.run(async () => ({ id: await this.#events.send(taskId, name, value, options) }));
  }

  /** Returns the task's events, received ones included, in the order in which they were sent. */
  async events(taskId: string): Promise<TaskEvent[]> {
    return this.#calls.run(() => this.#events.list(taskId));
  }

  /**
   * Takes the task from its runner and records it as failed. If the storage reports changes, the runner's signal aborts
   * some 30 ms later. Otherwise it aborts at the runner's next save or lease renewal (each third of the lease's time).
   * Later writes of the runner are refused. Later calls of `run` throw a RunCancelledError unless they pass `restart`.
   *
   * @param task - A task's id, or the prefix of all incomplete tasks to cancel.
   * @param reason - Who cancels it, and why.
   * @returns The number of cancelled tasks.
   * @throws {CheckpointNotFoundError} The task has no checkpoint.
   * @throws {CheckpointConflictError} The task is completed.
   */
  async cancel(task: OneOrMany, reason: string): Promise<number> {
    checkText("The reason of a cancellation", reason, 1);
    return this.#calls.run(() => cancelTasks(this.#runStore, task, reason));
  }

  /**
   * Puts failed tasks back, so that a worker, or the next `run`, continues them. Cancelled tasks stay failed.
   *
   * @param task - A task's id, or the prefix of all failed tasks to put back.
   * @param options - `from`, for a single task: the title of a step of the current turn, such as `model` or `model 2`.
   *   Its result and all results recorded after it are dropped, so those steps run again with the same keys.
   * @returns The number of tasks that were put back.
   * @throws {CheckpointNotFoundError} The task has no checkpoint.
   * @throws {RunCancelledError} The task was cancelled.
   * @throws {RunMismatchError} The current turn has no recorded step `from`; nothing was changed.
   */
  async retry(task: OneOrMany, options: { readonly from?: string | undefined } = {}): Promise<number> {
    return this.#calls.run(() => retryTasks(this.#runStore, task, options));
  }

  /**
   * Waits, in any process, until the task's run has ended, and returns its result. The task needn't exist yet.
   *
   * @param options - `signal` stops the wait.
   * @returns The result of the run's function, as stored. Its type isn't checked.
   * @throws {RunFailedError} The run has failed; `cause` is its error.
   * @throws {RunCancelledError} The run was cancelled.
   */
  async result<Result = unknown>(
    taskId: string,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<Result>;
  async result(taskId: string, options: { readonly signal?: AbortSignal | undefined } = {}): Promise<unknown> {
    return this.#calls.run(() => this.#runs.result(taskId, options));
  }

  /**
   * Claims the right to run the task, for one runner at a time among all machines that share the storage. The lease
   * renews itself until it is released. `close` releases it. An auto-save with this lease and `saveOnSignal` also
   * releases it when a signal ends the process. If a runner dies, its lease is free at once on the same machine (on
   * Linux, unless `holder` was given); elsewhere it expires.
   *
   * @example
   * ```ts
   * const lease = await manager.lease("build-42", { ttlMs: 30_000 });
   * await manager.save("build-42", { phase: 3 }, { lease });
   * await lease.release();
   * ```
   *
   * @throws {LeaseHeldError} Another runner holds the lease; the error has its holder and the time until it expires.
   * @throws {LeaseLostError} The lease expired before the storage answered, and another runner claimed the task.
   * @throws {UnsupportedOperationError} The storage has no leases.
   */
  async lease(taskId: string, options: LeaseOptions = {}): Promise<Lease> {
    return this.#calls.run(() => this.#runStore.claim(taskId, options));
  }

  /**
   * Returns who holds the task's lease, and when it expires unless it is renewed; `undefined` if it is free.
   *
   * @throws {UnsupportedOperationError} The storage has no leases.
   */
  async leaseOf(taskId: string): Promise<LeaseInfo | undefined> {
    return this.#calls.run(() => readLease(this.#options, taskId));
  }

  /** Calls the listener at each notification with this name. Returns a function that unsubscribes. */
  on<Name extends keyof Notifications>(name: Name, listener: (details: Notifications[Name]) => void): () => void {
    return this.#notifications.on(name, listener);
  }

  /**
   * Stops auto-saves (which save their last change), waits for the calls in progress, and closes the storage unless
   * `ownsStorage` is false. Calls of `maintenance` are stopped at their next checkpoint instead. Idempotent; every
   * later call throws a ClosedError.
   *
   * @throws {TypeError} The call comes from within a run of this manager.
   */
  async close(): Promise<void> {
    this.#runs.assertOutside("close");
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @throws {ClosedError} The manager is closed. */
  get #openReader(): CheckpointReader<State> {
    this.#calls.assertOpen();
    return this.#reader;
  }

  /** Calls `change` between two saves of the task's auto-save, if the task has one. */
  #changeStatus(taskId: string, change: () => Promise<void>, lease: Lease | undefined): Promise<void> {
    return this.#calls.run(() => this.#autoSaves.between(taskId, change), lease);
  }

  async #close(): Promise<void> {
    this.#calls.startClosing();
    const stopped = await this.#autoSaves.stopAll();
    await this.#calls.settled();
    await this.#runStore.releaseAll();
    if (this.#options.ownsStorage) await this.#options.storage.close();
    const failed = stopped.find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }
}
