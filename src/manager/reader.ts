import { types } from "node:util";
import { type OpenedPayload, openPayload, openText, type PayloadText, stateDigest } from "../codec/payload.js";
import type { CheckpointQuery } from "../contract/adapter.js";
import { checkId, checkTaskId } from "../contract/arguments.js";
import {
  type Checkpoint,
  type CheckpointSummary,
  describeCheckpoint,
  findDamage,
  type StoredCheckpoint,
  type TaskSummary,
  toFailure,
  toSummary,
} from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointCorruptError, CheckpointError, StorageError, UnsupportedFormatError } from "../contract/errors.js";
import { corruptRecord, ifIntact, notFoundError, nothingIntactError } from "./damage.js";
import type { NotificationHub } from "./notifications.js";
import type { ResolvedOptions } from "./options.js";
import { findNewest } from "./queries.js";
import { decodeWithSchema } from "./schema.js";
import { heldReader, listTasks, type TaskSelection } from "./task-list.js";
import { publishDamage, traced, tracedFields, tracing } from "./tracing.js";

/** A checkpoint whose text hasn't been decoded. */
export interface CheckpointText extends PayloadText {
  readonly summary: CheckpointSummary;
  /** The sequence of the task's newest checkpoint, damaged or not. */
  readonly newest: number;
}

type Named = Pick<CheckpointSummary, "id" | "taskId">;

/**
 * Reads checkpoints from the storage. It checks seals and digests, decodes states, and reports and skips corrupt
 * records. If all of a task's records are corrupt, it throws.
 */
export class CheckpointReader<State = unknown> {
  readonly #options: ResolvedOptions;
  readonly #notifications: NotificationHub;

  constructor(options: ResolvedOptions, notifications: NotificationHub) {
    this.#options = options;
    this.#notifications = notifications;
  }

  /** Returns the first intact checkpoint of the query. */
  first(query: CheckpointQuery): Promise<Checkpoint<State> | undefined> {
    return traced(
      tracing.latest,
      { taskId: query.taskId },
      async () => {
        for await (const checkpoint of this.#checkpoints(query)) return checkpoint;
        return undefined;
      },
      (checkpoint) => (checkpoint ? { ...tracedFields(checkpoint), sequence: checkpoint.sequence } : {}),
    );
  }

  /**
   * Yields the intact checkpoints of the query. Checkpoints with damage that only the seal or the digest shows don't
   * count towards its limit.
   */
  async *all({ limit, ...query }: CheckpointQuery): AsyncGenerator<Checkpoint<State>, void, void> {
    if (limit === 0) return;
    let count = 0;
    for await (const checkpoint of this.#checkpoints(query)) {
      yield checkpoint;
      count += 1;
      if (count === limit) return;
    }
  }

  /** Loads the checkpoint with this id. @throws {CheckpointNotFoundError | CheckpointCorruptError} */
  byId(taskId: string, id: string): Promise<Checkpoint<State>> {
    return this.use(taskId, id, (record) => this.#decode(record));
  }

  /**
   * Loads the state of the checkpoint with this id in its stored form: migrated to the current version, but not decoded
   * by the schema.
   *
   * @throws {CheckpointNotFoundError | CheckpointCorruptError}
   */
  async storedState(taskId: string, id: string): Promise<unknown> {
    return (await this.use(taskId, id, (record) => this.#open(record, (state) => ({ state })))).state;
  }

  /**
   * Reads the record, checks its seal, returns `use(record)`. If `use` throws a CheckpointCorruptError, the record is
   * reported as damaged.
   *
   * @throws {CheckpointNotFoundError | CheckpointCorruptError}
   */
  async use<Result extends object>(
    taskId: string,
    id: string,
    use: (record: StoredCheckpoint) => Result | Promise<Result>,
  ): Promise<Result> {
    checkTaskId(taskId);
    checkId("A checkpoint id", id);
    const record = await this.#options.storage.get(taskId, id);
    if (record === undefined) throw notFoundError(taskId, id);
    const used = await ifIntact(record, use);
    if (!isCorrupt(used)) return used;
    this.reportDamage(used);
    throw new CheckpointCorruptError(
      `${describeCheckpoint({ id, taskId })} can't be read: ${used.reason} (${used.location}). ` +
        "It was left untouched; latest() returns the newest intact one.",
      { cause: used.cause },
    );
  }

  /**
   * Loads the text of the task's newest intact checkpoint, and the sequence of its newest checkpoint, damaged or not.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, and none of them is intact.
   */
  async newestText(taskId: string): Promise<CheckpointText | undefined> {
    let newest = 0;
    const records = this.#options.storage.read({ taskId, order: "newest" });
    const open = (record: StoredCheckpoint | CorruptRecord) => {
      newest = Math.max(newest, record.sequence ?? 0);
      return this.#openText(record);
    };
    for await (const text of this.#intact(taskId, records, open)) return { ...text, newest };
    return undefined;
  }

  /** Yields the texts of the checkpoints that match. Damaged checkpoints are reported and left out. */
  async *texts(query: CheckpointQuery): AsyncGenerator<CheckpointText, void, void> {
    for await (const record of this.#options.storage.read(query)) {
      const opened = await this.#openText(record);
      if (isCorrupt(opened)) this.reportDamage(opened);
      else yield opened;
    }
  }

  /** Loads the text of the checkpoint with this id. @throws {CheckpointNotFoundError | CheckpointCorruptError} */
  textById(taskId: string, id: string): Promise<CheckpointText> {
    return this.use(taskId, id, (record) => this.#readText(record));
  }

  /** @param onDamage - Called for each damaged record, which is also reported. */
  async list(query: CheckpointQuery, onDamage?: (record: CorruptRecord) => void): Promise<CheckpointSummary[]> {
    const summaries: CheckpointSummary[] = [];
    const open = (record: CheckpointSummary | CorruptRecord) => {
      if (isCorrupt(record)) onDamage?.(record);
      return record;
    };
    for await (const summary of this.#intact(query.taskId, this.#options.storage.list(query), open)) {
      summaries.push(summary);
    }
    return summaries;
  }

  /**
   * Returns the newest checkpoint's summary. If the newest checkpoint is corrupt, throws, since an older one would be
   * the wrong answer.
   */
  async newest(taskId: string): Promise<CheckpointSummary> {
    for await (const record of this.#options.storage.list({ taskId, order: "newest", limit: 1 })) {
      if (!isCorrupt(record)) return record;
      this.reportDamage(record);
      throw new CheckpointCorruptError(
        `The newest checkpoint of task ${JSON.stringify(taskId)} can't be read: ${record.reason} (${record.location}). ` +
          "It was left untouched, and nothing was changed. Save again, then change the status.",
        { cause: record.cause },
      );
    }
    throw notFoundError(taskId);
  }

  /** See {@link findNewest}. */
  async newestWhere(
    taskId: string,
    is?: (summary: CheckpointSummary) => boolean,
  ): Promise<CheckpointSummary | undefined> {
    return findNewest(this.#options.storage, taskId, is);
  }

  /**
   * Returns the {@link stateDigest} of a checkpoint; `undefined` if the checkpoint can't be read, or its state has
   * another version.
   */
  async readDigest(taskId: string, id: string): Promise<string | undefined> {
    try {
      const { summary, ...text } = await this.textById(taskId, id);
      return summary.stateVersion === this.#options.stateVersion ? stateDigest(text) : undefined;
    } catch (error) {
      // The checkpoint is removed or damaged, or its key is missing, so its state is unknown.
      if (error instanceof CheckpointError && !(error instanceof StorageError)) return undefined;
      throw error;
    }
  }

  /** Whether at least one of these checkpoints is intact, payload included. Needs neither key nor schema. */
  async hasIntact(taskId: string, ids: readonly string[]): Promise<boolean> {
    for (const id of ids) {
      const record = await this.#options.storage.get(taskId, id);
      if (record === undefined) continue;
      const damage = isCorrupt(record) ? record.reason : findDamage(record);
      if (damage === undefined) return true;
      this.reportDamage(isCorrupt(record) ? record : corruptRecord(record, damage));
    }
    return false;
  }

  async has(taskId: string): Promise<boolean> {
    checkTaskId(taskId);
    for await (const _record of this.#options.storage.list({ taskId, order: "newest", limit: 1 })) return true;
    return false;
  }

  /** Returns the selected tasks with their statuses. */
  async tasks(selection: TaskSelection): Promise<TaskSummary[]> {
    const { storage, clock } = this.#options;
    const damaged: CorruptRecord[] = [];
    const tasks: TaskSummary[] = [];
    for await (const task of listTasks(storage, selection, heldReader(storage), clock())) {
      if (isCorrupt(task)) this.reportDamage(task, damaged);
      else tasks.push({ taskId: task.taskId, status: task.status, count: task.count, newest: task.newest });
    }
    if (tasks.length > 0 || damaged.length === 0) return tasks;
    for await (const task of storage.tasks({ order: "taskId" })) if (!isCorrupt(task)) return [];
    throw nothingIntactError("No task has an intact checkpoint", damaged);
  }

  /** @param damaged - The record is added to this list. */
  reportDamage(record: CorruptRecord, damaged?: CorruptRecord[]): void {
    damaged?.push(record);
    this.#options.logger.warn({ ...record }, `Skipped a corrupt record: ${record.location}: ${record.reason}`);
    this.#notifications.emit("corrupt", record);
    publishDamage(record);
  }

  /**
   * Yields what `open` makes of the task's records, and reports the damaged ones.
   *
   * @param open - Returns a CorruptRecord if the record is damaged.
   * @throws {CheckpointCorruptError} Records are damaged, and the task has nothing intact.
   */
  async *#intact<Record, Opened extends object>(
    taskId: string,
    records: AsyncIterable<Record>,
    open: (record: Record) => Opened | CorruptRecord | Promise<Opened | CorruptRecord>,
  ): AsyncGenerator<Opened, void, void> {
    const damaged: CorruptRecord[] = [];
    let isEmpty = true;
    for await (const record of records) {
      // Without transforms, the result isn't a promise. Not awaiting it saves a turn of the event loop.
      const opening = open(record);
      const opened = types.isPromise(opening) ? await opening : opening;
      if (isCorrupt(opened)) this.reportDamage(opened, damaged);
      else {
        isEmpty = false;
        yield opened;
      }
    }
    if (!isEmpty || damaged.length === 0) return;
    // The task may have intact checkpoints that the query doesn't select.
    for await (const record of this.#options.storage.read({ taskId, order: "newest" })) {
      if (!isCorrupt(await ifIntact(record, (intact) => this.#decode(intact)))) return;
    }
    throw nothingIntactError(`Task ${JSON.stringify(taskId)} has no intact checkpoint`, damaged);
  }

  #checkpoints(query: CheckpointQuery) {
    const open = (record: StoredCheckpoint | CorruptRecord) => ifIntact(record, (intact) => this.#decode(intact));
    return this.#intact(query.taskId, this.#options.storage.read(query), open);
  }

  #openText(record: StoredCheckpoint | CorruptRecord) {
    return ifIntact(record, (intact) => this.#readText(intact));
  }

  async #readText(record: StoredCheckpoint): Promise<CheckpointText> {
    const text = await openText(record.payload, { transforms: this.#options.transforms, context: record });
    return { ...text, summary: toSummary(record), newest: record.sequence };
  }

  #decode(record: StoredCheckpoint): Checkpoint<State> | Promise<Checkpoint<State>> {
    return this.#open(record, (current) => ({ ...toSummary(record), state: this.decoded(record, current) }));
  }

  /** Calls `make` with the state in its stored form, migrated to the current version. */
  #open<Result>(record: StoredCheckpoint, make: (current: unknown) => Result): Result | Promise<Result> {
    const opened = openPayload(record.payload, { transforms: this.#options.transforms, context: record });
    const current = ({ state }: OpenedPayload) => make(this.migrated(record, state));
    return types.isPromise(opened) ? opened.then(current) : current(opened);
  }

  /**
   * Decodes a state from its stored form of the current version. @param owner - The state's checkpoint, for messages.
   */
  decoded(owner: Named, current: unknown): State {
    const { schema } = this.#options;
    // A run that saved no state has no state to decode. Without a schema, the program promises the state's type.
    if (schema === undefined || current === undefined) return current as State;
    return decodeWithSchema(
      schema,
      current,
      `${describeCheckpoint(owner)} is intact, but the schema refuses its state`,
    ) as State;
  }

  /** Migrates a state in its stored form to the current version. */
  migrated(record: Named & Pick<CheckpointSummary, "stateVersion">, stored: unknown): unknown {
    const { stateVersion, migrations } = this.#options;
    const what = describeCheckpoint(record);
    if (record.stateVersion > stateVersion) {
      throw new UnsupportedFormatError(
        `${what} holds a state of version ${record.stateVersion}; this program knows versions up to ${stateVersion}. ` +
          "It was left untouched; load it with the newer program.",
      );
    }
    let state = stored;
    for (let version = record.stateVersion; version < stateVersion; version++) {
      const step = `from version ${version} to ${version + 1}`;
      const migrate = migrations[version];
      if (migrate === undefined) {
        throw new UnsupportedFormatError(
          `${what} holds a state of version ${record.stateVersion}, and there is no migration ${step}. ` +
            "It was left untouched; add the migration.",
        );
      }
      try {
        state = migrate(state);
      } catch (cause) {
        throw new UnsupportedFormatError(
          `${what} is intact, but the migration ${step} failed: ${toFailure(cause).message}`,
          { cause },
        );
      }
    }
    return state;
  }
}
