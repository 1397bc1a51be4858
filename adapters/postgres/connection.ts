import { hash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { StorageError } from "../../src/contract/errors.js";
import type { SqlRow } from "../sql/rows.js";
import { COLUMN_TYPES, fromColumn, toColumn } from "./columns.js";
import { isLost, isUndecided, isUnreachable, mayPass } from "./errors.js";

/** A statement as the adapter passes it to pg. */
export interface PostgresQuery {
  readonly text: string;
  readonly values: unknown[];
  readonly rowMode: "array";
  /** The adapter's own parsers, so that the application's parsers in pg or its pool don't apply. */
  readonly types: { getTypeParser(oid: number): (text: string) => unknown };
  /** The statement's name. Given only with `prepare: true`. */
  readonly name?: string;
}

/** The part of pg's `QueryResult` that the adapter uses. */
export interface PostgresResult {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

/** The part of pg's `PoolClient` that the adapter uses. */
export interface PostgresClient {
  query(query: PostgresQuery): Promise<PostgresResult>;
  release(destroy?: boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "notification", listener: (message: PostgresNotification) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "notification", listener: (message: PostgresNotification) => void): unknown;
  /** Lets the process exit while the connection is open. */
  unref?(): void;
}

/** The part of pg's `Notification` that the adapter uses. */
export interface PostgresNotification {
  readonly payload?: string | undefined;
}

/**
 * The part of pg's `Pool` that the adapter uses. Since this is a structural type, these declarations need neither pg
 * nor its types, and any pool with these methods fits.
 */
export interface PostgresPool {
  query(query: PostgresQuery): Promise<PostgresResult>;
  connect(done: (error: Error | undefined, client: PostgresClient | undefined) => void): void;
  /** `max` is the number of connections. If it is at least 2, one connection is used to listen. */
  readonly options?: { readonly max?: number | undefined };
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** Runs statements, each in its own transaction or all in the same one. */
export interface Statements {
  rows(text: string, ...values: readonly unknown[]): Promise<readonly SqlRow[]>;
  /** Runs a statement, and returns the number of changed rows. */
  change(text: string, ...values: readonly unknown[]): Promise<number>;
}

export interface PostgresConnectionOptions {
  /** The user's pool, or a function that makes the adapter's own pool. */
  readonly pool: PostgresPool | (() => PostgresPool);
  readonly prepare: boolean;
  readonly retryForMs: number;
  readonly location: string;
}

const FIRST_PAUSE_MS = 10;
const MAX_PAUSE_MS = 1000;
/**
 * Begins a transaction. Each statement in it sees everything that was committed before the statement began, so reads
 * under the task's lock are up to date. The timeout frees the locks of a program that stops in the middle of its
 * transaction, or whose machine is gone.
 */
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '10s'";

/** The commit isn't synced, because the sync would delay all other notifications. */
const NOTIFY = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload) FROM unnest($2::text[]) payload`;

/** A pool of connections. After a temporary failure, a call is retried with growing pauses, if it is safe to repeat. */
export class PostgresConnection implements Statements {
  readonly #options: PostgresConnectionOptions;
  #pool: PostgresPool | undefined;
  #hasConnected = false;

  constructor(options: PostgresConnectionOptions) {
    this.#options = options;
  }

  /** Closes the adapter's own pool. A user's pool stays open. */
  async close(): Promise<void> {
    if (this.#pool === undefined) return;
    // The adapter's own pool keeps its error listener, because `end` resolves before the connections close, and the
    // server may stop in between.
    if (typeof this.#options.pool === "function") await this.#pool.end();
    else countUser(this.#pool, -1);
  }

  /** Runs a statement in its own transaction, in one round trip. The statement must be safe to repeat. */
  async rows(text: string, ...values: readonly unknown[]): Promise<readonly SqlRow[]> {
    return parseRows(await this.#run(this.#makeQuery(text, values)));
  }

  /**
   * Like {@link rows}, for a statement that must not run twice.
   *
   * @throws {StorageError} The connection broke, so it is unknown whether the statement ran.
   */
  async rowsOnce(text: string, ...values: readonly unknown[]): Promise<readonly SqlRow[]> {
    const query = this.#makeQuery(text, values);
    const run = async () => {
      try {
        return await this.#openPool().query(query);
      } catch (error) {
        throw isUndecided(error) ? this.#makeUndecidedError("a change", error) : error;
      }
    };
    return parseRows(await this.#retry(run));
  }

  /**
   * Like {@link rows}, but never prepared. Meant for statements whose best plan depends on their values, for example on
   * how many tasks have a prefix: the server may use one plan for all values of a prepared statement.
   */
  async rowsUnprepared(text: string, ...values: readonly unknown[]): Promise<readonly SqlRow[]> {
    return parseRows(await this.#run(this.#makeQuery(text, values, false)));
  }

  /** Like {@link rows}, for a statement that changes rows. Returns the number of changed rows. */
  async change(text: string, ...values: readonly unknown[]): Promise<number> {
    return (await this.#run(this.#makeQuery(text, values))).rowCount ?? 0;
  }

  /**
   * Runs `work` in one transaction, so that all of its changes are stored or none. If the server undoes the
   * transaction, runs `work` again.
   *
   * @param options.twice - True if `work` may also run again when it is unknown whether the first run was committed.
   * @throws {StorageError} The connection broke at COMMIT, so it is unknown whether the changes were stored.
   */
  atomically<Result>(
    work: (statements: Statements) => Promise<Result>,
    { twice = false }: { readonly twice?: boolean } = {},
  ): Promise<Result> {
    return this.#retry(() => this.#tryTransaction(work, twice));
  }

  /** Sends the payloads to the channel, in a separate transaction that isn't synced. Doesn't retry. */
  async notify(channel: string, payloads: readonly string[]): Promise<void> {
    await this.#openPool().query(this.#makeQuery(NOTIFY, [channel, payloads]));
  }

  /**
   * Listens to a channel, on a connection that doesn't keep the process alive.
   *
   * @param on.broke - Called if the connection breaks. To listen again, call this method again.
   * @returns A function that stops listening and closes the connection; `undefined` if the pool may have only one
   *   connection.
   */
  async listen(
    channel: string,
    on: { heard(payload: string): void; broke(): void },
  ): Promise<(() => void) | undefined> {
    const { max = 1 } = this.#openPool().options ?? {};
    if (max < 2) return undefined;
    let isOver = false;
    const broke = () => {
      if (!isOver) on.broke();
    };
    const client = await this.#connect(broke);
    const hear = ({ payload = "" }: PostgresNotification) => on.heard(payload);
    const end = () => {
      isOver = true;
      client.removeListener("notification", hear);
      client.removeListener("error", broke);
      client.release(true);
    };
    try {
      client.on("notification", hear);
      await client.query(this.#makeQuery(`LISTEN ${channel}`, []));
      client.unref?.();
    } catch (error) {
      end();
      throw error;
    }
    return end;
  }

  #run(query: PostgresQuery): Promise<PostgresResult> {
    return this.#retry(() => this.#openPool().query(query));
  }

  async #retry<Result>(attempt: () => Promise<Result>): Promise<Result> {
    const deadline = performance.now() + this.#options.retryForMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
      try {
        const result = await attempt();
        this.#hasConnected = true;
        return result;
      } catch (error) {
        const leftMs = deadline - performance.now();
        const isHopeless = isUnreachable(error) && !this.#hasConnected;
        if (!mayPass(error) || isHopeless || leftMs <= 0) throw error;
        // The pauses are random, so that waiting processes don't keep colliding.
        await sleep(Math.min(pauseMs * (0.5 + Math.random()), leftMs));
      }
    }
  }

  async #tryTransaction<Result>(work: (statements: Statements) => Promise<Result>, twice: boolean): Promise<Result> {
    let isBroken = false;
    const broke = () => {
      isBroken = true;
    };
    const client = await this.#connect(broke);
    const run = (text: string, values: readonly unknown[] = []) => client.query(this.#makeQuery(text, values));
    let isCommitting = false;
    try {
      await run(BEGIN);
      const result = await work({
        rows: async (text, ...values) => parseRows(await run(text, values)),
        change: async (text, ...values) => (await run(text, values)).rowCount ?? 0,
      });
      isCommitting = true;
      await run("COMMIT");
      return result;
    } catch (error) {
      if (isLost(error)) broke();
      if (isBroken && isCommitting && !twice) {
        throw this.#makeUndecidedError("the commit", error);
      }
      // If the rollback fails, the first error is thrown, and the connection is closed.
      if (!isBroken) await run("ROLLBACK").catch(broke);
      throw error;
    } finally {
      client.removeListener("error", broke);
      client.release(isBroken);
    }
  }

  #makeUndecidedError(during: string, cause: unknown): StorageError {
    return new StorageError(
      `The connection to ${this.#options.location} broke during ${during}, so the change was stored as a whole or not ` +
        "at all. Earlier checkpoints are intact. Read the task again, then decide.",
      { cause, retryable: true },
    );
  }

  /**
   * Takes a client from the pool, and listens for errors of its connection. Without a listener, a broken connection
   * would end the process.
   */
  #connect(broke: () => void): Promise<PostgresClient> {
    return new Promise((resolve, reject) => {
      this.#openPool().connect((error, client) => {
        // The listener is added synchronously, because an error may follow directly after the server's ready message.
        client?.on("error", broke);
        if (client) resolve(client);
        else reject(error ?? new Error("The pool returned no connection."));
      });
    });
  }

  #openPool(): PostgresPool {
    if (this.#pool === undefined) {
      const { pool } = this.#options;
      this.#pool = typeof pool === "function" ? pool() : pool;
      countUser(this.#pool, 1);
    }
    return this.#pool;
  }

  #makeQuery(text: string, values: readonly unknown[], prepare = this.#options.prepare): PostgresQuery {
    const query = { text, values: values.map(toParameter), rowMode: "array", types: COLUMN_TYPES } as const;
    return prepare && values.length > 0 ? { ...query, name: nameStatement(text) } : query;
  }
}

function ignore(): void {}

/** The number of open adapters per pool. Adapters on one pool share one error listener. */
const USERS = new WeakMap<PostgresPool, number>();

/**
 * Listens to the pool's errors while adapters use it. If an idle connection breaks, the pool emits an error, which
 * would end the process if there were no listener.
 */
function countUser(pool: PostgresPool, change: 1 | -1): void {
  const users = (USERS.get(pool) ?? 0) + change;
  USERS.set(pool, users);
  if (users === 0) pool.removeListener("error", ignore);
  else if (users === change) pool.on("error", ignore);
}

const NAMES = new Map<string, string>();

/**
 * Makes a statement's name from its text. Programs of different versions may share a connection through a pooler, so
 * two different statements must not have the same name.
 */
function nameStatement(text: string): string {
  const name = NAMES.get(text) ?? `waymark_${hash("sha256", text, "hex").slice(0, 32)}`;
  NAMES.set(text, name);
  return name;
}

function toParameter(value: unknown): unknown {
  if (typeof value === "string") return toColumn(value);
  return Array.isArray(value) ? value.map(toParameter) : value;
}

function parseRows({ rows }: PostgresResult): readonly SqlRow[] {
  return rows
    .filter(Array.isArray)
    .map((row: readonly unknown[]) => row.map((value) => (typeof value === "string" ? fromColumn(value) : value)));
}
