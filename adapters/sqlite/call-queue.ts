import { setTimeout as sleep } from "node:timers/promises";
import { nextSequence } from "../../src/contract/adapter.js";
import { copyRecord } from "../../src/contract/checkpoint.js";
import { ClosedError } from "../../src/contract/errors.js";
import { checkLease, NO_LEASE } from "../../src/contract/leases.js";
import type { SqliteConnection } from "./connection.js";
import { explain, isBusy, isReadOnly } from "./errors.js";
import { SqliteHistories } from "./histories.js";
import type { DatabaseFile } from "./opening.js";
import { SqliteReader } from "./reader.js";
import { type Append, type Outcome, SqliteWriter } from "./writer.js";

/** The objects that work with an open database. */
export interface SqliteStore {
  readonly database: SqliteConnection;
  readonly histories: SqliteHistories;
  readonly reader: SqliteReader;
  readonly writer: SqliteWriter;
}

export function storeIn(database: SqliteConnection, path: string): SqliteStore {
  const histories = new SqliteHistories(database);
  const reader = new SqliteReader(database, histories, path);
  return { database, histories, reader, writer: new SqliteWriter(database, histories, reader, path) };
}

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 20;
/**
 * The most appends of one transaction. Its payloads have at most about {@link MAX_BYTES}. Both limit the memory of
 * waiting appends.
 */
const MAX_APPENDS = 256;
const MAX_BYTES = 4 * 1024 * 1024;

/** The caller that waits for an append. */
interface Caller {
  readonly resolve: (sequence: number) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Puts an adapter's calls in order. Appends that are called in one turn of the event loop share a transaction, and so
 * one sync of the disk. While another process has locked the database, calls are tried again without blocking this
 * process.
 */
export class CallQueue {
  readonly #file: DatabaseFile<SqliteStore>;
  readonly #path: string;
  readonly #busyTimeoutMs: number;
  #appends: Append[] = [];
  /** The caller of each append. Callers are kept apart from the drafts, so that stored drafts can be freed. */
  #callers: Caller[] = [];
  #bytes = 0;
  #lastWrite: Promise<unknown> | undefined;
  #lastSuccessMs = Number.NEGATIVE_INFINITY;
  #idle: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /**
   * @param busyTimeoutMs - How long a call is tried again. The time counts from the call, or if it is later, from the
   *   last success of another call.
   */
  constructor(file: DatabaseFile<SqliteStore>, path: string, busyTimeoutMs: number) {
    this.#file = file;
    this.#path = path;
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /** Queues an append. It is committed in the next microtask, with all others that are queued until then. */
  enqueue({ draft, condition, options }: Append): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#assertOpen();
      // The arguments are copied, because the caller may change them as soon as it has its promise.
      this.#appends.push({ draft: copyRecord(draft), condition: { ...condition }, options: { ...options } });
      this.#callers.push({ resolve, reject });
      this.#bytes += draft.sizeBytes;
      if (this.#appends.length === MAX_APPENDS || this.#bytes >= MAX_BYTES) this.#flush();
      else if (this.#appends.length === 1) queueMicrotask(() => this.#flush());
    });
  }

  /** Reads the store at once, or as soon as it isn't locked. Resolves to `undefined` if there is no store. */
  async read<Result>(work: (store: SqliteStore) => Result | Promise<Result>): Promise<Result | undefined> {
    this.#assertOpen();
    this.#flush();
    const read = () => {
      const store = this.#file.existing();
      return store && work(store);
    };
    try {
      return await read();
    } catch (error) {
      if (!isBusy(error)) throw this.#explained(error);
    }
    try {
      return await this.#untilFree(read);
    } catch (error) {
      throw this.#explained(error);
    }
  }

  /**
   * Changes the store once all earlier calls are done and the database is free; at once if they are. Resolves to
   * `undefined` if there is no store.
   */
  change<Result>(work: (store: SqliteStore) => Result | Promise<Result>): Promise<Result | undefined> {
    return this.#write(() => {
      const store = this.#file.existing();
      return store && work(store);
    });
  }

  /** Like {@link change}, but creates the store if there is none. */
  changeOrCreate<Result>(work: (store: SqliteStore) => Result): Promise<Result> {
    return this.#write(() => work(this.#file.orNew()));
  }

  /** Closes the database once the calls made so far are done. Later calls are rejected. */
  close(): Promise<void> {
    this.#flush();
    this.#closing ??= this.#idle.then(() => this.#file.close());
    return this.#closing;
  }

  /** Starts the waiting appends, so that other calls come after them. */
  #flush(): void {
    const [appends, callers] = [this.#appends, this.#callers];
    if (appends.length === 0) return;
    this.#appends = [];
    this.#callers = [];
    this.#bytes = 0;
    void this.#commit(appends, callers);
  }

  async #commit(appends: readonly Append[], callers: readonly Caller[]): Promise<void> {
    try {
      const outcomes = await this.#inTurn(() => this.#appendAll(appends));
      for (const [index, outcome] of outcomes.entries()) {
        if ("error" in outcome) callers[index]?.reject(this.#explained(outcome.error));
        else callers[index]?.resolve(outcome.sequence);
      }
    } catch (error) {
      const explained = this.#explained(error);
      for (const { reject } of callers) reject(explained);
    }
  }

  #appendAll(appends: readonly Append[]): readonly Outcome[] {
    let store = this.#file.existing();
    if (store === undefined) {
      // These checks come first, because a refused append must not create a database.
      const refused = appends.map(refusalByNothing);
      if (refused.every((outcome) => outcome !== undefined)) return refused;
      store = this.#file.orNew();
    }
    return store.writer.appendAll(appends);
  }

  async #write<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    this.#assertOpen();
    this.#flush();
    try {
      return await this.#inTurn(work);
    } catch (error) {
      throw this.#explained(error);
    }
  }

  /** Makes a change at once. If the database is locked or other changes wait, makes it after them. */
  async #inTurn<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    try {
      if (this.#lastWrite === undefined) return await this.#file.change(work);
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
    const turn = this.#untilFree(() => this.#file.change(work), this.#lastWrite);
    this.#lastWrite = turn;
    try {
      return await turn;
    } finally {
      if (this.#lastWrite === turn) this.#lastWrite = undefined;
    }
  }

  async #untilFree<Result>(work: () => Result | Promise<Result>, before?: Promise<unknown>): Promise<Result> {
    const calledMs = performance.now();
    const tried = (async () => {
      await Promise.allSettled([before]);
      for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
        try {
          const result = await work();
          this.#lastSuccessMs = performance.now();
          return result;
        } catch (error) {
          const leftMs = this.#busyTimeoutMs - (performance.now() - Math.max(calledMs, this.#lastSuccessMs));
          if (!isBusy(error) || leftMs <= 0) throw error;
          // The pauses are random, so that waiting processes don't meet again and again.
          await sleep(Math.min(pauseMs * (0.5 + Math.random()), leftMs));
        }
      }
    })();
    // Resolves to nothing, so that results can be freed.
    this.#idle = Promise.allSettled([this.#idle, tried]).then(() => undefined);
    return tried;
  }

  #explained(error: unknown): unknown {
    // The connection would stay read-only, so the next call opens the database again.
    try {
      if (isReadOnly(error)) this.#file.close();
    } catch (failure) {
      return failure;
    }
    return explain(error, this.#path, this.#busyTimeoutMs);
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError("The sqlite adapter");
  }
}

/** The error of an append that must fail if nothing is stored; `undefined` if it could succeed. */
function refusalByNothing({ draft, condition, options }: Append): Outcome | undefined {
  try {
    checkLease(draft.taskId, NO_LEASE, condition);
    nextSequence(draft.taskId, { newestSequence: 0, lastSequence: 0 }, condition, options);
    return undefined;
  } catch (error) {
    return { error };
  }
}
