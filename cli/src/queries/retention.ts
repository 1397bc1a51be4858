import { hash } from "node:crypto";
import { PlanOutdatedError, planRetention, type RetentionPlan, type RetentionPolicy } from "waymark";
import { threadPrefixOf } from "waymark/langgraph/records";
import { firstOf } from "../first-of.js";
import { readableSummaries } from "../read-stored.js";
import { taskIds } from "../records/whole-records.js";
import type { QuerySession } from "../store.js";
import { counted } from "../words.js";

/** Plans, one at a time, because those of many tasks take more memory than there may be. */
export interface Plans {
  /** All of them, to look at. */
  shown(): AsyncIterable<RetentionPlan>;
  /**
   * The same ones again, after all were shown. Those that remove nothing may be left out.
   *
   * @param standing - Says how much was done so far, for errors.
   */
  agreed(standing: () => string): AsyncIterable<RetentionPlan>;
}

/** The part of a shown plan that is kept: enough to make the plan again, and to recognize it. */
interface Shown {
  readonly taskId: string;
  readonly newestSequence: number;
  readonly kept: string;
}

/**
 * The plans of a policy. Each is made twice: to be shown, and from the same checkpoints at the same time, to be applied.
 * In between, only a few words of each plan are kept.
 */
export class PolicyPlans implements Plans {
  readonly #session: Pick<QuerySession, "storage" | "damage">;
  readonly #policy: RetentionPolicy;
  readonly #taskId: string | undefined;
  readonly #nowMs = Date.now();
  readonly #shown: Shown[] = [];

  /** @param taskId - The only task; `undefined` for every task. */
  constructor(session: Pick<QuerySession, "storage" | "damage">, policy: RetentionPolicy, taskId: string | undefined) {
    this.#session = session;
    this.#policy = policy;
    this.#taskId = taskId;
  }

  async *shown(): AsyncGenerator<RetentionPlan, void, void> {
    const { storage, damage } = this.#session;
    const ids = this.#taskId === undefined ? taskIds(storage, undefined, damage) : [this.#taskId];
    const threads = new Set<string>();
    for await (const taskId of ids) {
      const thread = threadPrefixOf(taskId);
      if (thread !== undefined) {
        threads.add(thread);
        continue;
      }
      const plan = await this.#planOf(taskId);
      if (plan.remove.length > 0) {
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
      const plan = await this.#planOf(taskId, newestSequence + 1);
      // Checkpoints that it removes may be gone by now. With the same ones kept, it removes none that wasn't shown.
      if (keptIn(plan) !== kept) {
        throw new PlanOutdatedError(
          `The plan for task ${JSON.stringify(taskId)} is outdated: other checkpoints would stay than were shown. ` +
            "Nothing of the task was removed; run it again.",
        );
      }
      yield plan;
    }
  }

  async #planOf(taskId: string, beforeSequence?: number): Promise<RetentionPlan> {
    const summaries = await firstOf(readableSummaries(this.#session, { taskId, order: "newest", beforeSequence }));
    return planRetention(taskId, summaries, this.#policy, this.#nowMs);
  }
}

/** The same text for two plans of a task if they keep the same checkpoints: a sequence is never given twice. */
function keptIn({ keep }: RetentionPlan): string {
  return hash("sha256", keep.map(({ checkpoint }) => checkpoint.sequence).join(), "base64");
}
