import { type CheckpointQuery, type CorruptRecord, isCorrupt } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isPassing } from "../contract/passing.js";

type Listed = CheckpointSummary | CorruptRecord;

/** The part of the pruner that {@link KeepLast} uses. */
export interface KeepLastHost {
  readonly keepLast: number;
  list(query: CheckpointQuery): AsyncIterable<Listed>;
  /** Removes what the plan for the task does. Gives what stays, damaged records included, newest first. */
  applyPlan(taskId: string): Promise<readonly Listed[]>;
  remove(taskId: string, ids: readonly string[]): Promise<unknown>;
}

/** More checkpoints aren't remembered, except for the task that was saved last. A hundred thousand take 15 MB. */
const MAX_REMEMBERED = 100_000;

/**
 * Applies the policy `{ keepLast }` after each save, and removes what its plan would: but a plan reads the header of each
 * checkpoint that stays, and this remembers them, so that a save costs the same for any `keepLast`.
 *
 * Its memory may be wrong, since other processes save and remove, too. So it removes nothing before the storage has
 * the first one that goes in the very place where it is remembered to be: as numbers only grow, all newer ones are there
 * then. If it isn't there, it makes the plan.
 */
export class KeepLast {
  readonly #host: KeepLastHost;
  /** The one saved last comes last. */
  readonly #tasks = new Map<string, SavedTask>();
  #remembered = 0;

  constructor(host: KeepLastHost) {
    this.#host = host;
  }

  /** One save of a task at a time. Those that come meanwhile are looked at together. */
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
    // If a call fails, nothing is known for sure.
    this.#remember(task, undefined);
    const isDone = known !== undefined && (await this.#learn(known, saved)) && (await this.#remove(taskId, known));
    const now = isDone ? known : new KnownTask(await this.#host.applyPlan(taskId));
    // It may have been forgotten meanwhile.
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

  /** Adds what was saved, by this manager and by others before it. False if the task's numbering has begun anew. */
  async #learn(known: KnownTask, saved: readonly CheckpointSummary[]): Promise<boolean> {
    for (const summary of saved) {
      const { taskId, id, sequence } = summary;
      const { newestSequence } = known;
      // A retry of a save gives the checkpoint that was saved the first time.
      if (sequence <= newestSequence && !known.has(id)) return false;
      if (sequence <= newestSequence) continue;
      const between = { taskId, order: "oldest", afterSequence: newestSequence, beforeSequence: sequence } as const;
      if (sequence > newestSequence + 1) for await (const record of this.#host.list(between)) known.add(record);
      known.add(summary);
    }
    return true;
  }

  /** Removes what goes. False, and nothing is removed, if the storage has something else than is known. */
  async #remove(taskId: string, known: KnownTask): Promise<boolean> {
    const query = { taskId, order: "newest", beforeSequence: known.newestSequence + 1 } as const;
    const [passing, ...others] = known.overtaken;
    if (others.length > 0) return false;
    const ids: string[] = [];
    if (passing !== undefined) {
      for await (const record of this.#host.list({ ...query, skip: known.newerThan(passing), limit: 1 })) {
        // Since it was read it may have been completed, which makes it a milestone.
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
  /** Those that no turn has looked at yet. */
  saved: CheckpointSummary[];
  /** Ends when those that were saved before are looked at. */
  turn: Promise<void>;
  known: KnownTask | undefined;
}

interface Known {
  readonly id: string | undefined;
  readonly kind: "milestone" | "passing" | "damaged";
}

/** A task's newest checkpoints without a gap, down to the oldest that stays. */
class KnownTask {
  /** The oldest first. */
  #records: Known[] = [];
  #milestones = 0;
  #newestSequence = 0;
  /** That can be read. */
  #newest: Known | undefined;
  /** Passing ones that aren't the newest any more. */
  #overtaken: Known[] = [];

  constructor(newestFirst: readonly Listed[]) {
    for (const record of newestFirst.toReversed()) this.add(record);
    // The plan has let them stay.
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

  /** The newest milestone that comes after the last `keepLast`, and how many go with it. */
  beyond(keepLast: number): { readonly first: Known | undefined; readonly count: number } {
    let [left, count] = [this.#milestones - keepLast, 0];
    for (const record of left > 0 ? this.#records : []) {
      if (record.kind !== "damaged") count += 1;
      if (record.kind === "milestone") left -= 1;
      if (left === 0) return { first: record, count };
    }
    return { first: undefined, count };
  }

  /** @param first - Goes with all that are older. */
  forget(passing: Known | undefined, first: Known | undefined): void {
    if (first !== undefined) {
      const gone = this.#records.splice(0, this.#records.indexOf(first) + 1);
      this.#milestones -= gone.filter(({ kind }) => kind === "milestone").length;
    }
    if (passing !== undefined) this.#records = this.#records.filter((record) => record !== passing);
    this.#overtaken = [];
  }
}
