import { RunnerError } from "../runner-error.js";
import { addSpent, type ItemWork, NOTHING, type Spent, spentText } from "./item-work.js";
import type { PlanState, RunPlanOptions } from "./plan-options.js";

/** What a plan's run has spent, and may spend. */
export class Budget {
  /** Before the turn. */
  before: Spent = NOTHING;
  /** The turn's. */
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
    const message = `The budget is spent: ${spentText(spent)}, ${spent.minutes.toFixed(1)} minutes. What is done is recorded; run the plan again with a larger one (--max-usd, --max-tokens, --max-minutes).`;
    throw new RunnerError("BUDGET_SPENT", message);
  }

  /** How long a call may take. */
  leftMs(): number {
    const { minutes = Number.POSITIVE_INFINITY } = this.#limits;
    return Math.max(1_000, (minutes - this.#total().minutes) * 60_000);
  }

  #total(): Spent {
    return this.works.map((work) => work.spent()).reduce(addSpent, this.before);
  }
}
