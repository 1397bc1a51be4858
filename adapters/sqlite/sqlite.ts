import { resolve } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type AppendCondition,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  checkKeys,
  isCorrupt,
  nextSequence,
  type StorageAdapter,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointSummary,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  type TaskSummary,
} from "../../src/contract/checkpoint.js";
import { ClosedError } from "../../src/contract/errors.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";
import type { SqliteConnection } from "./connection.js";
import { lazyDriver, type SqliteDriver } from "./driver.js";
import { explain, isBusy } from "./errors.js";
import { LockQueue } from "./lock-queue.js";
import { SqliteMaintenance } from "./maintenance.js";
import { DatabaseFile } from "./opening.js";
import { checkDatabaseOptions, DEFAULT_BUSY_TIMEOUT_MS } from "./options.js";
import { type Page, SqliteReader } from "./reader.js";
import { isWaymarkDatabase, migrate } from "./schema.js";
import { rangeOf } from "./task-range.js";
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

/** The most rows that are read at a time; other work gets its turn in between. */
const PAGE_SIZE = 256;
/** How long SQLite itself waits for a lock; longer waits are the queue's, which doesn't block the event loop. */
const LOCK_SLICE_MS = 3;
/** How long it may take to notice that the file was removed or replaced: a look at each call costs a tenth of a save. */
const LOOK_AGAIN_MS = 100;

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
  readonly maintenance: StorageMaintenance;
  readonly #path: string;
  readonly #file: DatabaseFile<OpenedStore>;
  readonly #busyTimeoutMs: number;
  readonly #queue: LockQueue;
  #opened: OpenedStore | undefined;
  #lookAgainAtMs = 0;
  #closing: Promise<void> | undefined;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: SqliteAdapterOptions) {
    checkOptions(options);
    const { path, durability = "full", busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS, database } = options;
    this.#path = resolve(path);
    this.#file = new DatabaseFile(
      { path: this.#path, durability, lockWaitMs: LOCK_SLICE_MS, driver: lazyDriver(database) },
      { emptyFile: "damage", isPresent: isWaymarkDatabase, migrate, store: storeIn },
    );
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#queue = new LockQueue(busyTimeoutMs);
    this.maintenance = new SqliteMaintenance({
      path: this.#path,
      read: (work) => this.#read(({ database }) => work(database)),
      write: (work) =>
        this.#write(() => {
          const store = this.#existing();
          return store && work(store.database);
        }),
    });
  }

  append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    return this.#write(this.#append, draft, condition);
  }

  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#read(({ reader }) => reader.get(taskId, id));
  }

  read(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint | CorruptRecord, void, void> {
    // Most reads want the newest one alone.
    return this.#select(query, 1, (reader, rest, size) => reader.checkpoints(rest, size));
  }

  list(query: CheckpointQuery): AsyncGenerator<CheckpointSummary | CorruptRecord, void, void> {
    return this.#select(query, PAGE_SIZE, (reader, rest, size) => reader.summaries(rest, size));
  }

  async *tasks(query: TaskQuery): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    const { status = CHECKPOINT_STATUSES, limit = Number.POSITIVE_INFINITY } = query;
    this.#assertOpen();
    let passed = 0;
    for (let wanted = limit; wanted > 0; ) {
      // All ids at once, or as many as are wanted: a task that is saved meanwhile would change its place.
      const ids = (await this.#read(({ reader }) => reader.taskIds(query, wanted, passed))) ?? [];
      for (const [at, taskId] of ids.entries()) {
        if (at % PAGE_SIZE === PAGE_SIZE - 1) await nextTurn();
        for (const item of (await this.#read(({ reader }) => reader.task(taskId, status))) ?? []) {
          yield item;
          if (!isCorrupt(item)) wanted -= 1;
        }
      }
      if (ids.length === 0 || limit === Number.POSITIVE_INFINITY) return;
      passed += ids.length;
    }
  }

  setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    return this.#write(
      (itsChange, itsCondition) => this.#existing()?.writer.setStatus(taskId, id, itsChange, itsCondition) ?? false,
      change,
      condition,
    );
  }

  replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    return this.#write(
      (itsPayload) => this.#existing()?.writer.replacePayload(taskId, id, itsPayload, expectedSha256) ?? false,
      payload,
    );
  }

  remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    return this.#write(
      (itsIds, itsCondition) => {
        const store = this.#existing();
        if (store !== undefined) return store.writer.remove(taskId, itsIds, itsCondition);
        checkExpected(taskId, NO_CHECKPOINTS.newestSequence, itsCondition);
        return 0;
      },
      ids,
      condition,
    );
  }

  removeTasks(prefix: string): Promise<number> {
    return this.#write(() => this.#existing()?.writer.removeTasks(rangeOf({ prefix })) ?? 0);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#queue.idle();
    this.#opened = undefined;
    this.#file.close();
  }

  readonly #append = (draft: CheckpointDraft, condition: AppendCondition | undefined): number => {
    let store = this.#existing();
    if (store === undefined) {
      // A refused append is no reason to create a database.
      nextSequence(draft.taskId, NO_CHECKPOINTS, condition);
      store = this.#file.orNew();
      this.#opened = store;
    }
    return store.writer.append(draft, condition);
  };

  /** The open store, if there is one. */
  #existing(): OpenedStore | undefined {
    const nowMs = performance.now();
    if (this.#opened !== undefined && nowMs < this.#lookAgainAtMs) return this.#opened;
    this.#lookAgainAtMs = nowMs + LOOK_AGAIN_MS;
    this.#opened = undefined;
    this.#opened = this.#file.existing();
    return this.#opened;
  }

  async *#select<Found extends CheckpointSummary>(
    query: CheckpointQuery,
    firstSize: number,
    page: (reader: SqliteReader, rest: CheckpointQuery, size: number) => Page<Found>,
  ): AsyncGenerator<Found | CorruptRecord, void, void> {
    let rest = query;
    let wanted = query.limit ?? Number.POSITIVE_INFINITY;
    let size = firstSize;
    let sinceTurn = 0;
    while (wanted > 0) {
      const found = await this.#read(({ reader }) => page(reader, rest, Math.min(wanted, size)));
      for (const { found: item } of found?.entries ?? []) {
        if (wanted === 0) return;
        yield item;
        if (!isCorrupt(item)) wanted -= 1;
      }
      if (found?.next === undefined) return;
      rest = { ...rest, skip: 0, [rest.order === "newest" ? "beforeSequence" : "afterSequence"]: found.next };
      sinceTurn += size;
      if (sinceTurn >= PAGE_SIZE) {
        await nextTurn();
        sinceTurn = 0;
      }
      size = Math.min(size * 4, PAGE_SIZE);
    }
  }

  /** Does the work before it returns, unless another process has locked the database. */
  async #write<Args extends readonly unknown[], Result>(
    work: (...args: Args) => Result,
    ...args: Args
  ): Promise<Result> {
    this.#assertOpen();
    try {
      if (!this.#queue.hasWrites) return work(...args);
    } catch (error) {
      if (!isBusy(error)) throw this.#explained(error);
    }
    try {
      return await this.#queue.write(work, args);
    } catch (error) {
      throw this.#explained(error);
    }
  }

  async #read<Result>(work: (store: OpenedStore) => Result): Promise<Result | undefined> {
    this.#assertOpen();
    const read = () => {
      const store = this.#existing();
      return store && work(store);
    };
    try {
      return read();
    } catch (error) {
      if (!isBusy(error)) throw this.#explained(error);
    }
    try {
      return await this.#queue.read(read);
    } catch (error) {
      throw this.#explained(error);
    }
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
  readonly database: SqliteConnection;
  readonly reader: SqliteReader;
  readonly writer: SqliteWriter;
  close(): void;
}

function storeIn(database: SqliteConnection, path: string): OpenedStore {
  return {
    database,
    reader: new SqliteReader(database, path),
    writer: new SqliteWriter(database, path),
    close: () => database.close(),
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
