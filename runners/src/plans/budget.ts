import { RunnerError } from "../runner-error.js";
import { addSpent, type ItemWork, NOTHING, type Spent, spentText } from "./item-work.js";
import type { PlanState, RunPlanOptions } from "./plan-options.js";

/** Counts what a plan's run has spent, and ends the run once its limits are reached. */
export class Budget {
  /** What was spent before the current turn. */
  before: Spent = NOTHING;
  /** The items of the current turn. */
  works: readonly ItemWork[] = [];
  readonly #limits: NonNullable<RunPlanOptions["budget"]>;

  constructor(limits: RunPlanOptions["budget"]) {
    this.#limits = limits ?? {};
  }

  /** @throws {RunnerError} `BUDGET_SPENT` */
  assert({ items }: PlanState): void {
    this.before = Object.values(items).reduce(addSpent, NOTHING);
    const spent = this.#total();
    const {
      usd = Number.POSITIVE_INFINITY,
      tokens = Number.POSITIVE_INFINITY,
      minutes = Number.POSITIVE_INFINITY,
    } = this.#limits;
    if (spent.costUsd < usd && spent.tokens < tokens && spent.minutes < minutes) return;
    const message = `The budget is spent: ${spentText(spent)}, ${spent.minutes.toFixed(1)} minutes. Finished items are recorded; run the plan again with a larger budget (--max-usd, --max-tokens, --max-minutes).`;
    throw new RunnerError("BUDGET_SPENT", message);
  }

  /** Returns how long a call of the coder may take. */
  leftMs(): number {
    const { minutes = Number.POSITIVE_INFINITY } = this.#limits;
    return Math.max(1_000, (minutes - this.#total().minutes) * 60_000);
  }

  #total(): Spent {
    return this.works.map((work) => work.spent()).reduce(addSpent, this.before);
  }
}
