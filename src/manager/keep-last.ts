import type { StorageAdapter } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { isTransient, replacedBy } from "../contract/transient.js";
import type { Removal } from "./removal.js";

const MAX_TASKS = 10_000;

/**
 * Applies the policy `{ keepLast }` after each save. It removes the same checkpoints as a retention plan. But a plan
 * reads the header of each checkpoint that stays. This class only remembers how many checkpoints stay, and reads those
 * to remove. If it doesn't find the expected number to remove, another process has changed the task, so it makes a
 * plan.
 */
export class KeepLast {
  readonly #keepLast: number;
  readonly #storage: Pick<StorageAdapter, "list">;
  readonly #removal: Pick<Removal, "prune">;
  readonly #tasks = new Map<string, { turn: Promise<void>; known: Known | undefined }>();

  constructor(keepLast: number, storage: Pick<StorageAdapter, "list">, removal: Pick<Removal, "prune">) {
    this.#keepLast = keepLast;
    this.#storage = storage;
    this.#removal = removal;
  }

  /**
   * @param applyPlan - Makes a plan for the task and applies it. The plan covers records above the sequence `cleanUpTo`
   *   (default: all). Returns what stays; `undefined` if something of the task is damaged.
   */
  afterSave(
    saved: CheckpointSummary,
    applyPlan: (cleanUpTo?: number) => Promise<KeptCheckpoints | undefined>,
  ): Promise<void> {
    const { taskId } = saved;
    const task = this.#tasks.get(taskId) ?? { turn: Promise.resolve(), known: undefined };
    this.#tasks.delete(taskId);
    this.#tasks.set(taskId, task);
    const [oldest] = this.#tasks.keys();
    if (oldest !== undefined && this.#tasks.size > MAX_TASKS) this.#tasks.delete(oldest);
    const turn = task.turn.then(async () => {
      // If a call fails, the memory stays one save behind, so the next save makes a plan.
      const now = task.known && (await this.#applied(task.known, saved));
      task.known = now ?? describeTask(await applyPlan(cleanUpTo(task.known, saved)));
    });
    // The failure belongs to the caller of this turn, not to the next one.
    task.turn = turn.catch(() => undefined);
    return turn;
  }

  /** Applies the policy. If the storage doesn't match the memory, removes nothing and returns `undefined`. */
  async #applied(known: Known, saved: CheckpointSummary): Promise<Known | undefined> {
    const { taskId, id, sequence } = saved;
    // A milestone doesn't show whether it replaced the transient checkpoint before it, so it needs a plan.
    if (sequence !== known.sequence + 1 || known.transient !== replacedBy(saved)) return undefined;
    if (isTransient(saved)) return { ...known, sequence, transient: id };
    const keepLast = this.#keepLast;
    const { milestones } = known;
    if (milestones < keepLast) return { ...known, sequence, milestones: milestones + 1, transient: undefined };
    // Only a plan finds the records to remove with the oldest milestone.
    if (known.mayHaveRecords) return undefined;
    const left: (CheckpointSummary | CorruptRecord)[] = [];
    const query = { taskId, order: "newest", beforeSequence: sequence + 1, skip: keepLast } as const;
    for await (const record of this.#storage.list(query)) left.push(record);
    const [oldest, ...others] = left;
    if (oldest === undefined || others.length > 0 || isCorrupt(oldest)) return undefined;
    await this.#removal.prune({ taskId, ids: [oldest.id], by: "retention" });
    return { ...known, sequence, milestones: keepLast, transient: undefined };
  }
}

/** The checkpoints that a plan leaves. */
export interface KeptCheckpoints {
  /** Newest first. */
  readonly checkpoints: readonly CheckpointSummary[];
  /** Whether the task's log may have records that are removed with one of these checkpoints. */
  readonly mayHaveRecords: boolean;
  /**
   * Up to this sequence, all records to remove are removed. Records that a run needed stay until another process makes
   * a plan.
   */
  readonly cleanUpTo: number;
}

/** A task whose checkpoints can all be read. All but the newest are milestones. */
interface Known extends Omit<KeptCheckpoints, "checkpoints"> {
  readonly sequence: number;
  readonly milestones: number;
  readonly transient: string | undefined;
}

function describeTask(kept: KeptCheckpoints | undefined): Known | undefined {
  const { checkpoints = [], mayHaveRecords = true, cleanUpTo = 0 } = kept ?? {};
  const [newest] = checkpoints;
  if (newest === undefined) return undefined;
  // Of the checkpoints that a plan leaves, only the newest may be transient.
  const transient = isTransient(newest) ? newest.id : undefined;
  const milestones = checkpoints.length - (transient === undefined ? 0 : 1);
  return { sequence: newest.sequence, milestones, transient, mayHaveRecords, cleanUpTo };
}

/**
 * Returns the sequence above which a plan reads records, since a log may be long, and saves are many. All records are
 * read if nothing is known, or if the task's sequences have begun again.
 */
function cleanUpTo(known: Known | undefined, { sequence }: CheckpointSummary): number {
  return known !== undefined && sequence > known.sequence ? known.cleanUpTo : 0;
}
