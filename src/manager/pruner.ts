import { type AppendCondition, type CorruptRecord, isCorrupt } from "../contract/adapter.js";
import { checkTaskId } from "../contract/arguments.js";
import type { CheckpointStatus, CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointCorruptError, CheckpointError, ClosedError, PlanOutdatedError } from "../contract/errors.js";
import { isSignals, signalsOf } from "../contract/signals.js";
import type { CheckpointEvents, EventHub } from "./events.js";
import { KeepLast } from "./keep-last.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";
import {
  checkRetentionPolicy,
  type PlannedCheckpoint,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
  whyOutdated,
} from "./retention.js";
import { traced, tracing } from "./tracing.js";

/** The result of a prune. */
export interface PruneResult {
  /** The number of tasks that it checked. */
  readonly tasks: number;
  /** The number of checkpoints that it removed. */
  readonly removed: number;
  /** The size of the removed payloads, in bytes. */
  readonly removedBytes: number;
}

/** The result of pruning every task. */
export interface PruneAllResult extends PruneResult {
  /**
   * The tasks that couldn't be pruned, with the reason, for example that none of the checkpoints to keep can be read.
   */
  readonly failures: readonly { readonly taskId: string; readonly error: CheckpointError }[];
}

type RemovedBy = CheckpointEvents["removed"]["by"];

/** Removes checkpoints, by request and by policy. */
export class Pruner {
  readonly #options: ResolvedOptions;
  readonly #reader: CheckpointReader;
  readonly #events: EventHub;
  readonly #keepLast: KeepLast | undefined;

  constructor(options: ResolvedOptions, reader: CheckpointReader, events: EventHub) {
    this.#options = options;
    this.#reader = reader;
    this.#events = events;
    const { retention, storage } = options;
    if (retention === undefined || !isKeepLastAlone(retention)) return;
    this.#keepLast = new KeepLast({
      keepLast: retention.keepLast,
      list: (query) => storage.list(query),
      applyPlan: (taskId) => this.#applyPolicy(taskId, retention),
      remove: (taskId, ids) => this.#prune(taskId, ids, "retention"),
    });
  }

  async remove(
    taskId: string,
    ids: readonly string[] | "all",
    by: RemovedBy,
    condition?: AppendCondition,
  ): Promise<number> {
    const removed = await this.#options.storage.remove(taskId, ids, condition);
    if (removed > 0) this.#events.emit("removed", { taskId, ids, by });
    return removed;
  }

  /** Removes a task. Its signals go first, since a later task with this id must not receive them. */
  async removeTask(taskId: string, condition: AppendCondition): Promise<number> {
    const { storage } = this.#options;
    const { fencingToken } = condition;
    const isLost = fencingToken !== undefined && (await storage.leases?.current(taskId))?.token !== fencingToken;
    if (!isLost) await storage.remove(signalsOf(taskId), "all");
    return this.remove(taskId, "all", "request", condition);
  }

  /** Removes the tasks whose id begins with `prefix`, in one step if the storage supports it. */
  async removeTasks(prefix: string): Promise<number> {
    const { storage } = this.#options;
    // The ids of the tasks are only needed for a listener of `removed`.
    if (storage.removePrefix !== undefined && !this.#events.has("removed")) return storage.removePrefix(prefix);
    const taskIds = new Set<string>();
    // CorruptRecords count too, since the id is enough to remove a task.
    for await (const { taskId } of storage.tasks({ prefix, order: "taskId" })) {
      if (taskId !== undefined) taskIds.add(taskId);
    }
    if (storage.removePrefix !== undefined) {
      const removed = await storage.removePrefix(prefix);
      for (const taskId of taskIds) {
        if (!isSignals(taskId)) this.#events.emit("removed", { taskId, ids: "all", by: "request" });
      }
      return removed;
    }
    let removed = 0;
    for (const taskId of taskIds) {
      removed += isSignals(taskId) ? await storage.remove(taskId, "all") : await this.removeTask(taskId, {});
    }
    return removed;
  }

  async plan(taskId: string, policy: RetentionPolicy | undefined): Promise<RetentionPlan> {
    checkTaskId(taskId);
    const used = this.#policy(policy);
    const summaries = await this.#reader.list({ taskId, order: "newest" });
    return planRetention(taskId, summaries, used, this.#options.clock());
  }

  async applyPlan(plan: RetentionPlan): Promise<PruneResult> {
    checkPlan(plan);
    const now = new Map<string, CheckpointStatus>();
    await this.#reader.eachRecord({ taskId: plan.taskId, order: "newest" }, (record) => {
      if (!isCorrupt(record)) now.set(record.id, record.status);
    });
    const why = whyOutdated(plan, now);
    if (why !== undefined) {
      throw new PlanOutdatedError(
        `The retention plan of ${plan.plannedAt} for task ${JSON.stringify(plan.taskId)} is outdated: ${why}. ` +
          "Nothing was removed; make a new plan.",
      );
    }
    const remove = plan.remove.filter(({ checkpoint }) => now.has(checkpoint.id));
    return this.#apply({ ...plan, remove }, "request");
  }

  async prune(taskId: string, policy: RetentionPolicy | undefined): Promise<PruneResult> {
    return this.#apply(await this.plan(taskId, policy), "request");
  }

  async pruneAll(policy: RetentionPolicy | undefined): Promise<PruneAllResult> {
    const used = this.#policy(policy);
    const total = { tasks: 0, removed: 0, removedBytes: 0 };
    const failures: { taskId: string; error: CheckpointError }[] = [];
    for (const { taskId } of await this.#reader.tasks({ order: "taskId" })) {
      total.tasks += 1;
      try {
        const { removed, removedBytes } = await this.prune(taskId, used);
        total.removed += removed;
        total.removedBytes += removedBytes;
      } catch (error) {
        // One damaged task must not keep the others from being pruned.
        if (!(error instanceof CheckpointError) || error instanceof ClosedError) throw error;
        failures.push({ taskId, error });
      }
    }
    return { ...total, failures };
  }

  /** Applies the manager's policy to a task that has just been saved. Never rejects, since the save has succeeded. */
  async afterSave(saved: CheckpointSummary): Promise<void> {
    const { retention, logger } = this.#options;
    const { taskId } = saved;
    if (retention === undefined) return;
    try {
      if (this.#keepLast !== undefined) await this.#keepLast.afterSave(saved);
      else await this.#applyPolicy(taskId, retention);
    } catch (error) {
      logger.error(
        { taskId, error },
        `Retention after a save of task ${JSON.stringify(taskId)} failed; the save is stored`,
      );
    }
  }

  /** Returns the records that stay, damaged ones included, newest first. */
  async #applyPolicy(taskId: string, policy: RetentionPolicy): Promise<(CheckpointSummary | CorruptRecord)[]> {
    const records: (CheckpointSummary | CorruptRecord)[] = [];
    await this.#reader.eachRecord({ taskId, order: "newest" }, (record) => records.push(record));
    const summaries = records.filter((record): record is CheckpointSummary => !isCorrupt(record));
    const plan = planRetention(taskId, summaries, policy, this.#options.clock());
    await this.#apply(plan, "retention");
    const removed = new Set(plan.remove.map(({ checkpoint }) => checkpoint.id));
    return records.filter((record) => isCorrupt(record) || !removed.has(record.id));
  }

  async #apply({ taskId, keep, remove }: RetentionPlan, by: RemovedBy): Promise<PruneResult> {
    const bytes = remove.reduce((sum, { checkpoint }) => sum + checkpoint.sizeBytes, 0);
    if (remove.length === 0) return { tasks: 1, removed: 0, removedBytes: 0 };
    await this.#assertLeavesSomething(taskId, keep);
    const ids = remove.map(({ checkpoint }) => checkpoint.id);
    // Nothing is left of the task, so its signals go, too.
    if (keep.length === 0) await this.#options.storage.remove(signalsOf(taskId), "all");
    return { tasks: 1, removed: await this.#prune(taskId, ids, by), removedBytes: bytes };
  }

  #prune(taskId: string, ids: readonly string[], by: RemovedBy): Promise<number> {
    const remove = () => this.remove(taskId, ids, by);
    return tracing.prune.hasSubscribers
      ? traced(tracing.prune, { taskId, by }, remove, (removed) => ({ removed }))
      : remove();
  }

  /**
   * Refuses to prune unless a checkpoint to keep is intact. It is needed because plans are made from summaries, which
   * don't show damaged payloads.
   */
  async #assertLeavesSomething(taskId: string, keep: RetentionPlan["keep"]): Promise<void> {
    const ids = keep.map(({ checkpoint }) => checkpoint.id);
    if (ids.length === 0 || (await this.#reader.hasIntact(taskId, ids))) return;
    throw new CheckpointCorruptError(
      `No checkpoint of task ${JSON.stringify(taskId)} was removed: none of the ${ids.length} checkpoints to keep can be read. ` +
        "Save a new checkpoint first, or remove the damaged ones.",
    );
  }

  #policy(policy: RetentionPolicy | undefined): RetentionPolicy {
    const used = policy ?? this.#options.retention;
    if (used === undefined)
      throw new TypeError("There is no retention policy. Pass one, or set the manager's `retention`.");
    checkRetentionPolicy(used);
    return used;
  }
}

function isKeepLastAlone(policy: RetentionPolicy): policy is RetentionPolicy & { readonly keepLast: number } {
  // A time zone doesn't affect `keepLast`.
  const { keepLast, timeZone: _, ...others } = policy;
  return keepLast !== undefined && Object.values(others).every((rule) => rule === undefined);
}

/** @throws {TypeError} The value isn't a plan. (It may come from a file.) */
function checkPlan(plan: RetentionPlan): void {
  if (typeof plan === "object" && plan !== null && Array.isArray(plan.keep) && Array.isArray(plan.remove)) {
    checkTaskId(plan.taskId);
    const isListed = ({ checkpoint }: PlannedCheckpoint) => typeof checkpoint?.id === "string";
    if (plan.keep.every(isListed) && plan.remove.every(isListed)) return;
  }
  throw new TypeError("applyPlan needs a plan made by planRetention.");
}
