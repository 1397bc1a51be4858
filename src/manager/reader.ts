import { types } from "node:util";
import { type OpenedPayload, openPayload, openText, type PayloadText, stateDigest } from "../codec/payload.js";
import {
  type CheckpointQuery,
  type CorruptRecord,
  hasCheckpoint,
  isCorrupt,
  type TaskQuery,
} from "../contract/adapter.js";
import { checkId, checkTaskId } from "../contract/arguments.js";
import {
  brokenSeal,
  type Checkpoint,
  type CheckpointSummary,
  failureOf,
  findDamage,
  type StoredCheckpoint,
  summaryOf,
  type TaskSummary,
  titleOf,
} from "../contract/checkpoint.js";
import {
  CheckpointCorruptError,
  CheckpointError,
  CheckpointNotFoundError,
  isStackOverflow,
  UnsupportedFormatError,
} from "../contract/errors.js";
import type { RunRecord } from "../contract/run-record.js";
import { isEventsTask } from "../contract/task-events.js";
import type { NotificationHub } from "./notifications.js";
import type { ResolvedOptions } from "./options.js";
import { decodeWithSchema } from "./schema.js";
import { publishDamage, traced, tracedFields, tracing } from "./tracing.js";

/** A checkpoint whose text hasn't been decoded. */
export interface CheckpointText extends PayloadText {
  readonly summary: CheckpointSummary;
  /** The sequence of the task's newest checkpoint, damaged or not. */
  readonly newest: number;
}

/**
 * Reads checkpoints from the storage. It checks seals and digests, decodes states, and reports and skips corrupt
 * records. If all of a task's records are corrupt, it throws.
 */
export class CheckpointReader<State = unknown> {
  readonly #options: ResolvedOptions;
  readonly #events: NotificationHub;

  constructor(options: ResolvedOptions, notifications: NotificationHub) {
    this.#options = options;
    this.#events = notifications;
  }

  async first(query: CheckpointQuery): Promise<Checkpoint<State> | undefined> {
    if (!tracing.latest.hasSubscribers) return this.#first(query);
    const facts = (found?: Checkpoint<State>) => (found ? { ...tracedFields(found), sequence: found.sequence } : {});
    return traced(tracing.latest, { taskId: query.taskId }, () => this.#first(query), facts);
  }

  async #first(query: CheckpointQuery): Promise<Checkpoint<State> | undefined> {
    const damage = new Damage();
    for await (const record of this.#options.storage.read(query)) {
      // Without transforms the result isn't a promise, and not awaiting it saves a turn of the event loop.
      const opening = this.#open(record);
      const opened = types.isPromise(opening) ? await opening : opening;
      if (!isCorrupt(opened)) return opened;
      this.#report(damage, opened);
    }
    if (damage.found) await this.#requireIntact(query.taskId, damage);
    return undefined;
  }

  async *all(query: CheckpointQuery): AsyncGenerator<Checkpoint<State>, void, void> {
    const { limit = Number.POSITIVE_INFINITY } = query;
    const bound = query.order === "newest" ? "beforeSequence" : "afterSequence";
    const damage = new Damage();
    let [rest, given] = [query, 0];
    for (let wanted = limit; wanted > 0; wanted = limit - given) {
      let [read, last] = [0, 0];
      for await (const record of this.#options.storage.read(rest)) {
        if (!isCorrupt(record)) [read, last] = [read + 1, record.sequence];
        const opened = await this.#open(record);
        if (isCorrupt(opened)) {
          this.#report(damage, opened);
          continue;
        }
        given += 1;
        yield opened;
      }
      if (read < wanted) break;
      // The storage's limit also counted records whose damage only the seal or the digest shows. So more are read.
      rest = { ...query, limit: limit - given, [bound]: last };
    }
    if (given === 0 && damage.found) await this.#requireIntact(query.taskId, damage);
  }

  /** The checkpoint with this id. @throws {CheckpointNotFoundError | CheckpointCorruptError} */
  async byId(taskId: string, id: string): Promise<Checkpoint<State>> {
    return this.use(taskId, id, (record) => this.#checkpoint(record));
  }

  /**
   * The state of the checkpoint with this id, in its stored form: migrated to the current version, but not decoded by
   * the schema.
   *
   * @throws {CheckpointNotFoundError | CheckpointCorruptError}
   */
  async storedState(taskId: string, id: string): Promise<unknown> {
    return (await this.use(taskId, id, (record) => this.#opened(record, (state) => ({ state })))).state;
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
    if (record === undefined) throw notFound(taskId, id);
    const opened = await ifIntact(record, use);
    if (!isCorrupt(opened)) return opened;
    this.reportDamage(opened);
    throw new CheckpointCorruptError(
      `${titleOf({ id, taskId })} can't be read: ${opened.reason} (${opened.location}). ` +
        "It was left untouched; latest() gives the newest intact one.",
      { cause: opened.cause },
    );
  }

  /**
   * The text of the task's newest intact checkpoint, and the sequence of its newest checkpoint, damaged or not.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, and none of them is intact.
   */
  async newestText(taskId: string): Promise<CheckpointText | undefined> {
    const damage = new Damage();
    let newest = 0;
    for await (const record of this.#options.storage.read({ taskId, order: "newest" })) {
      newest = Math.max(newest, record.sequence ?? 0);
      const opened = await this.#text(record);
      if (!isCorrupt(opened)) return { ...opened, newest };
      this.#report(damage, opened);
    }
    if (damage.found) throw damage.error(`Task ${JSON.stringify(taskId)} has no intact checkpoint`);
    return undefined;
  }

  /** The texts of the checkpoints that match. Damaged ones are reported and left out. */
  async *texts(query: CheckpointQuery): AsyncGenerator<CheckpointText, void, void> {
    for await (const record of this.#options.storage.read(query)) {
      const opened = await this.#text(record);
      if (isCorrupt(opened)) this.reportDamage(opened);
      else yield { ...opened, newest: opened.summary.sequence };
    }
  }

  /**
   * Like {@link newestText}, for the checkpoint with this id. @throws {CheckpointNotFoundError |
   * CheckpointCorruptError}
   */
  async textById(taskId: string, id: string): Promise<CheckpointText> {
    return this.use(taskId, id, async (record) => ({
      ...(await openText(record.payload, { transforms: this.#options.transforms, context: record })),
      summary: summaryOf(record),
      newest: record.sequence,
    }));
  }

  async list(query: CheckpointQuery): Promise<CheckpointSummary[]> {
    const found: CheckpointSummary[] = [];
    await this.eachRecord(query, (record) => {
      if (!isCorrupt(record)) found.push(record);
    });
    return found;
  }

  /**
   * Calls `visit` for each summary and each corrupt record, one at a time to save memory. Corrupt records are also
   * reported.
   */
  async eachRecord(query: CheckpointQuery, visit: (record: CheckpointSummary | CorruptRecord) => void): Promise<void> {
    const damage = new Damage();
    let isEmpty = true;
    for await (const record of this.#options.storage.list(query)) {
      if (isCorrupt(record)) this.#report(damage, record);
      else isEmpty = false;
      visit(record);
    }
    if (isEmpty && damage.found) await this.#requireIntact(query.taskId, damage);
  }

  /**
   * The newest checkpoint's summary. If the newest checkpoint is corrupt, it throws, since an older one would be the
   * wrong answer.
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
    throw notFound(taskId);
  }

  /** The task's newest readable summary for which `is` returns true. Default: any. */
  async newestWhere(
    taskId: string,
    is?: (summary: CheckpointSummary) => boolean,
  ): Promise<CheckpointSummary | undefined> {
    const limit = is === undefined ? 1 : undefined;
    for await (const record of this.#options.storage.list({ taskId, order: "newest", limit })) {
      if (!isCorrupt(record) && is?.(record) !== false) return record;
    }
    return undefined;
  }

  /**
   * The {@link stateDigest} of a checkpoint. `undefined` if the checkpoint can't be read, or its state has another
   * version.
   */
  async digestOf(taskId: string, id: string): Promise<string | undefined> {
    const { storage, transforms, stateVersion } = this.#options;
    const stored = await storage.get(taskId, id);
    if (stored === undefined || isCorrupt(stored) || brokenSeal(stored) !== undefined) return undefined;
    if (stored.stateVersion !== stateVersion) return undefined;
    try {
      return stateDigest(await openText(stored.payload, { transforms, context: stored }));
    } catch (error) {
      // The checkpoint is damaged, or its key is missing, so its state is unknown.
      if (error instanceof CheckpointError) return undefined;
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

  /**
   * The tasks of the query, without those that have records only and the companions that hold events.
   *
   * @param isLeftOut - Which other tasks to leave out.
   */
  async tasks(query: TaskQuery, isLeftOut?: (task: TaskSummary) => boolean): Promise<TaskSummary[]> {
    const damage = new Damage();
    let found: TaskSummary[];
    let leftOut = 0;
    for (;;) {
      found = [];
      let [read, hidden] = [0, 0];
      const limit = query.limit === undefined ? undefined : query.limit + leftOut;
      for await (const task of this.#options.storage.tasks({ ...query, limit })) {
        if (isCorrupt(task)) this.#report(damage, task);
        else {
          read += 1;
          if (!hasCheckpoint(task) || isEventsTask(task.taskId) || isLeftOut?.(task)) hidden += 1;
          else if (found.length < (query.limit ?? Number.POSITIVE_INFINITY))
            found.push({ taskId: task.taskId, count: task.count, newest: task.newest });
        }
      }
      // Those that are left out took places within the limit, so this reads again with a limit that is at least twice as
      // high: there may be thousands of them.
      if (limit === undefined || read < limit || hidden <= leftOut) break;
      leftOut = 2 * hidden + (query.limit ?? 0);
    }
    if (found.length === 0 && damage.found) {
      for await (const task of this.#options.storage.tasks({ order: "taskId" })) if (!isCorrupt(task)) return [];
      throw damage.error("No task has an intact checkpoint");
    }
    return found;
  }

  #report(damage: Damage, record: CorruptRecord): void {
    damage.add(record);
    this.reportDamage(record);
  }

  reportDamage(record: CorruptRecord): void {
    this.#options.logger.warn({ ...record }, `Skipped a corrupt checkpoint: ${record.location}: ${record.reason}`);
    this.#events.emit("corrupt", record);
    publishDamage(record);
  }

  /**
   * Call it if a query found damage and nothing intact. It throws unless the task has an intact checkpoint that the
   * query didn't select.
   */
  async #requireIntact(taskId: string, damage: Damage): Promise<void> {
    for await (const record of this.#options.storage.read({ taskId, order: "newest" })) {
      if (!isCorrupt(await this.#open(record))) return;
    }
    throw damage.error(`Task ${JSON.stringify(taskId)} has no intact checkpoint`);
  }

  #text(record: StoredCheckpoint | CorruptRecord) {
    const { transforms } = this.#options;
    return ifIntact(record, async (intact) => ({
      ...(await openText(intact.payload, { transforms, context: intact })),
      summary: summaryOf(intact),
    }));
  }

  #open(record: StoredCheckpoint | CorruptRecord) {
    return ifIntact(record, (intact) => this.#checkpoint(intact));
  }

  #checkpoint(record: StoredCheckpoint): Checkpoint<State> | Promise<Checkpoint<State>> {
    return this.#opened(record, (current, run) => ({
      ...summaryOf(record),
      state: this.decoded(record, current),
      ...(run && { run }),
    }));
  }

  /** Calls `make` with the state in its stored form, migrated to the current version. */
  #opened<Result>(
    record: StoredCheckpoint,
    make: (current: unknown, run: RunRecord | undefined) => Result,
  ): Result | Promise<Result> {
    const opened = openPayload(record.payload, { transforms: this.#options.transforms, context: record });
    const current = ({ state, run }: OpenedPayload) => make(this.migrated(record, state), run);
    return types.isPromise(opened) ? opened.then(current) : current(opened);
  }

  /**
   * Decodes a state from its stored form of the current version. @param owner - The state's checkpoint, for messages.
   */
  decoded(owner: Named, current: unknown): State {
    const { schema } = this.#options;
    const refused = `${titleOf(owner)} is intact, but the schema refuses its state`;
    // A run that saved no state has no state to decode.
    const isPlain = schema === undefined || current === undefined;
    // The schema has checked the type; without a schema, the program promises it.
    return (isPlain ? current : decodeWithSchema(schema, current, refused)) as State;
  }

  migrated(record: Named & Pick<CheckpointSummary, "stateVersion">, stored: unknown): unknown {
    const { stateVersion, migrations } = this.#options;
    const what = titleOf(record);
    if (record.stateVersion > stateVersion) {
      throw new UnsupportedFormatError(
        `${what} holds a state of version ${record.stateVersion}; this program knows versions up to ${stateVersion}. ` +
          "It was left untouched; load it with the newer program.",
      );
    }
    let state = stored;
    for (let version = record.stateVersion; version < stateVersion; version++) {
      const migration = migrations[version];
      if (migration === undefined) {
        throw new UnsupportedFormatError(
          `${what} holds a state of version ${record.stateVersion}, and there is no migration from version ${version} to ${version + 1}. ` +
            "It was left untouched; add the migration.",
        );
      }
      state = migrate(
        migration,
        state,
        `${what} is intact, but the migration from version ${version} to ${version + 1} failed`,
      );
    }
    return state;
  }
}

/**
 * Returns `use(record)` if the record's seal holds. If the seal doesn't hold, or `use` finds the record damaged,
 * returns a CorruptRecord. The result is a promise only if `use` returns one.
 */
function ifIntact<Result extends object>(
  record: StoredCheckpoint | CorruptRecord,
  use: (record: StoredCheckpoint) => Result | Promise<Result>,
): Result | CorruptRecord | Promise<Result | CorruptRecord> {
  if (isCorrupt(record)) return record;
  try {
    const broken = brokenSeal(record);
    if (broken !== undefined) return corruptRecord(record, broken);
    const used = use(record);
    return types.isPromise(used) ? used.catch((error: unknown) => corruptOrThrow(record, error)) : used;
  } catch (error) {
    return corruptOrThrow(record, error);
  }
}

type Named = Pick<CheckpointSummary, "id" | "taskId">;

function migrate(migration: (stored: unknown) => unknown, state: unknown, what: string): unknown {
  try {
    return migration(state);
  } catch (cause) {
    throw new UnsupportedFormatError(`${what}: ${failureOf(cause).message}`, { cause });
  }
}

/** The corrupt records met by one call. */
class Damage {
  #count = 0;
  #first: CorruptRecord | undefined;

  get found(): boolean {
    return this.#count > 0;
  }

  add(record: CorruptRecord): void {
    this.#count += 1;
    this.#first ??= record;
  }

  error(what: string): CheckpointCorruptError {
    const first = this.#first && ` (the first at ${this.#first.location}: ${this.#first.reason})`;
    return new CheckpointCorruptError(
      `${what}: ${this.#count} can't be read${first ?? ""}. They were left untouched; restore them from a backup, or remove the task.`,
      { cause: this.#first?.cause },
    );
  }
}

export function notFound(taskId: string, id?: string): CheckpointNotFoundError {
  const task = JSON.stringify(taskId);
  return id === undefined
    ? new CheckpointNotFoundError(`Task ${task} has no checkpoint.`, { taskId })
    : new CheckpointNotFoundError(
        `Task ${task} has no checkpoint ${JSON.stringify(id)}: it was never saved, or was removed. list() shows the task's checkpoints.`,
        { taskId, id },
      );
}

function corruptOrThrow(record: StoredCheckpoint, error: unknown): CorruptRecord {
  if (error instanceof CheckpointCorruptError) return corruptRecord(record, error.reason, error);
  // A schema or a migration overflowed the stack, because the state nests too deep.
  if (isStackOverflow(error)) return corruptRecord(record, "its state is nested too deeply to read", error);
  throw error;
}

export function corruptRecord(record: StoredCheckpoint, reason: string, cause?: unknown): CorruptRecord {
  const { taskId, id, sequence } = record;
  return {
    corrupt: true,
    location: placeOf(record),
    reason,
    taskId,
    id,
    sequence,
    ...(cause === undefined ? undefined : { cause }),
  };
}

/** The place of a record for messages, if its adapter doesn't tell one. */
export function placeOf({ id, sequence, taskId }: CheckpointSummary): string {
  return `checkpoint ${id} (sequence ${sequence}) of task ${JSON.stringify(taskId)}`;
}
