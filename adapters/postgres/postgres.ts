import type { CheckpointQuery } from "../../src/contract/adapter.js";
import { AdapterCalls } from "../../src/contract/adapter-calls.js";
import {
  checkBoolean,
  checkInteger,
  checkKeys,
  formWith,
  listKeys,
  MAX_DELAY_MS,
} from "../../src/contract/arguments.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import { StorageError } from "../../src/contract/errors.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";
import type { LeaseStore } from "../../src/contract/leases.js";
import type { TaskQueue } from "../../src/contract/task-queue.js";
import { type Append, firstSequence, getTaskId, NOTHING_DUE, SqlAdapter, type TableCalls } from "../sql/adapter.js";
import { SqlLog } from "../sql/log.js";
import { SqlMaintenance } from "../sql/maintenance.js";
import { inPages, PAGE_ROWS } from "../sql/pages.js";
import type { LogAppend } from "../sql/records.js";
import { PostgresAppender } from "./appender.js";
import { PostgresChanges } from "./changes.js";
import { PostgresConnection, type PostgresPool } from "./connection.js";
import { explain, isMissing } from "./errors.js";
import { GroupCommit } from "./group-commit.js";
import { PostgresHistories } from "./histories.js";
import { PostgresLeases } from "./leases.js";
import { LOG_PAGE_ROWS, PostgresLog } from "./log.js";
import { makeMaintainedTables } from "./maintenance.js";
import { makePool } from "./pool.js";
import { PAGE_BYTES, PostgresReader } from "./reader.js";
import { hasTables, makeTables } from "./schema.js";
import { quoteName } from "./statements/tables.js";
import { makeStatements, type PostgresStatements } from "./statements.js";
import { TransientCheckpoints } from "./transient.js";
import { PostgresWriter } from "./writer.js";

export type {
  PostgresClient,
  PostgresNotification,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from "./connection.js";
export { postgresDdl } from "./schema.js";

/** The options of {@link PostgresAdapter}: your pool or a URL, and the options of its tables. */
export type PostgresAdapterOptions = PostgresTablesOptions &
  (
    | {
        /** pg's `Pool`, or a pool that works like it. It stays open when the adapter is closed. */
        readonly pool: PostgresPool;
        readonly url?: undefined;
      }
    | {
        /**
         * `postgres://user:password@host:5432/database`. The adapter makes its own pool with the installed pg. The URL
         * may name the schema: `?schema=waymark`.
         */
        readonly url: string;
        readonly pool?: undefined;
      }
  );

/** The options that apply to a pool as well as to a URL. */
export interface PostgresTablesOptions {
  /** The schema of the tables. Default `waymark`. */
  readonly schema?: string | undefined;
  /**
   * Whether the first write may create the schema and tables. Default true. `postgresDdl` returns the statements for
   * creating them by hand.
   */
  readonly migrate?: boolean | undefined;
  /**
   * Whether statements are prepared under names, once per connection, so that the server needn't plan them again.
   * Default false, since a pooler in transaction mode may not support it.
   */
  readonly prepare?: boolean | undefined;
  /**
   * How long a call is retried after a temporary failure (a broken connection, a failover, a deadlock or "too many
   * clients"), in milliseconds. Calls that aren't safe to repeat aren't retried. Default 10,000.
   */
  readonly retryForMs?: number | undefined;
}

/**
 * Stores checkpoints in a PostgreSQL database, for many machines. An acknowledged checkpoint is as durable as the
 * server's own commits. Needs the package pg.
 *
 * @example
 * ```ts
 * import { CheckpointManager } from "waymark";
 * import { PostgresAdapter } from "waymark/adapters/postgres";
 *
 * const url = "postgres://localhost:5432/app";
 * const manager = new CheckpointManager({ storage: new PostgresAdapter({ url }) });
 * ```
 *
 * A state of 1 KB or more is stored as its changes since the task's last state. If states change little, a long history
 * takes little more space than its last state. Encrypted and gzip'd payloads can't be compared, so they are stored
 * whole. Up to 32 MB of last states are kept in memory for comparison with new ones.
 *
 * Saves of several tasks that are called while a statement is running share the next statement and its commit, each
 * with its own outcome. Saves that you don't await queue up in memory, so in a loop, await each save, or a few at a
 * time.
 *
 * The adapter's own pool has up to 10 connections. Each statement runs by itself or in a transaction, so a pooler in
 * transaction mode works.
 */
export class PostgresAdapter extends SqlAdapter {
  override readonly name = "postgres";
  readonly log: SqlLog;
  override readonly maintenance: StorageMaintenance;
  override readonly leases: LeaseStore = {
    claim: (...args) => this.#calls.run(async () => (await this.#ensureTables()).leases.claim(...args)),
    renew: async (...args) => (await this.#withTables(({ leases }) => leases.renew(...args))) ?? false,
    release: (...args) => this.#withTables(({ leases }) => leases.release(...args)),
    current: (taskId) => this.#withTables(({ leases }) => leases.current(taskId)),
    lapsed: (taskId) => this.#withTables(({ leases }) => leases.lapsed(taskId)),
    held: () => this.#listHeld(),
  };
  override readonly queue: TaskQueue = {
    claimNext: async (query, ...args) => {
      const copy = { ...query };
      return (await this.#withTables(({ leases }) => leases.claimNext(copy, ...args))) ?? [];
    },
    count: async (query) => {
      const copy = { ...query };
      return (await this.#withTables(({ leases }) => leases.countDue(copy))) ?? NOTHING_DUE;
    },
  };
  readonly #settings: { readonly schema: string; readonly migrate: boolean; readonly location: string };
  readonly #tables: Tables;
  readonly #changes: PostgresChanges;
  /** @internal */
  protected override readonly tableCalls: TableCalls;
  readonly #calls = new AdapterCalls({ name: "postgres", explain: (error) => this.#explain(error) });
  #checking: Promise<boolean> | undefined;
  #hasTables = false;

  /** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
  constructor(options: PostgresAdapterOptions) {
    super();
    checkOptions(options);
    const { pool, url, migrate = true, prepare = false, retryForMs = 10_000 } = options;
    const schema = findSchema(options);
    const location = `PostgreSQL${url === undefined ? "" : describeHost(url)}, schema ${quoteName(schema)}`;
    this.#settings = { schema, migrate, location };
    // `checkOptions` has made sure that there is a pool or a URL.
    const source = pool ?? (() => makePool(url ?? ""));
    const connection = new PostgresConnection({ pool: source, prepare, retryForMs, location });
    const sql = makeStatements(schema);
    const histories = new PostgresHistories(connection, sql);
    const transient = new TransientCheckpoints();
    const reader = new PostgresReader({ connection, sql, histories, transient, location });
    const leases = new PostgresLeases(connection, sql);
    const log = new PostgresLog({ connection, sql, reader, leases });
    this.#changes = new PostgresChanges(connection, schema);
    const writer = new PostgresWriter({ connection, sql, reader, leases, transient, log, changes: this.#changes });
    const appender = new PostgresAppender({ connection, sql, reader, histories, leases, transient, log });
    this.#tables = { connection, sql, reader, leases, log, writer, appender, groupCommit: new GroupCommit(appender) };
    const read = <Result>(work: (tables: Tables) => Result | Promise<Result>) => this.#withTables(work);
    this.tableCalls = {
      enqueue: (append) => this.#enqueue(append),
      read,
      change: read,
      watch: (...args) => this.#changes.watch(...args),
    };
    this.log = new SqlLog(this.tableCalls, LOG_PAGE_ROWS);
    this.maintenance = new SqlMaintenance(makeMaintainedTables(location, histories, (work) => this.#withTables(work)));
  }

  override read(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint | CorruptRecord, void, void> {
    // Most reads that begin with the newest checkpoint need no other one, so the first page is small. With a filter,
    // the page may be larger, since rows that don't match come without payloads.
    const isOne = query.order === "newest";
    const isFiltered = query.stage !== undefined || query.status !== undefined;
    return inPages(query, isOne ? (isFiltered ? 64 : 1) : PAGE_ROWS, (rest, rows) =>
      this.#withTables(({ reader }) => reader.checkpoints(rest, rows, isOne && rest === query ? 1 : PAGE_BYTES)),
    );
  }

  /**
   * Whether the schema has Waymark's tables. If it doesn't, there are no checkpoints, and the first save creates the
   * tables.
   */
  hasTables(): Promise<boolean> {
    return this.#calls.run(() => this.#checkTables());
  }

  override close(): Promise<void> {
    return this.#calls.close(async () => {
      await this.#changes.close();
      await this.#tables.connection.close();
    });
  }

  #enqueue(append: Append | LogAppend): Promise<number> {
    const taskId = getTaskId(append);
    return this.#calls.inTurn(taskId, async () => {
      // A refused append must not create tables.
      const { groupCommit, appender } = await this.#ensureTables(() => firstSequence(append));
      const sequence = await groupCommit.enqueue(await appender.prepare(append));
      const { dueAt } = "draft" in append ? append.draft : append.options;
      this.#changes.note(taskId, dueAt !== undefined);
      return sequence;
    });
  }

  #withTables<Result>(work: (tables: Tables) => Result | Promise<Result>): Promise<Result | undefined> {
    return this.#calls.run(async () => ((await this.#checkTables()) ? work(this.#tables) : undefined));
  }

  async *#listHeld() {
    yield* (await this.#withTables(({ leases }) => leases.held())) ?? [];
  }

  /** Checks whether the tables exist. Once they do, later calls don't ask the server. */
  async #checkTables(): Promise<boolean> {
    if (this.#hasTables) return true;
    const { schema, location } = this.#settings;
    this.#checking ??= hasTables(this.#tables.connection, schema, location).finally(() => {
      this.#checking = undefined;
    });
    this.#hasTables = await this.#checking;
    return this.#hasTables;
  }

  /** Returns the tables. If they are missing, calls `check`, then creates them. */
  async #ensureTables(check?: () => void): Promise<Tables> {
    if (await this.#checkTables()) return this.#tables;
    check?.();
    const { schema, migrate, location } = this.#settings;
    if (!migrate) {
      throw new StorageError(
        `${location} has no tables, and \`migrate\` is false. Nothing was stored. Apply the output of \`waymark postgres ddl\`.`,
      );
    }
    await makeTables(this.#tables.connection, schema, location);
    this.#hasTables = true;
    return this.#tables;
  }

  #explain(error: unknown): unknown {
    if (isMissing(error)) this.#hasTables = false;
    return explain(error, this.#settings.location);
  }
}

interface Tables {
  readonly connection: PostgresConnection;
  readonly sql: PostgresStatements;
  readonly reader: PostgresReader;
  readonly leases: PostgresLeases;
  readonly log: PostgresLog;
  readonly writer: PostgresWriter;
  readonly appender: PostgresAppender;
  readonly groupCommit: GroupCommit;
}

const OPTIONS = listKeys<PostgresAdapterOptions>({
  pool: true,
  url: true,
  schema: true,
  migrate: true,
  prepare: true,
  retryForMs: true,
});

/** Checks the options. No message repeats the URL, since it may contain a password. */
function checkOptions(options: PostgresAdapterOptions): void {
  checkKeys("PostgresAdapterOptions", options, OPTIONS, formWith("url", undefined));
  const { pool, url, migrate, prepare, retryForMs } = options;
  if ((pool === undefined) === (url === undefined)) {
    throw new TypeError("PostgresAdapterOptions needs a `pool` or a `url`, not both.");
  }
  if (url !== undefined && !isPostgresUrl(url)) {
    throw new TypeError("PostgresAdapterOptions.url must be like postgres://user:password@host:5432/database.");
  }
  const schema = findSchema(options);
  if (pool !== undefined && typeof pool?.query !== "function") {
    throw new TypeError("PostgresAdapterOptions.pool must be pg's Pool, or a pool that works like it.");
  }
  if (typeof schema !== "string" || schema === "" || Buffer.byteLength(schema) > 63 || schema.includes("\0")) {
    throw new TypeError("PostgresAdapterOptions.schema must be a name of at most 63 bytes.");
  }
  checkBoolean("PostgresAdapterOptions.migrate", migrate);
  checkBoolean("PostgresAdapterOptions.prepare", prepare);
  checkInteger("PostgresAdapterOptions.retryForMs", retryForMs, 0, MAX_DELAY_MS);
}

function findSchema({ schema, url }: PostgresAdapterOptions): string {
  return schema ?? (url === undefined ? undefined : new URL(url).searchParams.get("schema")) ?? "waymark";
}

/**
 * Returns " at " and the host, for messages. The host of a socket is the folder in the parameter `host`. If the URL
 * names no host, returns "", since pg finds the host elsewhere.
 */
function describeHost(url: string): string {
  const { host, searchParams } = new URL(url);
  const named = host || searchParams.get("host");
  return named ? ` at ${named}` : "";
}

function isPostgresUrl(url: unknown): boolean {
  return typeof url === "string" && URL.canParse(url) && ["postgres:", "postgresql:"].includes(new URL(url).protocol);
}
