import { closeSync, fdatasync, fstatSync, openSync, realpathSync, type Stats, statSync } from "node:fs";
import { unlessAbsent } from "../files/file-io.js";

/**
 * The files that a connection has open. A person or a script may delete or replace them. Another SQLite library in this
 * process may close the database, which frees this library's locks and removes the log. SQLite doesn't notice any of
 * this, and new processes wouldn't see later writes.
 */
export class OpenFiles {
  readonly #path: string;
  readonly #database: Stats;
  /** A descriptor of the log. (Closing a descriptor of the database would free SQLite's locks.) */
  readonly #log: number | undefined;
  /** The running sync. */
  #sync: Sync | undefined;
  /** The sync after the running one. */
  #nextSync: Sync | undefined;
  /**
   * The error of a failed sync. All later syncs also fail, because the system would report success without the lost
   * pages.
   */
  #failure: Error | undefined;

  /** @param hasLog - False for a copy, which is never written. */
  constructor(path: string, hasLog: boolean) {
    this.#path = path;
    this.#database = statSync(path);
    // If the path is a link, SQLite puts the log next to the link's target.
    this.#log = hasLog ? unlessAbsent(() => openSync(`${realpathSync(path)}-wal`, "r+")) : undefined;
  }

  get hasLog(): boolean {
    return this.#log !== undefined;
  }

  /**
   * Syncs the log off the event loop. The sync begins after this call and includes all earlier commits, even those of
   * other processes. Resolves to false if the log was deleted.
   */
  syncLog(): Promise<boolean> {
    this.#nextSync ??= new Sync();
    const { done } = this.#nextSync;
    if (this.#sync === undefined) this.#syncNext();
    return done;
  }

  /** Resolves once no sync is left. */
  async idle(): Promise<void> {
    // A sync's failure is reported to the calls that wait for it.
    for (let last = this.#last; last !== undefined; last = this.#last) await Promise.allSettled([last.done]);
  }

  /** True while the database and its log are still at their paths. */
  get areNamed(): boolean {
    return !this.#isLogDeleted && this.isDatabaseNamed;
  }

  get isDatabaseNamed(): boolean {
    return this.isOf(statSync(this.#path, { throwIfNoEntry: false }));
  }

  /** Whether the open database is this file. */
  isOf(file: Stats | undefined): boolean {
    return file?.ino === this.#database.ino && file.dev === this.#database.dev;
  }

  isSame(other: OpenFiles): boolean {
    return this.isOf(other.#database);
  }

  /** Closes the log once no sync is left. */
  close(): void {
    const log = this.#log;
    if (log !== undefined) void this.idle().then(() => closeSync(log));
  }

  get #last(): Sync | undefined {
    return this.#nextSync ?? this.#sync;
  }

  /** Starts the next sync, if there is one. It includes everything committed so far. */
  #syncNext(): void {
    const sync = this.#nextSync;
    this.#sync = sync;
    this.#nextSync = undefined;
    if (sync === undefined) return;
    const end = (error: Error | null) => {
      this.#failure ??= error ?? undefined;
      try {
        if (this.#failure === undefined) sync.resolve(!this.#isLogDeleted);
        else sync.reject(this.#failure);
      } catch (unreadable) {
        sync.reject(unreadable);
      }
      this.#syncNext();
    };
    if (this.#log === undefined || this.#failure !== undefined) end(null);
    else fdatasync(this.#log, end);
  }

  get #isLogDeleted(): boolean {
    return this.#log !== undefined && fstatSync(this.#log).nlink === 0;
  }
}

/** One sync, for all calls that wait for it. It has callbacks, since each promise in a save costs a microsecond. */
class Sync {
  resolve: (isNamed: boolean) => void = () => undefined;
  reject: (error: unknown) => void = () => undefined;
  readonly done = new Promise<boolean>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
}
