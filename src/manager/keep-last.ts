import { type CheckpointQuery, type CorruptRecord, isCorrupt } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isPassing } from "../contract/passing.js";

type Listed = CheckpointSummary | CorruptRecord;

/** The part of the pruner that {@link KeepLast} uses. */
export interface KeepLastHost {
  readonly keepLast: number;
  list(query: CheckpointQuery): AsyncIterable<Listed>;
  /** Plans for the task and applies the plan. Returns the records that stay, damaged ones included, newest first. */
  applyPlan(taskId: string): Promise<readonly Listed[]>;
  remove(taskId: string, ids: readonly string[]): Promise<unknown>;
}

/** The most checkpoints to remember, in 15 MB. The task that was saved last is remembered even beyond this limit. */
const MAX_REMEMBERED = 100_000;

/**
 * Applies the policy `{ keepLast }` after each save. It removes the same checkpoints as a retention plan. But a plan
 * reads the header of each checkpoint that stays. This class remembers these headers instead, so a save costs the same
 * for any `keepLast`.
 *
 * The memory may be outdated, since other processes save and remove, too. So before it removes anything, it asks the
 * storage how many checkpoints are newer than the newest one to remove. If the number is as remembered, all of them are
 * still there, since sequences only grow. If not, it makes a plan.
 */
export class KeepLast {
  readonly #host: KeepLastHost;
  /** The tasks in the order of their last saves. */
  readonly #tasks = new Map<string, SavedTask>();
  #remembered = 0;

  constructor(host: KeepLastHost) {
    this.#host = host;
  }

  /** Handles one save of a task at a time. Saves that come while another save is handled are then handled together. */
  afterSave(saved: CheckpointSummary): Promise<void> {
    const { taskId } = saved;
    const task = this.#tasks.get(taskId) ?? { saved: [], turn: Promise.resolve(), known: undefined };
    this.#tasks.delete(taskId);
    this.#tasks.set(taskId, task);
    task.saved.push(saved);
    const turn = task.turn.then(() => this.#take(taskId, task));
    task.turn = turn.catch(() => undefined);
    return turn;
  }

  async #take(taskId: string, task: SavedTask): Promise<void> {
    const saved = task.saved.splice(0).sort((a, b) => a.sequence - b.sequence);
    if (saved.length === 0) return;
    const { known } = task;
    // The task is forgotten first, because the memory is unreliable if a call below fails.
    this.#remember(task, undefined);
    const isDone = known !== undefined && (await this.#learn(known, saved)) && (await this.#remove(taskId, known));
    const now = isDone ? known : new KnownTask(await this.#host.applyPlan(taskId));
    // During the calls above, the task may have been dropped from the memory.
    if (this.#tasks.get(taskId) === task) this.#remember(task, now);
    for (const [oldestId, oldest] of this.#tasks) {
      if (this.#remembered <= MAX_REMEMBERED || oldest === task) break;
      this.#remember(oldest, undefined);
      this.#tasks.delete(oldestId);
    }
  }

  #remember(task: SavedTask, known: KnownTask | undefined): void {
    this.#remembered += (known?.size ?? 0) - (task.known?.size ?? 0);
    task.known = known;
  }

  /**
   * Adds the saves of `saved`, and the saves of other managers between them. Returns false if the task's numbering has
   * restarted.
   */
  async #learn(known: KnownTask, saved: readonly CheckpointSummary[]): Promise<boolean> {
    for (const summary of saved) {
      const { taskId, id, sequence } = summary;
      const { newestSequence } = known;
      // A retried save returns the checkpoint of the first save.
      if (sequence <= newestSequence && !known.has(id)) return false;
      if (sequence <= newestSequence) continue;
      const between = { taskId, order: "oldest", afterSequence: newestSequence, beforeSequence: sequence } as const;
      if (sequence > newestSequence + 1) for await (const record of this.#host.list(between)) known.add(record);
      known.add(summary);
    }
    return true;
  }

  /**
   * Removes the checkpoints that the policy doesn't keep. If the storage doesn't match the memory, it removes nothing
   * and returns false.
   */
  async #remove(taskId: string, known: KnownTask): Promise<boolean> {
    const query = { taskId, order: "newest", beforeSequence: known.newestSequence + 1 } as const;
    const [passing, ...others] = known.overtaken;
    if (others.length > 0) return false;
    const ids: string[] = [];
    if (passing !== undefined) {
      for await (const record of this.#host.list({ ...query, skip: known.newerThan(passing), limit: 1 })) {
        // The checkpoint may have been completed since it was saved, which makes it a milestone.
        if (!isCorrupt(record) && record.id === passing.id && isPassing(record)) ids.push(record.id);
      }
      if (ids.length === 0) return false;
    }
    const { first, count } = known.beyond(this.#host.keepLast);
    if (first !== undefined) {
      let isThere = false;
      for await (const record of this.#host.list({ ...query, skip: known.newerThan(first), limit: count })) {
        isThere ||= record.id === first.id;
        if (!isThere) return false;
        if (!isCorrupt(record)) ids.push(record.id);
      }
      if (!isThere) return false;
    }
    if (ids.length > 0) await this.#host.remove(taskId, ids);
    known.forget(passing, first);
    return true;
  }
}

interface SavedTask {
  /** Saves that aren't handled yet. */
  saved: CheckpointSummary[];
  /** Resolves once the earlier saves are handled. */
  turn: Promise<void>;
  known: KnownTask | undefined;
}

interface Known {
  readonly id: string | undefined;
  readonly kind: "milestone" | "passing" | "damaged";
}

/** All of a task's checkpoints from the newest down to the oldest that stays. */
class KnownTask {
  /** Oldest first. */
  #records: Known[] = [];
  #milestones = 0;
  #newestSequence = 0;
  /** The newest readable record. */
  #newest: Known | undefined;
  /** Passing checkpoints that have newer checkpoints, and so must be removed. */
  #overtaken: Known[] = [];

  constructor(newestFirst: readonly Listed[]) {
    for (const record of newestFirst.toReversed()) this.add(record);
    // The plan has kept the passing checkpoints among these records.
    this.#overtaken = [];
  }

  get size(): number {
    return this.#records.length;
  }

  get newestSequence(): number {
    return this.#newestSequence;
  }

  get overtaken(): readonly Known[] {
    return this.#overtaken;
  }

  has(id: string): boolean {
    return this.#records.some((record) => record.id === id);
  }

  add(record: Listed): void {
    const kind = isCorrupt(record) ? "damaged" : isPassing(record) ? "passing" : "milestone";
    const added = { id: record.id, kind } as const;
    if (kind === "milestone") this.#milestones += 1;
    if (kind !== "damaged") {
      if (this.#newest?.kind === "passing") this.#overtaken.push(this.#newest);
      this.#newest = added;
    }
    this.#records.push(added);
    this.#newestSequence = Math.max(this.#newestSequence, record.sequence ?? 0);
  }

  newerThan(record: Known): number {
    return this.#records.length - 1 - this.#records.lastIndexOf(record);
  }

  /** The newest milestone beyond `keepLast`, and the number of readable records to remove with it. */
  beyond(keepLast: number): { readonly first: Known | undefined; readonly count: number } {
    let [left, count] = [this.#milestones - keepLast, 0];
    for (const record of left > 0 ? this.#records : []) {
      if (record.kind !== "damaged") count += 1;
      if (record.kind === "milestone") left -= 1;
      if (left === 0) return { first: record, count };
    }
    return { first: undefined, count };
  }

  /** @param first - The newest record to forget. All older records are forgotten too. */
  forget(passing: Known | undefined, first: Known | undefined): void {
    if (first !== undefined) {
      const gone = this.#records.splice(0, this.#records.indexOf(first) + 1);
      this.#milestones -= gone.filter(({ kind }) => kind === "milestone").length;
    }
    if (passing !== undefined) this.#records = this.#records.filter((record) => record !== passing);
    this.#overtaken = [];
  }
}
