import { checkTaskId } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointCorruptError, CheckpointError, ClosedError, PlanOutdatedError } from "../contract/errors.js";
import { isRecord, type RecordHeader, toRecordHeader } from "../contract/log.js";
import { isTransient } from "../contract/transient.js";
import type { Calls } from "./calls.js";
import { KeepLast, type KeptCheckpoints } from "./keep-last.js";
import type { Notifications } from "./notifications.js";
import type { ResolvedOptions } from "./options.js";
import { type OneOrMany, PREFIX_FORM, resolvePrefix } from "./queries.js";
import type { CheckpointReader } from "./reader.js";
import { findRunNeeds, isRecordRange, type PlanRecord, REMOVABLE, selectInRanges } from "./record-plan.js";
import type { Removal } from "./removal.js";
import {
  checkRetentionPolicy,
  explainOutdated,
  type PlannedCheckpoint,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
} from "./retention-plan.js";

/** The result of a prune, or of an applied plan. */
export interface PruneResult {
  /** The number of checked tasks. */
  readonly tasks: number;
  /** The number of removed checkpoints. */
  readonly removed: number;
  /** The size of the removed payloads in bytes, records included. */
  readonly removedBytes: number;
  /**
   * The tasks that couldn't be pruned, each with its error: none of the checkpoints to keep can be read, for example.
   * Empty for a single task, whose error is thrown.
   */
  readonly failures: readonly { readonly taskId: string; readonly error: CheckpointError }[];
}

/** Removes checkpoints by a policy, or plans their removal. Made by the manager: `manager.retention`. */
export class Retention {
  readonly #options: ResolvedOptions;
  readonly #calls: Calls;
  readonly #reader: CheckpointReader;
  readonly #removal: Removal;
  readonly #keepLast: KeepLast | undefined;

  /** @internal */
  constructor(options: ResolvedOptions, calls: Calls, reader: CheckpointReader, removal: Removal) {
    this.#options = options;
    this.#calls = calls;
    this.#reader = reader;
    this.#removal = removal;
    const { retention, storage } = options;
    // A time zone doesn't affect `keepLast`.
    const { keepLast, timeZone: _, ...others } = retention ?? {};
    if (keepLast !== undefined && Object.values(others).every((rule) => rule === undefined)) {
      this.#keepLast = new KeepLast(keepLast, storage, removal);
    }
  }

  /**
   * Plans which of the task's checkpoints the policy (default: the manager's) keeps and removes, and why. Removes
   * nothing.
   */
  async plan(taskId: string, policy?: RetentionPolicy): Promise<RetentionPlan> {
    this.#calls.assertOpen();
    checkTaskId(taskId);
    return this.#plan(taskId, this.#checkedPolicy(policy));
  }

  /**
   * Removes the checkpoints that the plan lists under `remove`, with the records that belong to them. Saves since the
   * plan was made don't outdate it. If nothing is left of the task, the whole task is removed.
   *
   * @throws {PlanOutdatedError} A checkpoint that the plan keeps is gone, or one that it removes has another status
   *   now; nothing was removed.
   */
  async apply(plan: RetentionPlan): Promise<PruneResult> {
    return this.#calls.run(() => this.#applyChecked(plan));
  }

  /**
   * Removes the checkpoints that the policy (default: the manager's) doesn't keep. Damaged records are skipped and
   * reported. If one of several tasks can't be pruned, the result's `failures` has its error, and the other tasks are
   * pruned all the same.
   *
   * @param tasks - A task's id, the prefix of several tasks, or all tasks.
   */
  async prune(tasks: OneOrMany | { readonly all: true }, policy?: RetentionPolicy): Promise<PruneResult> {
    return this.#calls.run(async () => {
      if (typeof tasks === "string") {
        checkTaskId(tasks);
        return this.#pruneTask(tasks, this.#checkedPolicy(policy));
      }
      const prefix = isAll(tasks) ? undefined : resolvePrefix("retention.prune", tasks, PRUNE_FORMS);
      return this.#pruneTasks(prefix, this.#checkedPolicy(policy));
    });
  }

  /**
   * @internal Applies the manager's policy to a task that has just been saved. Never rejects, since the save has
   *   succeeded.
   */
  async afterSave(saved: CheckpointSummary, policy: RetentionPolicy): Promise<void> {
    const { taskId } = saved;
    const applyPlan = (cleanUpTo?: number) => this.#applyPolicy(taskId, policy, cleanUpTo);
    try {
      await (this.#keepLast?.afterSave(saved, applyPlan) ?? applyPlan());
    } catch (error) {
      this.#options.logger.error(
        { taskId, error },
        `Retention after a save of task ${JSON.stringify(taskId)} failed; the save is stored`,
      );
    }
  }

  async #plan(taskId: string, policy: RetentionPolicy): Promise<RetentionPlan> {
    return this.#planFor(await this.#readTask(taskId), taskId, policy);
  }

  #planFor({ summaries, records }: TaskContents, taskId: string, policy: RetentionPolicy): RetentionPlan {
    return planRetention(taskId, summaries, policy, this.#options.clock(), records);
  }

  async #readTask(taskId: string): Promise<TaskContents> {
    return this.#readRecords(taskId, await this.#readCheckpoints(taskId));
  }

  async #readCheckpoints(taskId: string): Promise<TaskContents> {
    const damaged = new Set<string>();
    const summaries = await this.#reader.list({ taskId, order: "newest" }, ({ location }) => damaged.add(location));
    return { summaries, records: [], damaged };
  }

  /** Returns the contents with the task's records. */
  async #readRecords(taskId: string, contents: TaskContents, afterSequence = 0): Promise<TaskContents> {
    const damaged = new Set(contents.damaged);
    const records: PlanRecord[] = [];
    const query = { taskId, order: "newest", afterSequence, headersOnly: true, kinds: REMOVABLE } as const;
    for await (const item of this.#options.storage.log?.read(query) ?? []) {
      if (isCorrupt(item)) {
        // The log also yields the damaged checkpoints, which `list` has reported.
        if (!damaged.has(item.location)) this.#reader.reportDamage(item);
        damaged.add(item.location);
      } else if (isRecord(item)) records.push(toPlanRecord(toRecordHeader(item)));
    }
    return { ...contents, records, damaged };
  }

  async #applyChecked(plan: RetentionPlan): Promise<PruneResult> {
    checkPlan(plan);
    const contents = await this.#readTask(plan.taskId);
    const now = new Map(contents.summaries.map(({ id, status }) => [id, status]));
    const why = explainOutdated(plan, now);
    if (why !== undefined) {
      throw new PlanOutdatedError(
        `The retention plan of ${plan.plannedAt} for task ${JSON.stringify(plan.taskId)} is outdated: ${why}. ` +
          "Nothing was removed; make a new plan.",
      );
    }
    const remove = plan.remove.filter(({ checkpoint }) => now.has(checkpoint.id));
    // The task may have been removed and begun again. Then the plan's sequences belong to other records.
    const isSameTask = plan.keep.length > 0 || remove.length > 0;
    return this.#apply(
      { ...plan, remove, removeRecords: (isSameTask && plan.removeRecords) || [] },
      contents,
      "request",
    );
  }

  async #pruneTask(taskId: string, policy: RetentionPolicy): Promise<PruneResult> {
    const contents = await this.#readTask(taskId);
    return this.#apply(this.#planFor(contents, taskId, policy), contents, "request");
  }

  async #pruneTasks(prefix: string | undefined, policy: RetentionPolicy): Promise<PruneResult> {
    const tasks = await this.#reader.tasks({ prefix, order: "taskId" });
    let [removed, removedBytes] = [0, 0];
    const failures: { taskId: string; error: CheckpointError }[] = [];
    for (const { taskId } of tasks) {
      try {
        const result = await this.#pruneTask(taskId, policy);
        removed += result.removed;
        removedBytes += result.removedBytes;
      } catch (error) {
        // One damaged task must not keep the others from being pruned.
        if (!(error instanceof CheckpointError) || error instanceof ClosedError) throw error;
        failures.push({ taskId, error });
      }
    }
    return { tasks: tasks.length, removed, removedBytes, failures };
  }

  /** Applies the policy, and returns what stays; `undefined` if something of the task is damaged. */
  async #applyPolicy(taskId: string, policy: RetentionPolicy, cleanUpTo = 0): Promise<KeptCheckpoints | undefined> {
    let contents = await this.#readCheckpoints(taskId);
    let plan = this.#planFor(contents, taskId, policy);
    // Without a rule for records, records are only removed with a checkpoint, so the log, which may be long, isn't
    // read.
    const hasRecordRule = policy.chunks !== undefined || policy.maxBytes !== undefined;
    const needsRecords = hasRecordRule || plan.remove.length > 0;
    if (needsRecords) {
      contents = await this.#readRecords(taskId, contents, cleanUpTo);
      plan = this.#planFor(contents, taskId, policy);
    }
    await this.#apply(plan, contents, "retention");
    if (contents.damaged.size > 0) return undefined;
    const mayHaveRecords = needsRecords ? contents.records.length > 0 : this.#options.storage.log !== undefined;
    const checkpoints = plan.keep.map(({ checkpoint }) => checkpoint);
    return { checkpoints, mayHaveRecords, cleanUpTo: Math.max(cleanUpTo, findCleanEnd(plan)) };
  }

  async #apply(
    { taskId, keep, remove, removeRecords = [] }: RetentionPlan,
    { summaries, records, damaged }: TaskContents,
    by: Notifications["removed"]["by"],
  ): Promise<PruneResult> {
    const ids = remove.map(({ checkpoint }) => checkpoint.id);
    if (ids.length > 0) await this.#assertLeavesSomething(taskId, keep);
    const ranges = removeRecords.filter((range) => selectInRanges(records, [range]).length > 0);
    // A task with unreadable records isn't removed as a whole, because unreadable records stay.
    const isWhole = ids.length > 0 && keep.length === 0 && ids.length === summaries.length && damaged.size === 0;
    const newestSequence = isWhole ? summaries[0]?.sequence : undefined;
    const removed = await this.#removal.prune({ taskId, ids, ranges, newestSequence, by });
    const gone = [...remove.map(({ checkpoint }) => checkpoint), ...selectInRanges(records, ranges)];
    return { tasks: 1, removed, removedBytes: gone.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0), failures: [] };
  }

  /**
   * Refuses to prune unless a checkpoint to keep is intact. The check is needed because plans are made from summaries,
   * which don't show damaged payloads.
   */
  async #assertLeavesSomething(taskId: string, keep: RetentionPlan["keep"]): Promise<void> {
    const ids = keep.map(({ checkpoint }) => checkpoint.id);
    if (ids.length === 0 || (await this.#reader.hasIntact(taskId, ids))) return;
    throw new CheckpointCorruptError(
      `No checkpoint of task ${JSON.stringify(taskId)} was removed: none of the ${ids.length} checkpoints to keep can be read. ` +
        "Save a new checkpoint first, or remove the damaged ones.",
    );
  }

  #checkedPolicy(policy = this.#options.retention): RetentionPolicy {
    if (policy === undefined) {
      throw new TypeError("There is no retention policy. Pass one, or set the manager's `retention`.");
    }
    checkRetentionPolicy(policy);
    return policy;
  }
}

/** The contents of a task, from which a plan is made. */
interface TaskContents {
  /** Newest first, like the records. */
  readonly summaries: readonly CheckpointSummary[];
  readonly records: readonly PlanRecord[];
  /** The locations of the checkpoints and records that can't be read. */
  readonly damaged: ReadonlySet<string>;
}

/** Leaves out digests and seals, since a task may have many records. */
function toPlanRecord({ sequence, kind, name, recordKey, createdAt, sizeBytes }: RecordHeader): PlanRecord {
  return { sequence, kind, name, recordKey, createdAt, sizeBytes };
}

/** Returns the sequence up to which no records are left to remove, once a plan with only `keepLast` is applied. */
function findCleanEnd({ keep, remove }: RetentionPlan): number {
  const needs = findRunNeeds(keep.map(({ checkpoint }) => checkpoint));
  const end = needs?.afterSequence ?? Number.POSITIVE_INFINITY;
  const gone = remove.filter(({ checkpoint }) => !isTransient(checkpoint) && checkpoint.sequence <= end);
  return Math.max(0, ...gone.map(({ checkpoint }) => checkpoint.sequence));
}

const PRUNE_FORMS = `a task's id, ${PREFIX_FORM}, or { all: true }`;

function isAll(tasks: { readonly prefix: string } | { readonly all: true }): tasks is { readonly all: true } {
  return (
    typeof tasks === "object" &&
    tasks !== null &&
    "all" in tasks &&
    tasks.all === true &&
    Object.keys(tasks).length === 1
  );
}

/** @throws {TypeError} The value isn't a plan. (It may come from a file.) */
function checkPlan(plan: RetentionPlan): void {
  if (typeof plan === "object" && plan !== null && Array.isArray(plan.keep) && Array.isArray(plan.remove)) {
    checkTaskId(plan.taskId);
    const isListed = ({ checkpoint }: PlannedCheckpoint) => typeof checkpoint?.id === "string";
    const { removeRecords = [] } = plan;
    const hasRanges = Array.isArray(removeRecords) && removeRecords.every(isRecordRange);
    if (hasRanges && plan.keep.every(isListed) && plan.remove.every(isListed)) return;
  }
  throw new TypeError("retention.apply needs a plan made by retention.plan or planRetention.");
}
