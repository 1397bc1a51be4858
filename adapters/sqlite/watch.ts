/** How often the database is asked whether another connection has changed it. A poll takes some 50 µs. */
const POLL_MS = 15;

/**
 * Tells watchers that a database may have changed: at once after changes of this connection, and by polling after
 * those of others. There is one timer for all watchers, and none without watchers.
 */
export class ChangeWatch {
  readonly #readVersion: () => Promise<unknown>;
  readonly #watchers = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #isAsking = false;

  /** @param readVersion - Resolves to a value that changes whenever another connection changes the database. */
  constructor(readVersion: () => Promise<unknown>) {
    this.#readVersion = readVersion;
  }

  /** Calls `changed` after each change. Returns a function that ends this. */
  add(changed: () => void): () => void {
    // Each call has a watcher of its own, even if the same function is passed twice.
    const watcher = () => changed();
    this.#watchers.add(watcher);
    this.#timer ??= this.#start();
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.end();
    };
  }

  tell(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }

  /** Ends all watches. */
  end(): void {
    this.#watchers.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(): NodeJS.Timeout {
    let last: unknown;
    const ask = async () => {
      if (this.#isAsking) return;
      this.#isAsking = true;
      try {
        const version = await this.#readVersion();
        // The first answer may already include a change that was made after the watch began.
        if (version !== last) this.tell();
        last = version;
      } catch {
        // A database that can't be read is reported by the watcher's own reads.
        this.tell();
      } finally {
        this.#isAsking = false;
      }
    };
    return setInterval(() => void ask(), POLL_MS).unref();
  }
}
