import { Worker } from "node:worker_threads";

/** The number of pages after which the log is copied into the database. */
const COPY_AT_PAGES = 1000;
/**
 * The number of pages from which writes wait until the whole log is copied, so that SQLite restarts the log from its
 * beginning.
 */
export const FULL_AT_PAGES = 4000;
/** The approximate number of pages that a small change writes. */
const PAGES_OF_A_CHANGE = 5;
const PAGE_BYTES = 4096;

interface LogCopierParts {
  /** The path of the database. */
  readonly path: string;
  /**
   * The module that the thread requires: the file of better-sqlite3 that the process uses, or the runtime's own module.
   */
  readonly module: string;
  /** The size to which the log shrinks. */
  readonly limitBytes: number;
}

/**
 * The thread's program. A passive copy takes no lock for which another connection would wait. It first syncs the log,
 * and then the database.
 */
const PROGRAM = `
// Suppresses Node's warning that its SQLite is experimental.
process.emitWarning = () => undefined;
const { parentPort, workerData } = require("node:worker_threads");
const { pathToFileURL } = require("node:url");
const { module, path, limitBytes } = workerData;
const loaded = require(module);
const database =
  module === "node:sqlite" ? new loaded.DatabaseSync(new URL(pathToFileURL(path) + "?mode=rw")) :
  module === "bun:sqlite" ? new loaded.Database(path, { readwrite: true, create: false }) :
  new loaded(path, { fileMustExist: true });
for (const setting of ["busy_timeout = 0", "synchronous = NORMAL", "checkpoint_fullfsync = ON"]) database.exec("PRAGMA " + setting);
database.exec("PRAGMA journal_size_limit = " + limitBytes);
const copy = database.prepare("PRAGMA wal_checkpoint(PASSIVE)");
parentPort.on("message", (message) => {
  if (message === "close") {
    database.close();
    parentPort.close();
    return;
  }
  let pages = 0;
  try {
    pages = copy.get().log;
  } catch {
    // The log isn't changed. If the disk is full, the next saves report it.
  }
  parentPort.postMessage(pages);
});`;

/**
 * Copies SQLite's log into the database (SQLite calls this a checkpoint). Works in a thread, because a copy takes
 * milliseconds and syncs. The thread starts when the log is long enough for the first time.
 */
export class LogCopier {
  readonly #parts: LogCopierParts;
  readonly #failed: () => void;
  #thread: Worker | undefined;
  #exited: Promise<unknown> | undefined;
  #answered: ((pages: number) => void) | undefined;
  /** The estimated number of pages written since the last copy began. */
  #pages = 0;
  #copying: Promise<void> | undefined;
  #isFull = false;
  #isEnded = false;

  /** @param failed - Called if the thread can't copy. After that, this class does nothing. */
  constructor(parts: LogCopierParts, failed: () => void) {
    this.#parts = parts;
    this.#failed = failed;
  }

  /** A promise for which writes wait while the log is full or the thread hasn't answered for long. It never rejects. */
  get room(): Promise<void> | undefined {
    return this.#isFull || this.#pages >= FULL_AT_PAGES ? this.#copying : undefined;
  }

  /** Call this after each change. @param bytes - The bytes of the change's payloads. */
  wrote(bytes: number): void {
    this.#pages += PAGES_OF_A_CHANGE + bytes / PAGE_BYTES;
    if (this.#pages < COPY_AT_PAGES || this.#isEnded) return;
    this.#copying ??= this.#copy();
  }

  /**
   * Resolves once the thread has closed its connection. Since it is the last connection, closing it copies the rest of
   * the log.
   */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#thread?.ref();
    this.#thread?.postMessage("close");
    await this.#exited;
  }

  async #copy(): Promise<void> {
    this.#isFull = (await this.#ask()) + this.#pages >= FULL_AT_PAGES;
    if (this.#isFull && !this.#isEnded) await this.#ask();
    this.#isFull = false;
    this.#copying = undefined;
  }

  /** Copies the current content of the log. Resolves to the log's pages; 0 if nothing could be copied. */
  #ask(): Promise<number> {
    this.#pages = 0;
    return new Promise((resolve) => {
      this.#answered = resolve;
      try {
        this.#thread ??= this.#start();
        this.#thread.ref();
        this.#thread.postMessage("copy");
      } catch {
        this.#fail();
      }
    });
  }

  #start(): Worker {
    const resourceLimits = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 };
    const thread = new Worker(PROGRAM, { eval: true, workerData: this.#parts, execArgv: [], env: {}, resourceLimits });
    thread.on("message", (pages: number) => {
      // An idle thread doesn't keep the process alive.
      if (!this.#isEnded) thread.unref();
      this.#answered?.(pages);
    });
    thread.on("error", () => this.#fail());
    this.#exited = new Promise((resolve) => {
      thread.on("exit", () => {
        this.#fail();
        resolve(undefined);
      });
    });
    return thread;
  }

  /** Handles a thread that can't be started or has ended. */
  #fail(): void {
    if (!this.#isEnded) this.#failed();
    this.#isEnded = true;
    this.#answered?.(0);
  }
}
