import { type Changed, Watchers } from "../sql/watchers.js";
import type { SqliteConnection } from "./connection.js";

/** How often the database is asked whether another connection has changed it. A poll takes some 40 µs. */
const POLL_MS = 20;
/** After a look at all watched tasks, the next one is at least so many times as long away as the look took. */
const IDLE_TIMES = 20;
/**
 * The states of tasks, by their places in a JSON list of ids: a state changes with each change of the task, except of its
 * lease. For a thousand tasks, one statement takes a tenth of the time of a thousand.
 */
const STATES = `SELECT group_concat(j.key || ':' || ifnull((SELECT max(sequence) FROM waymark_records r WHERE r.task_id = j.value), '') ||
    ' ' || ifnull(last_sequence || ' ' || count || ' ' || newest_status || ifnull(' ' || removed_up_to, ''), ''))
  FROM json_each(?) j LEFT JOIN waymark_tasks t ON t.task_id = j.value`;

/**
 * Tells watchers what may have changed in a database: at once after appends of this instance, and by polling after all
 * other changes. There is one timer for all watchers, and none without watchers.
 */
export class ChangeWatch {
  readonly #read: (work: (database: SqliteConnection) => void) => Promise<unknown>;
  readonly #watchers = new Watchers();
  /** The watched tasks as they were when they were looked at last. */
  readonly #seen = new Map<string, string>();
  /** The watched tasks to which this instance has appended since. */
  readonly #appended = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isAsking = false;
  #version: unknown;
  /** Whether any task may have changed, whatever the version is. */
  #isUnsure = false;
  /** By `performance.now()`. */
  #nextLookMs = 0;

  /** @param read - Calls `work` with the database, if there is one. */
  constructor(read: (work: (database: SqliteConnection) => void) => Promise<unknown>) {
    this.#read = read;
  }

  /** See `TaskLog.watch`. */
  add(changed: Changed, taskId: string | undefined): () => void {
    const remove = this.#watchers.add(changed, taskId);
    // The next poll tells it, since a change may have come before the watch.
    this.#version = undefined;
    if (taskId !== undefined) this.#forget(taskId);
    this.#timer ??= setInterval(() => void this.#poll(), POLL_MS).unref();
    return () => {
      remove();
      if (taskId !== undefined && !this.#watchers.has(taskId)) this.#forget(taskId);
      if (this.#watchers.isEmpty) this.end();
    };
  }

  /** Call it after appends to these tasks. */
  noteAppends(taskIds: readonly string[]): void {
    if (this.#watchers.isEmpty) return;
    for (const taskId of taskIds) {
      if (this.#seen.has(taskId)) this.#appended.add(taskId);
      this.#watchers.tell(taskId, true);
    }
    this.#watchers.tell(undefined, true);
  }

  /** Call it after a change of this instance that isn't an append. */
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
      // A database that can't be read is reported by the watchers' own reads.
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
    // The watchers of this instance's own appends were told.
    if (isUnsure) for (const taskId of changed) this.#watchers.tell(taskId, false);
  }

  /** Those of the tasks that have changed since they were looked at last. */
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
