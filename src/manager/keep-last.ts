import { type CheckpointQuery, type CorruptRecord, isCorrupt } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isPassing, replacedBy } from "../contract/passing.js";

type Listed = CheckpointSummary | CorruptRecord;

/** The part of the pruner that {@link KeepLast} uses. */
export interface KeepLastHost {
  readonly keepLast: number;
  list(query: CheckpointQuery): AsyncIterable<Listed>;
  /** Plans for the task and applies the plan. Returns the records that stay, damaged ones included, newest first. */
  applyPlan(taskId: string): Promise<readonly Listed[]>;
  remove(taskId: string, ids: readonly string[]): Promise<unknown>;
}

const MAX_TASKS = 10_000;

/**
 * Applies the policy `{ keepLast }` after each save. It removes the same checkpoints as a retention plan. But a plan
 * reads the header of each checkpoint that stays. This class only remembers the number of these checkpoints, and reads
 * the ones to remove. If it doesn't find the expected number of them, another process has changed the task, and it
 * makes a plan.
 */
export class KeepLast {
  readonly #host: KeepLastHost;
  readonly #tasks = new Map<string, { turn: Promise<void>; known: Known | undefined }>();

  constructor(host: KeepLastHost) {
    this.#host = host;
  }

  afterSave(saved: CheckpointSummary): Promise<void> {
    const { taskId } = saved;
    const task = this.#tasks.get(taskId) ?? { turn: Promise.resolve(), known: undefined };
    this.#tasks.delete(taskId);
    this.#tasks.set(taskId, task);
    const [oldest] = this.#tasks.keys();
    if (oldest !== undefined && this.#tasks.size > MAX_TASKS) this.#tasks.delete(oldest);
    const turn = task.turn.then(async () => {
      const { known } = task;
      // The task is forgotten first, because the memory is unreliable if a call below fails.
      task.known = undefined;
      const now = known && (await this.#applied(known, saved));
      task.known = now ?? knownOf(await this.#host.applyPlan(taskId));
    });
    task.turn = turn.catch(() => undefined);
    return turn;
  }

  /** Applies the policy. If the storage doesn't match the memory, removes nothing and returns `undefined`. */
  async #applied(known: Known, saved: CheckpointSummary): Promise<Known | undefined> {
    const { taskId, id, sequence } = saved;
    if (sequence <= known.sequence) {
      // A plan has already counted the checkpoint, or the save is a retry, or the task's numbering has restarted.
      for await (const record of this.#host.list({ taskId, order: "newest", limit: 1 })) {
        return record.id === known.id ? known : undefined;
      }
    }
    const isNewPassing = isPassing(saved);
    if (sequence !== known.sequence + 1 || (isNewPassing && known.passing !== replacedBy(saved))) return undefined;
    const found = known.milestones + (isNewPassing ? 0 : 1);
    const milestones = Math.min(found, this.#host.keepLast);
    const now = { id, sequence, milestones, passing: isNewPassing ? id : undefined };
    // A milestone may have replaced the passing checkpoint before it.
    if (found === milestones && (isNewPassing || known.passing === undefined)) return now;
    const ids: string[] = [];
    const skip = milestones + (isNewPassing ? 1 : 0);
    for await (const record of this.#host.list({ taskId, order: "newest", beforeSequence: sequence + 1, skip })) {
      if (isCorrupt(record) || isPassing(record)) return undefined;
      ids.push(record.id);
    }
    if (ids.length !== found - milestones) return undefined;
    if (ids.length > 0) await this.#host.remove(taskId, ids);
    return now;
  }
}

/** A task whose records can all be read. All but the newest are milestones. */
interface Known {
  /** The newest checkpoint's id. */
  readonly id: string;
  readonly sequence: number;
  readonly milestones: number;
  readonly passing: string | undefined;
}

function knownOf(newestFirst: readonly Listed[]): Known | undefined {
  const [newest, ...others] = newestFirst;
  if (newest === undefined || isCorrupt(newest) || others.some((record) => isCorrupt(record) || isPassing(record))) {
    return undefined;
  }
  const passing = isPassing(newest) ? newest.id : undefined;
  const milestones = newestFirst.length - (passing === undefined ? 0 : 1);
  return { id: newest.id, sequence: newest.sequence, milestones, passing };
}
