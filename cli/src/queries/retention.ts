import { hash } from "node:crypto";
import { PlanOutdatedError, planRetention, type RetentionPlan, type RetentionPolicy } from "waymark";
import { isCorrupt, type RecordHeader, toRecordHeader } from "waymark/adapter";
import { parseThreadPrefix } from "waymark/langgraph/records";
import { takeFirst } from "../first-of.js";
import { readableSummaries } from "../read-stored.js";
import { taskIds } from "../records/whole-records.js";
import type { QuerySession } from "../store.js";
import { counted } from "../words.js";

/** Yields plans one at a time, because the plans of many tasks may not fit in memory. */
export interface Plans {
  /** Yields all plans, to show them. */
  shown(): AsyncIterable<RetentionPlan>;
  /**
   * Yields the same plans again after all were shown. Plans that remove nothing may be left out.
   *
   * @param outcome - Returns how much was done so far, for errors.
   */
  agreed(outcome: () => string): AsyncIterable<RetentionPlan>;
}

/** The part of a shown plan that is remembered: enough to make the plan again and to recognize it. */
interface Shown {
  readonly taskId: string;
  readonly newestSequence: number;
  readonly kept: string;
}

/**
 * The plans of a policy. Each plan is made twice, from the same checkpoints and at the same time: to be shown and to be
 * applied. In between, only enough to identify each plan is kept.
 */
export class PolicyPlans implements Plans {
  readonly #session: Pick<QuerySession, "storage" | "damage">;
  readonly #policy: RetentionPolicy;
  readonly #taskIds: readonly string[] | undefined;
  readonly #nowMs = Date.now();
  readonly #shown: Shown[] = [];

  /** @param taskIds - The only tasks to plan for; `undefined` for every task. */
  constructor(
    session: Pick<QuerySession, "storage" | "damage">,
    policy: RetentionPolicy,
    taskIds: readonly string[] | undefined,
  ) {
    this.#session = session;
    this.#policy = policy;
    this.#taskIds = taskIds;
  }

  async *shown(): AsyncGenerator<RetentionPlan, void, void> {
    const { storage, damage } = this.#session;
    const ids = this.#taskIds ?? taskIds(storage, undefined, damage);
    const threads = new Set<string>();
    for await (const taskId of ids) {
      const thread = parseThreadPrefix(taskId);
      if (thread !== undefined) {
        threads.add(thread);
        continue;
      }
      const plan = await this.#makePlan(taskId);
      if (plan.remove.length > 0 || plan.removeRecords !== undefined) {
        const newestSequence = Math.max(...[plan.keep, plan.remove].map(([first]) => first?.checkpoint.sequence ?? 0));
        this.#shown.push({ taskId, newestSequence, kept: keptIn(plan) });
      }
      yield plan;
    }
    if (threads.size === 0) return;
    await damage.warn(
      `${counted(threads.size, "thread")} of LangGraph left out: "waymark langgraph prune" removes idle ones, ` +
        "WaymarkSaver.prune removes old checkpoints",
    );
  }

  async *agreed(): AsyncGenerator<RetentionPlan, void, void> {
    for (const { taskId, newestSequence, kept } of this.#shown) {
      const plan = await this.#makePlan(taskId, newestSequence + 1);
      // Some checkpoints of the shown plan may be gone by now. If the new plan keeps the same checkpoints, it removes
      // only checkpoints that were shown.
      if (keptIn(plan) !== kept) {
        throw new PlanOutdatedError(
          `The plan for task ${JSON.stringify(taskId)} is outdated: its checkpoints have changed since it was shown. ` +
            "Nothing of the task was removed; prune it again.",
        );
      }
      yield plan;
    }
  }

  async #makePlan(taskId: string, beforeSequence?: number): Promise<RetentionPlan> {
    const range = { taskId, order: "newest", beforeSequence } as const;
    const summaries = await takeFirst(readableSummaries(this.#session, range));
    const records: RecordHeader[] = [];
    // Damage is reported where it matters: when the plan is applied.
    for await (const item of this.#session.storage.log?.read({ ...range, headersOnly: true }) ?? []) {
      if (!isCorrupt(item) && "kind" in item) records.push(toRecordHeader(item));
    }
    return planRetention(taskId, summaries, this.#policy, this.#nowMs, records);
  }
}

/**
 * Returns the same text for two plans of a task if they keep the same checkpoints. Sequences identify checkpoints,
 * because no sequence is used twice.
 */
function keptIn({ keep }: RetentionPlan): string {
  return hash("sha256", keep.map(({ checkpoint }) => checkpoint.sequence).join(), "base64");
}
