import { resolve } from "node:path";
import type { CheckpointQuery } from "../../src/contract/adapter.js";
import { checkKeys, checkWord, formWith, listKeys } from "../../src/contract/arguments.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";
import { type LeaseStore, leaseStore, NO_LEASE } from "../../src/contract/leases.js";
import type { TaskQueue } from "../../src/contract/task-queue.js";
import { NOTHING_DUE, SqlAdapter } from "../sql/adapter.js";
import { SqlLog } from "../sql/log.js";
import { SqlMaintenance } from "../sql/maintenance.js";
import { inPages, PAGE_ROWS } from "../sql/pages.js";
import { CallQueue, storeIn } from "./call-queue.js";
import { DatabaseFile } from "./database-file.js";
import type { SqliteDriver, SqliteDriverName } from "./driver.js";
import { claimDue, countDue, nextDue } from "./due.js";
import { leaseIn, leasesAfter, updateLease } from "./leases.js";
import { maintainedTables } from "./maintenance.js";
import { checkDatabaseOptions, DEFAULT_BUSY_TIMEOUT_MS } from "./opening.js";
import { isWaymarkDatabase, makeTables } from "./schema.js";

export type { SqliteDatabase, SqliteDriver, SqliteDriverName, SqliteStatement } from "./driver.js";

export interface SqliteAdapterOptions {
  /**
   * The database file. The first write creates it (mode 0600) and its folder (0700), so that only their owner can read
   * them.
   */
  readonly path: string;
  /**
   * The durability that `save` waits for. With `full`, the default, the checkpoint survives a power loss: SQLite's log
   * is synced, off the event loop. With `normal`, the checkpoint survives a killed process, but a power loss may lose
   * the last checkpoints. The database stays intact.
   */
  readonly durability?: "full" | "normal" | undefined;
  /**
   * How long a call waits for another process's lock, in milliseconds. The wait doesn't block this process. Default
   * 5,000.
   */
  readonly busyTimeoutMs?: number | undefined;
  /**
   * The SQLite to use: `better-sqlite3`, `node:sqlite` (Node 22.16 and newer), `bun:sqlite`, or a class:
   * better-sqlite3's `Database`, or one that works like it. Default: better-sqlite3 if it is installed, else the
   * runtime's own. Pass the class if Waymark can't find the package, for example in a bundle:
   * `import Database from "better-sqlite3"`. With a class, SQLite copies its log into the database on the event loop,
   * every 1,000 pages, instead of in a thread.
   */
  readonly driver?: SqliteDriver | SqliteDriverName | undefined;
}

/**
 * Stores checkpoints in one SQLite database, for one machine. Many processes may use it at once. Acknowledged
 * checkpoints survive killed processes and power losses. Uses the package better-sqlite3 if it is installed, else the
 * SQLite of Node (22.16 and newer) or Bun.
 *
 * @example
 * ```ts
 * import { CheckpointManager } from "waymark";
 * import { SqliteAdapter } from "waymark/adapters/sqlite";
 *
 * const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: ".waymark/checkpoints.db" }) });
 * ```
 *
 * A state of 1 KB or more is stored as its changes since the task's last state. If states change little, a long history
 * takes little more space than its last state. Encrypted and gzip'd payloads can't be compared, so they are stored
 * whole. Up to 32 MB of last states are kept in memory for comparison with new ones.
 *
 * Saves that are called in one turn of the event loop share a transaction and a sync, each with its own outcome. While
 * another process has locked the database, saves wait in memory, so in a loop, await each save, or a few at a time.
 *
 * Put the database on a local disk. On a network share, locks and shared memory don't work as SQLite needs them. New
 * checkpoints reuse the space of removed ones; only `VACUUM` shrinks the file.
 *
 * If the database's folder can't be written, for example in a mounted snapshot, checkpoints are read from a copy in the
 * temporary folder.
 */
export class SqliteAdapter extends SqlAdapter {
  override readonly name = "sqlite";
  readonly log: SqlLog;
  override readonly maintenance: StorageMaintenance;
  override readonly leases: LeaseStore = leaseStore(
    {
      read: async (taskId) => (await this.tableCalls.read(({ database }) => leaseIn(database, taskId))) ?? NO_LEASE,
      all: () => this.#allLeases(),
      update: (taskId, change) =>
        this.tableCalls.changeOrCreate(({ database }) => updateLease(database, taskId, change)),
    },
    { oneMachine: true },
  );
  override readonly queue: TaskQueue = {
    claimNext: async (query, holder, ttlMs, limit) => {
      const asked = { ...query };
      // An idle worker usually finds no due task, so the first query takes no lock.
      const found = (await this.tableCalls.read(({ database }) => nextDue(database, asked, limit))) ?? [];
      if (found.length === 0) return [];
      return (await this.tableCalls.change(({ database }) => claimDue(database, found, asked, holder, ttlMs))) ?? [];
    },
    count: async (query) => (await this.tableCalls.read(({ database }) => countDue(database, query))) ?? NOTHING_DUE,
  };
  /** @internal */
  protected override readonly tableCalls: CallQueue;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: SqliteAdapterOptions) {
    super();
    checkOptions(options);
    const { durability = "full", busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS, driver } = options;
    const path = resolve(options.path);
    const syncs = durability === "full" ? "later" : "never";
    // SQLite's own wait would block the event loop, so the queue waits.
    const place = { path, syncs, lockWaitMs: 0, driver } as const;
    const file = new DatabaseFile({ ...place, isPresent: isWaymarkDatabase, makeTables, store: storeIn });
    this.tableCalls = new CallQueue(file, path, busyTimeoutMs);
    this.log = new SqlLog(this.tableCalls, PAGE_ROWS);
    this.maintenance = new SqlMaintenance(maintainedTables(this.tableCalls, path));
  }

  override read(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint | CorruptRecord, void, void> {
    // Most reads that begin with the newest checkpoint need no other one.
    const rows = query.order === "newest" ? 1 : PAGE_ROWS;
    return inPages(query, rows, (rest, size) => this.tableCalls.read(({ reader }) => reader.checkpoints(rest, size)));
  }

  override close(): Promise<void> {
    return this.tableCalls.close();
  }

  async *#allLeases() {
    for (let after = ""; ; ) {
      const page = (await this.tableCalls.read(({ database }) => leasesAfter(database, after, PAGE_ROWS))) ?? [];
      yield* page;
      const last = page.at(-1);
      if (last === undefined) return;
      after = last.taskId;
    }
  }
}

const OPTIONS = listKeys<SqliteAdapterOptions>({ path: true, durability: true, busyTimeoutMs: true, driver: true });

function checkOptions(options: SqliteAdapterOptions): void {
  checkKeys("SqliteAdapterOptions", options, OPTIONS, formWith("path", options));
  checkDatabaseOptions("SqliteAdapterOptions", options);
  checkWord("SqliteAdapterOptions.durability", options.durability, ["full", "normal"]);
}
