import { type Changed, Watchers } from "../sql/watchers.js";
import type { SqliteConnection } from "./connection.js";

/** The interval of polls for changes by other connections. A poll takes about 40 µs. */
const POLL_MS = 20;
/** After all watched tasks are read, the next read waits at least this many times as long as the read took. */
const IDLE_TIMES = 20;
/**
 * Reads the states of tasks, by their places in a JSON list of ids. A state changes with each change of the task,
 * except of its lease. For a thousand tasks, one statement takes a tenth of the time of a thousand statements.
 */
const STATES = `SELECT group_concat(j.key || ':' || ifnull((SELECT max(sequence) FROM waymark_records r WHERE r.task_id = j.value), '') ||
    ' ' || ifnull(last_sequence || ' ' || count || ' ' || newest_status || ifnull(' ' || removed_up_to, ''), ''))
  FROM json_each(?) j LEFT JOIN waymark_tasks t ON t.task_id = j.value`;

/**
 * Notifies watchers of possible changes in a database: immediately after this instance's appends, and by polling after
 * all other changes. All watchers share one timer, which stops when there are no watchers.
 */
export class ChangeWatch {
  readonly #read: (work: (database: SqliteConnection) => void) => Promise<unknown>;
  readonly #watchers = new Watchers();
  /** The states of the watched tasks when they were last read. */
  readonly #seen = new Map<string, string>();
  /** The watched tasks to which this instance has appended since their last read. */
  readonly #appended = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isAsking = false;
  #version: unknown;
  /** Whether any task may have changed, even if the version hasn't. */
  #isUnsure = false;
  /** The earliest time of the next read of all watched tasks, by `performance.now()`. */
  #nextLookMs = 0;

  /** @param read - Calls `work` with the database, if there is one. */
  constructor(read: (work: (database: SqliteConnection) => void) => Promise<unknown>) {
    this.#read = read;
  }

  /** See `TaskLog.watch`. */
  add(changed: Changed, taskId: string | undefined): () => void {
    const remove = this.#watchers.add(changed, taskId);
    // The next poll notifies the new watcher, because a change may have come before the watch.
    this.#version = undefined;
    if (taskId !== undefined) this.#forget(taskId);
    this.#timer ??= setInterval(() => void this.#poll(), POLL_MS).unref();
    return () => {
      remove();
      if (taskId !== undefined && !this.#watchers.has(taskId)) this.#forget(taskId);
      if (this.#watchers.isEmpty) this.end();
    };
  }

  /** Call this after appends to these tasks. */
  noteAppends(taskIds: readonly string[]): void {
    if (this.#watchers.isEmpty) return;
    for (const taskId of taskIds) {
      if (this.#seen.has(taskId)) this.#appended.add(taskId);
      this.#watchers.tell(taskId, true);
    }
    this.#watchers.tell(undefined, true);
  }

  /** Call this after a change of this instance that isn't an append. */
  noteChange(): void {
    this.#isUnsure = true;
    this.#watchers.tell(undefined, true);
  }

  /** Ends all watches. */
  end(): void {
    this.#watchers.clear();
    this.#seen.clear();
    this.#appended.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #forget(taskId: string): void {
    this.#seen.delete(taskId);
    this.#appended.delete(taskId);
  }

  async #poll(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      await this.#read((database) => this.#look(database));
    } catch {
      // If the database can't be read, the watchers' own reads report it.
      this.#watchers.tellAll(false);
    } finally {
      this.#isAsking = false;
    }
  }

  #look(database: SqliteConnection): void {
    const version = database.pragma("data_version");
    if (version !== this.#version) {
      this.#version = version;
      this.#isUnsure = true;
      this.#watchers.tell(undefined, false);
    }
    const startMs = performance.now();
    if (this.#isUnsure ? startMs < this.#nextLookMs : this.#appended.size === 0) return;
    const isUnsure = this.#isUnsure;
    const changed = this.#readChanged(database, isUnsure ? this.#watchers.keys : [...this.#appended]);
    this.#isUnsure = false;
    this.#appended.clear();
    this.#nextLookMs = performance.now() + IDLE_TIMES * (performance.now() - startMs);
    // After appends of this instance only, the watchers were already notified.
    if (isUnsure) for (const taskId of changed) this.#watchers.tell(taskId, false);
  }

  /** Returns the tasks that have changed since their last read. */
  #readChanged(database: SqliteConnection, taskIds: readonly string[]): readonly string[] {
    if (taskIds.length === 0) return [];
    const [states] = database.one(STATES, JSON.stringify(taskIds)) ?? [];
    return String(states)
      .split(",")
      .flatMap((placed) => {
        const end = placed.indexOf(":");
        const [taskId, state] = [taskIds[Number(placed.slice(0, end))], placed.slice(end)];
        if (taskId === undefined || this.#seen.get(taskId) === state) return [];
        this.#seen.set(taskId, state);
        return taskId;
      });
  }
}
