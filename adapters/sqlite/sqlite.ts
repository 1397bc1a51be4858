import { dirname, resolve } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type AppendCondition,
  type CheckedRecord,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  checkKeys,
  isCorrupt,
  nextSequence,
  type RepairStep,
  type StorageAdapter,
  type StorageFinding,
  type StorageRepair,
  type StorageVerification,
  type StorageWarning,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointSummary,
  compareTaskIds,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  type TaskSummary,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, ClosedError } from "../../src/contract/errors.js";
import { exposuresOf } from "../exposure.js";
import { SqliteCare } from "./care.js";
import { SqliteConnection } from "./connection.js";
import { CurrentStore } from "./current-store.js";
import { lazyDriver, type SqliteDatabase, type SqliteDriver } from "./driver.js";
import { explain } from "./errors.js";
import { LockQueue } from "./lock-queue.js";
import { warningsOfLog } from "./log-check.js";
import { databaseFiles } from "./opening.js";
import { checkDatabaseOptions, DEFAULT_BUSY_TIMEOUT_MS } from "./options.js";
import { ABOVE_EVERY_TEXT, idAfter, type Page, SqliteReader, type TaskRange } from "./reader.js";
import { holdsStore, migrate } from "./schema.js";
import { type CareAccess, repairDatabase, verifyDatabase } from "./verification.js";
import { SqliteWriter } from "./writer.js";

export type { SqliteDatabase, SqliteDriver, SqliteStatement } from "./driver.js";

export interface SqliteAdapterOptions {
  /** The database file. It and its folder are created at the first write, for their owner alone (0600, 0700). */
  readonly path: string;
  /**
   * What `save` waits for. `full`, the default: the checkpoint survives a power loss. `normal`: it survives a killed
   * process; a power loss may cost the last ones, but never the database.
   */
  readonly durability?: "full" | "normal" | undefined;
  /** How long a call waits for another process's lock, in milliseconds, without blocking this one. Default 5,000. */
  readonly busyTimeoutMs?: number | undefined;
  /** better-sqlite3's `Database`, or a build of your own that works like it. Default: the installed better-sqlite3. */
  readonly database?: SqliteDriver | undefined;
}

/** So many rows are read at a time, where more than one is wanted; other work gets its turn in between. */
const PAGE_SIZE = 256;
/** How long SQLite itself waits for a lock; longer waits are the queue's, which doesn't block the event loop. */
const LOCK_SLICE_MS = 3;

/**
 * Checkpoints in one SQLite database, for one machine: many processes may use it at once, and what was acknowledged
 * survives killed processes and power losses. Needs the package better-sqlite3.
 *
 * @example
 * ```ts
 * import { CheckpointManager } from "waymark";
 * import { SqliteAdapter } from "waymark/adapters/sqlite";
 *
 * const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: ".waymark/checkpoints.db" }) });
 * ```
 *
 * Put the database on a local disk: on a network share, locks and shared memory don't work as SQLite needs them. The
 * space of removed checkpoints is used again; the file itself shrinks only by `VACUUM`.
 */
export class SqliteAdapter implements StorageAdapter {
  readonly name = "sqlite";
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly #path: string;
  readonly #current: CurrentStore<OpenedStore>;
  readonly #busyTimeoutMs: number;
  readonly #queue: LockQueue;
  #closing: Promise<void> | undefined;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: SqliteAdapterOptions) {
    checkOptions(options);
    const { path, durability = "full", busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS, database } = options;
    this.#path = resolve(path);
    this.#current = new CurrentStore(
      { path: this.#path, durability, lockWaitMs: LOCK_SLICE_MS, driver: lazyDriver(database) },
      { emptyFile: "damage", holds: holdsStore, migrate, store: storeIn },
    );
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#queue = new LockQueue(busyTimeoutMs);
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    return this.#write(
      (itsDraft, itsCondition) => {
        // A refused append is no reason to create a database.
        if (this.#current.existing() === undefined) nextSequence(itsDraft.taskId, NO_CHECKPOINTS, itsCondition);
        return this.#current.orNew().writer.append(itsDraft, itsCondition);
      },
      draft,
      condition,
    );
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#read((reader) => reader.get(taskId, id));
  }

  read(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint | CorruptRecord, void, void> {
    return this.#select(query, (reader, rest) => reader.checkpoints(rest));
  }

  list(query: CheckpointQuery): AsyncGenerator<CheckpointSummary | CorruptRecord, void, void> {
    return this.#select(query, (reader, rest, wanted) => reader.summaries(rest, Math.min(wanted, PAGE_SIZE)));
  }

  tasks(query: TaskQuery): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    return query.order === "recent" ? this.#tasksByRecency(query) : this.#tasksById(query);
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    return this.#write(
      (itsChange, itsCondition) =>
        this.#current.existing()?.writer.setStatus(taskId, id, itsChange, itsCondition) ?? false,
      change,
      condition,
    );
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    return this.#write(
      (itsPayload) => this.#current.existing()?.writer.replacePayload(taskId, id, itsPayload, expectedSha256) ?? false,
      payload,
    );
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    return this.#write(
      (itsIds, itsCondition) => {
        const store = this.#current.existing();
        if (store !== undefined) return store.writer.remove(taskId, itsIds, itsCondition);
        checkExpected(taskId, NO_CHECKPOINTS.newestSequence, itsCondition);
        return 0;
      },
      ids,
      condition,
    );
  }

  /** SQLite's own check reads the whole database, and nothing else in this process runs meanwhile; `quick` is quicker. */
  verify({ quick }: StorageVerification): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
    return verifyDatabase(this.#care(), quick);
  }

  repair(options: StorageRepair): AsyncGenerator<RepairStep, void, void> {
    return repairDatabase(this.#care(), options);
  }

  async warnings(): Promise<readonly StorageWarning[]> {
    const exposures = exposuresOf(dirname(this.#path), databaseFiles(this.#path));
    return this.#current.isOpen ? exposures : [...exposures, ...warningsOfLog(this.#path)];
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#queue.idle();
    this.#current.close();
  }

  async *#select<Found extends CheckpointSummary>(
    query: CheckpointQuery,
    page: (reader: SqliteReader, rest: CheckpointQuery, wanted: number) => Page<Found, number>,
  ): AsyncGenerator<Found | CorruptRecord, void, void> {
    let rest = query;
    let wanted = query.limit ?? Number.POSITIVE_INFINITY;
    let sinceTurn = 0;
    while (wanted > 0) {
      const found = await this.#read((reader) => page(reader, rest, wanted));
      if (found === undefined) return;
      for (const item of found.items) {
        yield item;
        if (!isCorrupt(item)) wanted -= 1;
      }
      const { next } = found;
      if (next === undefined) return;
      const isNewestFirst = rest.order === "newest";
      // A damaged sequence may be below 1.
      const last = isNewestFirst
        ? (rest.beforeSequence ?? Number.POSITIVE_INFINITY)
        : (rest.afterSequence ?? Number.NEGATIVE_INFINITY);
      if (isNewestFirst ? next >= last : next <= last) throw outOfOrder(this.#path);
      rest = { ...rest, skip: 0, [isNewestFirst ? "beforeSequence" : "afterSequence"]: next };
      sinceTurn += found.items.length;
      if (sinceTurn >= PAGE_SIZE) {
        await nextTurn();
        sinceTurn = 0;
      }
    }
  }

  async *#tasksById(query: TaskQuery): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    const { status = CHECKPOINT_STATUSES } = query;
    let range = rangeOf(query);
    let wanted = query.limit ?? Number.POSITIVE_INFINITY;
    while (wanted > 0) {
      const found = await this.#read((reader) => reader.tasks(range, status, Math.min(wanted, PAGE_SIZE)));
      if (found === undefined) return;
      for (const item of found.items) {
        yield item;
        if (!isCorrupt(item)) wanted -= 1;
      }
      if (found.next === undefined) return;
      if (compareTaskIds(found.next, range.from) <= 0) throw outOfOrder(this.#path);
      range = { ...range, from: found.next };
      await nextTurn();
    }
  }

  async *#tasksByRecency(query: TaskQuery): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    const { limit = Number.POSITIVE_INFINITY, ...unlimited } = query;
    let recent: TaskSummary[] = [];
    for await (const task of this.#tasksById(unlimited)) {
      if (isCorrupt(task)) yield task;
      else recent.push(task);
      // Holds few of them where few are wanted.
      if (recent.length > 2 * limit + PAGE_SIZE) recent = recent.sort(byRecency).slice(0, limit);
    }
    yield* recent.sort(byRecency).slice(0, limit);
  }

  /** Does the work before it returns, unless somebody else has locked the database. */
  async #write<Args extends readonly unknown[], Result>(
    work: (...args: Args) => Result,
    ...args: Args
  ): Promise<Result> {
    this.#assertOpen();
    try {
      return await this.#queue.write(work, ...args);
    } catch (error) {
      throw this.#explained(error);
    }
  }

  async #read<Result>(work: (reader: SqliteReader) => Result): Promise<Result | undefined> {
    return this.#readStore(({ reader }) => work(reader));
  }

  async #readStore<Result>(work: (store: OpenedStore) => Result): Promise<Result | undefined> {
    this.#assertOpen();
    try {
      return await this.#queue.read(() => {
        const store = this.#current.existing();
        return store && work(store);
      });
    } catch (error) {
      throw this.#explained(error);
    }
  }

  #care(): CareAccess {
    return {
      path: this.#path,
      isOpen: () => this.#current.isOpen,
      read: (work) => this.#readStore((store) => work(store.care)),
      write: (work) =>
        this.#write(() => {
          const store = this.#current.existing();
          return store && work(store.care);
        }),
    };
  }

  #explained(error: unknown): unknown {
    return explain(error, this.#path, this.#busyTimeoutMs);
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError("The sqlite adapter");
  }
}

/** An open database of ours. */
interface OpenedStore {
  readonly reader: SqliteReader;
  readonly writer: SqliteWriter;
  readonly care: SqliteCare;
  close(): void;
}

function storeIn(database: SqliteDatabase, path: string): OpenedStore {
  const connection = new SqliteConnection(database);
  return {
    reader: new SqliteReader(connection, path),
    writer: new SqliteWriter(connection, path),
    care: new SqliteCare(connection, path),
    close: () => connection.close(),
  };
}

const NO_CHECKPOINTS = { newestSequence: 0, lastSequence: 0 };
const OPTIONS: readonly string[] = [
  "path",
  "durability",
  "busyTimeoutMs",
  "database",
] satisfies (keyof SqliteAdapterOptions)[];

function checkOptions(options: SqliteAdapterOptions): void {
  checkKeys("SqliteAdapterOptions", options, OPTIONS);
  checkDatabaseOptions("SqliteAdapterOptions", options, "for checkpoints in memory there is MemoryAdapter");
  const { durability } = options;
  if (durability !== undefined && durability !== "full" && durability !== "normal") {
    throw new TypeError('SqliteAdapterOptions.durability must be "full" or "normal".');
  }
}

/** To go on would give the same again and again. */
function outOfOrder(path: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `What the database ${path} holds is out of order, so what comes after can't be found. It was left untouched; ` +
      "`waymark verify` shows what is wrong with it.",
  );
}

function rangeOf({ prefix = "", after }: TaskQuery): TaskRange {
  const first = after === undefined ? "" : idAfter(after);
  return { from: compareTaskIds(first, prefix) > 0 ? first : prefix, below: endOf(prefix) };
}

/** What all strings that begin with the prefix are below, and all others that come after them are not. */
function endOf(prefix: string): string | Uint8Array {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    // No character stands for a surrogate, nor for anything above U+10FFFF.
    if (last < 0x10ffff) return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
  }
  return ABOVE_EVERY_TEXT;
}

/** The latest first. ISO 8601 strings of one form and one zone are in the order of their times. */
function byRecency(a: TaskSummary, b: TaskSummary): number {
  if (a.newest.createdAt === b.newest.createdAt) return compareTaskIds(a.taskId, b.taskId);
  return a.newest.createdAt > b.newest.createdAt ? -1 : 1;
}
