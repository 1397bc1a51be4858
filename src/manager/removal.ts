import { checkId, checkTaskId } from "../contract/arguments.js";
import type { AppendCondition } from "../contract/conditions.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { checkOptions } from "./check-options.js";
import type { NotificationHub, Notifications } from "./notifications.js";
import type { ResolvedOptions } from "./options.js";
import { resolvePrefix } from "./queries.js";
import type { RecordRange } from "./record-plan.js";
import { readToken, type SaveOptions } from "./save-options.js";
import { traced, tracing } from "./tracing.js";

type RemovedBy = Notifications["removed"]["by"];
type RemoveOptions = Pick<SaveOptions, "lease">;

/** What a policy removes from a task. */
interface Pruning {
  readonly taskId: string;
  readonly ids: readonly string[];
  /** The ranges of records to remove. */
  readonly ranges?: readonly RecordRange[];
  /** Set if nothing is left of the task: the sequence of its newest checkpoint. */
  readonly newestSequence?: number | undefined;
  readonly by: RemovedBy;
}

/** Removes checkpoints and tasks, and emits `removed`. */
export class Removal {
  readonly #storage: ResolvedOptions["storage"];
  readonly #events: NotificationHub;

  constructor({ storage }: ResolvedOptions, notifications: NotificationHub) {
    this.#storage = storage;
    this.#events = notifications;
  }

  /** Removes one checkpoint. Returns false if there is no such checkpoint. */
  async removeCheckpoint(taskId: string, id: string, options: RemoveOptions): Promise<boolean> {
    checkTaskId(taskId);
    checkId("A checkpoint id", id);
    return (await this.#remove(taskId, [id], "request", removalCondition(taskId, options))) > 0;
  }

  async removeTask(taskId: string, options: RemoveOptions): Promise<number> {
    checkTaskId(taskId);
    return this.#remove(taskId, "all", "request", removalCondition(taskId, options));
  }

  /** Removes the tasks whose id begins with `prefix`, in one step if the storage supports it. */
  async removeTasks(query: { readonly prefix: string }, options: RemoveOptions): Promise<number> {
    const prefix = resolvePrefix("removeTask", query);
    checkOptions("RemoveOptions", options, { lease: refuseLease });
    const storage = this.#storage;
    const taskIds = new Set<string>();
    // If the storage removes the tasks in one step, their ids are only needed for a listener of `removed`.
    if (storage.removePrefix === undefined || this.#events.has("removed")) {
      // CorruptRecords count too, since the id is enough to remove a task.
      for await (const { taskId } of storage.tasks({ prefix, order: "taskId" })) {
        if (taskId !== undefined) taskIds.add(taskId);
      }
    }
    let removed = (await storage.removePrefix?.(prefix)) ?? 0;
    for (const taskId of taskIds) {
      if (storage.removePrefix === undefined) {
        removed += await this.removeTask(taskId, {});
      } else this.#events.emit("removed", { taskId, ids: "all", by: "request" });
    }
    return removed;
  }

  /** Removes the checkpoints and records that a policy doesn't keep. Returns the number of removed checkpoints. */
  async prune(pruning: Pruning): Promise<number> {
    const { taskId, by, newestSequence } = pruning;
    const remove = async () =>
      (newestSequence === undefined ? undefined : await this.#pruneTask(taskId, newestSequence, by)) ??
      (await this.#pruneParts(pruning));
    return pruning.ids.length === 0
      ? remove()
      : traced(tracing.prune, { taskId, by }, remove, (removed) => ({ removed }));
  }

  /**
   * Removes the whole task. If a newer checkpoint or event was stored since, removes nothing and returns `undefined`.
   */
  async #pruneTask(taskId: string, newestSequence: number, by: RemovedBy): Promise<number | undefined> {
    const noEventAfter = this.#storage.log && newestSequence;
    try {
      return await this.#remove(taskId, "all", by, { expectedSequence: newestSequence, noEventAfter });
    } catch (error) {
      if (error instanceof CheckpointConflictError) return undefined;
      throw error;
    }
  }

  async #pruneParts({ taskId, ids, ranges = [], by }: Pruning): Promise<number> {
    // Records are removed first. After a kill in between, the next plan still has the checkpoints, and finds the other
    // records.
    for (const range of ranges) await this.#storage.log?.remove(taskId, range);
    return ids.length === 0 ? 0 : this.#remove(taskId, ids, by);
  }

  async #remove(
    taskId: string,
    ids: readonly string[] | "all",
    by: RemovedBy,
    condition?: AppendCondition,
  ): Promise<number> {
    // The storage only counts checkpoints, but a task may have only records.
    const hasItems = ids === "all" && this.#events.has("removed") && (await this.#hasItems(taskId));
    const removed = await this.#storage.remove(taskId, ids, condition);
    if (removed > 0 || hasItems) this.#events.emit("removed", { taskId, ids, by });
    return removed;
  }

  async #hasItems(taskId: string): Promise<boolean> {
    const query = { taskId, order: "newest", limit: 1, headersOnly: true } as const;
    for await (const _item of this.#storage.log?.read(query) ?? []) return true;
    return false;
  }
}

function refuseLease(): never {
  throw new TypeError("removeTask takes a lease for one task, not for a prefix.");
}

function removalCondition(taskId: string, options: RemoveOptions): AppendCondition {
  checkOptions("RemoveOptions", options, { lease: true });
  return { fencingToken: readToken(taskId, options.lease) };
}
