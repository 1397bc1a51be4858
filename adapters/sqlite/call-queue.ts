import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { AdapterCalls } from "../../src/contract/adapter-calls.js";
import { type Append, firstSequence, getTaskId } from "../sql/adapter.js";
import { type LogAppend, sizeOfRecords } from "../sql/records.js";
import type { Changed } from "../sql/watchers.js";
import type { SqliteConnection } from "./connection.js";
import type { DatabaseFile } from "./database-file.js";
import { explain, isBusy, isReadOnly } from "./errors.js";
import { SqliteHistories } from "./histories.js";
import { SqliteLog } from "./log.js";
import { SqliteReader } from "./reader.js";
import { ChangeWatch } from "./watch.js";
import { type Outcome, SqliteWriter } from "./writer.js";

/** The objects that work with an open database. */
export interface SqliteStore {
  readonly database: SqliteConnection;
  readonly histories: SqliteHistories;
  readonly reader: SqliteReader;
  readonly writer: SqliteWriter;
  readonly log: SqliteLog;
}

export function storeIn(database: SqliteConnection, path: string): SqliteStore {
  const histories = new SqliteHistories(database);
  const reader = new SqliteReader({ database, histories, path });
  const log = new SqliteLog({ database, reader, path });
  return { database, histories, reader, log, writer: new SqliteWriter({ database, histories, reader, log, path }) };
}

const FIRST_PAUSE_MS = 1;
const MAX_PAUSE_MS = 20;
/**
 * Calls may finish without a turn of the event loop. A program that awaits nothing else would then starve timers and
 * keep a sync from finishing. So after this many milliseconds without a turn, a call finishes in the next turn.
 */
const MOST_HELD_MS = 10;
/**
 * How many appends one transaction may have. Together with {@link MAX_BYTES}, the approximate limit for their payloads,
 * this limits the memory of waiting appends.
 */
const MAX_APPENDS = 256;
const MAX_BYTES = 4 * 1024 * 1024;

/** A resolved promise, whose `then` is faster than Node's `queueMicrotask`. */
const NOW = Promise.resolve();

interface WaitingAppend {
  readonly append: Append | LogAppend;
  readonly resolve: (sequence: number) => void;
  readonly reject: (error: unknown) => void;
}

/** The bytes of a change's payloads, and whether the change is acknowledged before it survives a power cut. */
interface Written {
  readonly bytes: number;
  readonly isLazy: boolean;
}

/** A committed change. */
interface Change<Result> {
  readonly result: Result;
  /** Resolves once the change survives a power cut; `undefined` if the call doesn't wait for a sync. */
  readonly synced: Promise<void> | undefined;
}

/**
 * Puts an adapter's calls in order. Appends that are called in one microtask share a transaction. Changes that are
 * committed during a sync of the log share the next sync. While another process has locked the database, calls are
 * retried without blocking this process.
 */
export class CallQueue {
  readonly #file: DatabaseFile<SqliteStore>;
  readonly #path: string;
  readonly #busyTimeoutMs: number;
  #changes: ChangeWatch | undefined;
  readonly #calls = new AdapterCalls({ name: "sqlite", explain: (error) => this.#explained(error) });
  #waiting: WaitingAppend[] = [];
  #bytes = 0;
  #pendingWrites = 0;
  #isClosed = false;
  /** The time when this turn's first call finished; `undefined` if no call has. */
  #heldSinceMs: number | undefined;
  #lastSuccessMs = Number.NEGATIVE_INFINITY;

  /**
   * @param busyTimeoutMs - How long a call is retried, counted from the call or the last success of another call,
   *   whichever is later.
   */
  constructor(file: DatabaseFile<SqliteStore>, path: string, busyTimeoutMs: number) {
    this.#file = file;
    this.#path = path;
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /** See `TaskLog.watch`. */
  watch(changed: Changed, taskId: string | undefined): () => void {
    this.#changes ??= new ChangeWatch((work) => this.read(({ database }) => work(database)));
    return this.#changes.add(changed, taskId);
  }

  /** Queues an append. The append is committed in the next microtask, with all others that are queued by then. */
  enqueue(append: Append | LogAppend): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ append, resolve, reject });
      this.#bytes += measure(append);
      if (this.#waiting.length === MAX_APPENDS || this.#bytes >= MAX_BYTES) this.#flush();
      else if (this.#waiting.length === 1) void NOW.then(() => this.#flush());
    });
  }

  /** Reads the store, immediately or as soon as it isn't locked. Resolves to `undefined` if there is no store. */
  read<Result>(work: (store: SqliteStore) => Result | Promise<Result>): Promise<Result | undefined> {
    this.#flush();
    const read = () => {
      const store = this.#file.existing();
      return store && work(store);
    };
    return this.#calls.run(async () => {
      const result = await this.#untilFree(read, performance.now());
      await this.#turn();
      return result;
    });
  }

  /**
   * Changes the store once all earlier changes are done and the database isn't locked. Resolves to `undefined` if there
   * is no store.
   */
  change<Result>(work: (store: SqliteStore) => Result | Promise<Result>): Promise<Result | undefined> {
    return this.#write((store) => store && work(store));
  }

  /** Like {@link change}, but creates the store if there is none. */
  changeOrCreate<Result>(work: (store: SqliteStore) => Result): Promise<Result> {
    return this.#write((store) => work(store ?? this.#file.orNew()));
  }

  /** Closes the database once the calls made so far are done. Later calls are rejected. */
  close(): Promise<void> {
    this.#flush();
    this.#isClosed = true;
    this.#changes?.end();
    return this.#calls.close(async () => {
      await this.#file.idle();
      await this.#file.close();
    });
  }

  /** Starts the waiting appends immediately, so that later calls come after them. Never throws. */
  #flush(): void {
    const batch = this.#waiting;
    const bytes = this.#bytes;
    if (batch.length === 0) return;
    this.#waiting = [];
    this.#bytes = 0;
    const appends = batch.map(({ append }) => append);
    const isLazy = appends.every(({ options }) => "lazy" in options && options.lazy === true);
    const fail = (error: unknown) => {
      for (const { reject } of batch) reject(this.#explained(error));
    };
    try {
      const change = this.#commitAtOnce(appends, { bytes, isLazy });
      if (change !== undefined) this.#answer(batch, change, fail);
      else {
        const changed = this.#inTurn((store) => this.#commit(store, appends), { bytes, isLazy });
        changed.then((done) => this.#answer(batch, done, fail), fail);
      }
    } catch (error) {
      fail(error);
    }
  }

  /** Settles the appends of a batch, after their sync if there is one. */
  #answer(
    batch: readonly WaitingAppend[],
    { result: outcomes, synced }: Change<readonly Outcome[]>,
    fail: (error: unknown) => void,
  ): void {
    const answer = () => {
      for (const [index, outcome] of outcomes.entries()) {
        if ("error" in outcome) batch[index]?.reject(this.#explained(outcome.error));
        else batch[index]?.resolve(outcome.sequence);
      }
      this.#changes?.noteAppends(batch.map(({ append }) => getTaskId(append)));
    };
    const wait = synced ?? this.#turn();
    if (wait === undefined) answer();
    else wait.then(answer, fail);
  }

  /**
   * Commits without the queue, whose promises take some microseconds. Returns `undefined` if the batch must wait: for
   * other changes, for another process's lock, or while the log is full.
   */
  #commitAtOnce(
    appends: readonly (Append | LogAppend)[],
    { bytes, isLazy }: Written,
  ): Change<readonly Outcome[]> | undefined {
    if (this.#pendingWrites > 0 || this.#isClosed || this.#file.room !== undefined) return undefined;
    try {
      const result = this.#file.change((store) => this.#commit(store, appends), isLazy);
      this.#file.wrote(bytes);
      return { result, synced: isLazy ? undefined : this.#file.synced() };
    } catch (error) {
      if (isBusy(error)) return undefined;
      throw error;
    }
  }

  /** Returns a promise for the event loop's next turn, if the current turn has lasted {@link MOST_HELD_MS}. */
  #turn(): Promise<void> | undefined {
    const nowMs = performance.now();
    if (this.#heldSinceMs !== undefined) return nowMs - this.#heldSinceMs < MOST_HELD_MS ? undefined : nextTurn();
    this.#heldSinceMs = nowMs;
    setImmediate(() => {
      this.#heldSinceMs = undefined;
    });
    return undefined;
  }

  #commit(store: SqliteStore | undefined, appends: readonly (Append | LogAppend)[]): readonly Outcome[] {
    if (store !== undefined) return store.writer.commit(appends);
    // These checks come first, because a refused append must not create a database.
    const outcomes = appends.map(tryFirst);
    const areRefused = outcomes.every((outcome) => "error" in outcome);
    return areRefused ? outcomes : this.#file.orNew().writer.commit(appends);
  }

  async #write<Result>(work: (store: SqliteStore | undefined) => Result | Promise<Result>): Promise<Result> {
    this.#flush();
    const { result, synced } = await this.#inTurn(work);
    try {
      await (synced ?? this.#turn());
    } catch (error) {
      throw this.#explained(error);
    }
    this.#changes?.noteChange();
    return result;
  }

  /** Changes the store after all earlier changes. The next change doesn't wait for the sync of this one. */
  #inTurn<Result>(
    work: (store: SqliteStore | undefined) => Result | Promise<Result>,
    { bytes, isLazy }: Written = { bytes: 0, isLazy: false },
  ): Promise<Change<Result>> {
    const calledMs = performance.now();
    const change = async () => {
      await this.#file.room;
      const result = await this.#file.change(work, isLazy);
      this.#file.wrote(bytes);
      return { result, synced: isLazy ? undefined : this.#file.synced() };
    };
    this.#pendingWrites += 1;
    const written = this.#calls.inTurn("", () => this.#untilFree(change, calledMs));
    return written.finally(() => {
      this.#pendingWrites -= 1;
    });
  }

  async #untilFree<Result>(work: () => Result | Promise<Result>, calledMs: number): Promise<Result> {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
      try {
        const result = await work();
        this.#lastSuccessMs = performance.now();
        return result;
      } catch (error) {
        const leftMs = this.#busyTimeoutMs - (performance.now() - Math.max(calledMs, this.#lastSuccessMs));
        if (!isBusy(error) || leftMs <= 0) throw error;
        // The pauses are random, so that waiting processes don't keep colliding.
        await sleep(Math.min(pauseMs * (0.5 + Math.random()), leftMs));
      }
    }
  }

  #explained(error: unknown): unknown {
    // The connection would stay read-only, so the next call opens the database again.
    if (isReadOnly(error)) void this.#file.close();
    return explain(error, this.#path, this.#busyTimeoutMs);
  }
}

/** Returns the outcome of an append to a store that doesn't exist yet. */
function tryFirst(append: Append | LogAppend): Outcome {
  try {
    return { sequence: firstSequence(append) };
  } catch (error) {
    return { error };
  }
}

function measure(append: Append | LogAppend): number {
  return "draft" in append
    ? append.draft.sizeBytes + (append.options.records ? sizeOfRecords(append.options.records) : 0)
    : sizeOfRecords(append.records);
}
