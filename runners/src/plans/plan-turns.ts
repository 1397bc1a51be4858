import { resolve } from "node:path";
import type { Run } from "waymark";
import { RunnerError } from "../runner-error.js";
import { Budget } from "./budget.js";
import { gatesFor } from "./item-gates.js";
import { ItemRun, type PlanWork } from "./item-run.js";
import { addSpent, ItemWork, NOTHING, type Spent, spentText } from "./item-work.js";
import type { Plan, PlanItem } from "./plan.js";
import { assertClean, readHead } from "./plan-git.js";
import type { ItemRecord, PlanState, RunPlanOptions } from "./plan-options.js";
import { PlanWorktrees } from "./plan-worktrees.js";
import { readPlan } from "./read-plan.js";

interface Batch {
  readonly items: readonly PlanItem[];
  readonly head: string | null;
  readonly key: string;
}

/** Runs the turns of a plan's run. Each turn works on one item, or on several parallel items at once. */
export class PlanTurns {
  readonly done: string[] = [];
  readonly enough = new AbortController();
  spent: Spent = NOTHING;
  readonly #scripts: Readonly<Record<string, unknown>>;
  readonly #plan: PlanWork;
  readonly #options: RunPlanOptions;
  #failure: RunnerError | undefined;
  #isFirst = true;
  #changed: Promise<unknown> = Promise.resolve();

  constructor(path: string, scripts: Readonly<Record<string, unknown>>, options: RunPlanOptions) {
    this.#scripts = scripts;
    this.#options = options;
    const cwd = resolve(options.cwd ?? ".");
    this.#plan = {
      ...{ path, cwd, options },
      budget: new Budget(options.budget),
      worktrees: new PlanWorktrees(cwd, path),
      inTurn: (change) => this.#inTurn(change),
    };
  }

  /** @throws {RunnerError} `PLAN_INVALID`: the plan lacks an item that was asked for, or an item has no gate. */
  check(plan: Plan): void {
    const { only = [], gates, allowsNoGates } = this.#options;
    const missing = only.filter((id) => plan.items.every((item) => item.id !== id));
    if (missing.length > 0) throw invalid(plan, `it has no item ${missing.join(", ")}`);
    const bare = this.wantedIn(plan).filter(
      (item) => !item.isGroup && gatesFor(item, gates, this.#scripts).length === 0,
    );
    if (bare.length === 0 || allowsNoGates) return;
    const ids = bare
      .slice(0, 5)
      .map(({ id }) => id)
      .join(", ");
    throw invalid(
      plan,
      `${ids}${bare.length > 5 ? ` and ${bare.length - 5} more` : ""} ${bare.length === 1 ? "has" : "have"} no gate, so nothing shows when the work is done. Add one (--gate "npm test", --gates auto), or pass --gates none`,
    );
  }

  /** Returns the items to run, in the order of work. */
  wantedIn({ items }: Plan): readonly PlanItem[] {
    const { only } = this.#options;
    return items.filter(({ id, status, isOptional }) => {
      if (only !== undefined) return only.includes(id) && status !== "done";
      return (status === "open" || status === "begun") && !isOptional;
    });
  }

  /** Runs one turn: one item, or several parallel items at once. */
  async turn(run: Run<PlanState, PlanState>) {
    const { maxItems = Number.POSITIVE_INFINITY } = this.#options;
    const { items } = run.state;
    this.spent = Object.values(items).reduce(addSpent, NOTHING);
    // Thrown in a later turn than the failure, so that the next run begins the item from the start.
    if (this.#failure !== undefined) throw this.#failure;
    if (this.done.length >= maxItems) this.enough.abort();
    run.signal.throwIfAborted();
    const batch = await run.step("next", ({ key, signal }) => this.#choose(run.state, key, signal));
    this.#isFirst = false;
    if (batch.items.length === 0) return Object.keys(items);
    const works = await Promise.all(batch.items.map((item) => this.#begin(item, batch, run.signal)));
    this.#plan.budget.works = works;
    const endings = await Promise.all(works.map((work) => new ItemRun(run, work, batch.key, this.#plan).do()));
    const records: Record<string, ItemRecord> = {};
    for (const [index, work] of works.entries()) {
      const { commit, failure } = endings[index] ?? {};
      const { id, title } = work.item;
      const spent = addSpent(work.spent(), items[id] ?? NOTHING);
      records[id] = { title, status: failure === undefined ? "done" : "failed", ...spent, ...(commit && { commit }) };
      this.#failure ??= failure;
      if (failure === undefined) this.done.push(id);
      this.#say(`${id} ${failure === undefined ? "done" : "failed"}: ${title} (${spentText(spent)})`);
    }
    const label = Object.entries(records)
      .map(([id, record]) => `${id} ${record.status}: ${spentText(record)}`)
      .join("; ");
    return run.next({ items: { ...items, ...records } }, { stage: batch.items.map(({ id }) => id).join(" "), label });
  }

  /** Chooses an item that can be worked on now, and the items that may run in parallel with it. */
  async #choose({ items: records }: PlanState, key: string, signal: AbortSignal): Promise<Batch> {
    const { tag, jobs = 1, commits, allowsDirty } = this.#options;
    const { path, cwd } = this.#plan;
    // A failed item leaves its unfinished work in the folder, so uncommitted changes are allowed then.
    const hasFailed = Object.values(records).some(({ status }) => status === "failed");
    if (commits && !allowsDirty && this.#isFirst && !hasFailed) await assertClean(cwd, path, signal);
    await this.#plan.worktrees.clear(signal);
    const plan = await readPlan(path, { tag });
    const undone = new Set(plan.items.filter(({ status }) => status !== "done").map(({ id }) => id));
    const wanted = this.wantedIn(plan);
    const ready = wanted.filter(({ after }) => after.every((id) => !undone.has(id)));
    const [first] = ready;
    if (first === undefined && wanted.length > 0)
      this.#say(`These items wait for others that aren't run: ${wanted.map(({ id }) => id).join(", ")}`);
    const isBeside = (item: PlanItem) =>
      item === first || (item.beside !== undefined && item.beside === first?.beside && !item.isGroup);
    const items = first?.isGroup ? [first] : ready.filter(isBeside).slice(0, jobs);
    return { items, head: (await readHead(cwd, signal)) ?? null, key };
  }

  async #begin(item: PlanItem, { items, head }: Batch, signal: AbortSignal): Promise<ItemWork> {
    const { cwd, path, worktrees } = this.#plan;
    const place = items.length > 1 ? await worktrees.placeOf(item, signal) : { cwd, path };
    return new ItemWork(item, gatesFor(item, this.#options.gates, this.#scripts), place, head ?? undefined);
  }

  async #inTurn<Result>(change: () => Promise<Result>): Promise<Result> {
    const before = this.#changed;
    const result = before.then(change);
    this.#changed = result.catch(() => undefined);
    return result;
  }

  #say(text: string): void {
    this.#options.logger.info({}, text);
  }
}

function invalid({ path }: Plan, why: string): RunnerError {
  return new RunnerError("PLAN_INVALID", `${path} can't be run: ${why}. Nothing was run.`);
}
