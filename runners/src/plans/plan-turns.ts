import { hash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { basename, dirname, relative, resolve } from "node:path";
import type { Run, StepCall } from "waymark";
import { readWorkState } from "../prp/work-state.js";
import { findItem, writeMark } from "./done-mark.js";
import { PlanError } from "./errors.js";
import { addSpent, type CoderCall, ItemWork, NOTHING, type Spent, spentText } from "./item-work.js";
import type { Plan, PlanItem } from "./plan.js";
import { callCoder, runGate } from "./plan-commands.js";
import { commitAll, commitSubject, commitsSince, isAbout, readHead } from "./plan-git.js";
import { type ItemRecord, type PlanState, planTask, type RunPlanOptions } from "./plan-options.js";
import { itemPrompt } from "./plan-prompts.js";
import { gatesFor } from "./project-gates.js";
import { readPlan } from "./read-plan.js";

interface Batch {
  readonly items: readonly PlanItem[];
  readonly head: string | null;
  readonly key: string;
}

interface GateRun {
  readonly command: string;
  readonly passed: boolean;
  readonly exitCode: number | null;
  readonly output: string;
  /** The work that the gate passed on. */
  readonly passedOn: string | null;
  readonly process: string;
}

/** How the work on an item ended. */
interface Ending {
  readonly commit?: string;
  readonly failure?: PlanError;
}

/** A gate that changed the work while it ran counts only for the process that has seen it. */
const PROCESS = hash("sha256", `${process.pid} ${Date.now()} ${Math.random()}`, "hex").slice(0, 16);

/** The turns of a plan's run: each works on one item, or on parallel ones side by side. */
export class PlanTurns {
  readonly done: string[] = [];
  readonly enough = new AbortController();
  spent: Spent = NOTHING;
  readonly #path: string;
  readonly #scripts: Readonly<Record<string, unknown>>;
  readonly #options: RunPlanOptions;
  readonly #cwd: string;
  #failure: PlanError | undefined;
  #works: readonly ItemWork[] = [];

  constructor(path: string, scripts: Readonly<Record<string, unknown>>, options: RunPlanOptions) {
    this.#path = path;
    this.#scripts = scripts;
    this.#options = options;
    this.#cwd = resolve(options.cwd ?? ".");
  }

  /** @throws {PlanError} `PLAN_INVALID`: the plan lacks an item that was asked for, or an item has no gate. */
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
      `nothing can show that ${ids}${bare.length > 5 ? ` and ${bare.length - 5} more` : ""} ${bare.length === 1 ? "is" : "are"} done. Name a gate (--gate "npm test", --gates auto), or go without (--gates none)`,
    );
  }

  /** The items to run, in the order of work. */
  wantedIn({ items }: Plan): readonly PlanItem[] {
    const { only } = this.#options;
    return items.filter(({ id, status, isOptional }) => {
      if (only !== undefined) return only.includes(id) && status !== "done";
      return (status === "open" || status === "begun") && !isOptional;
    });
  }

  /** One turn: an item, or parallel ones side by side. */
  async turn(run: Run<PlanState, PlanState>) {
    const { maxItems = Number.POSITIVE_INFINITY } = this.#options;
    const { items } = run.state;
    this.spent = Object.values(items).reduce(addSpent, NOTHING);
    // Thrown in a turn of its own, so that the next run begins the item anew.
    if (this.#failure !== undefined) throw this.#failure;
    if (this.done.length >= maxItems) this.enough.abort();
    run.signal.throwIfAborted();
    const batch = await run.step("next", ({ key, signal }) => this.#choose(key, signal));
    if (batch.items.length === 0) return Object.keys(items);
    const works = batch.items.map(
      (item) => new ItemWork(item, gatesFor(item, this.#options.gates, this.#scripts), batch.head ?? undefined),
    );
    this.#works = works;
    await Promise.all(works.filter(({ item }) => !item.isGroup).map((work) => this.#askCoder(run, work, batch.key)));
    const records: Record<string, ItemRecord> = {};
    for (const work of works) {
      const { commit, failure } = await this.#complete(run, work, batch.key);
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

  async #choose(key: string, signal: AbortSignal): Promise<Batch> {
    const { tag, jobs = 1 } = this.#options;
    const plan = await readPlan(this.#path, { tag });
    const undone = new Set(plan.items.filter(({ status }) => status !== "done").map(({ id }) => id));
    const wanted = this.wantedIn(plan);
    const first = wanted.findIndex(({ after }) => after.every((id) => !undone.has(id)));
    if (first === -1 && wanted.length > 0)
      this.#say(`These wait for items that aren't run: ${wanted.map(({ id }) => id).join(", ")}`);
    const beside = wanted.slice(first, first + jobs);
    const end = beside.findIndex(
      ({ isParallel, after, within }) =>
        !isParallel ||
        after.some((id) => undone.has(id)) ||
        within[0] !== beside[0]?.within[0] ||
        within.at(-1) !== beside[0]?.within.at(-1),
    );
    const items = first === -1 ? [] : end === -1 ? beside : beside.slice(0, Math.max(end, 1));
    return { items, head: (await readHead(this.#cwd, signal)) ?? null, key };
  }

  /** Calls the coder until no usage limit keeps it from working. */
  async #askCoder(run: Run<PlanState, PlanState>, work: ItemWork, key: string): Promise<void> {
    const { id } = work.item;
    for (let limits = 0; ; limits++) {
      this.#assertBudget(run.state);
      const call = await run.step(`${id} coder`, (step) => this.#callCoder(work, key, step));
      work.note(call);
      if (call.adopted !== undefined) this.#say(`${id} was finished before: ${call.adopted}`);
      if (call.limitedUntil === undefined) return;
      const until = waitUntil(call.limitedUntil, limits);
      this.#say(`${id} waits for a usage limit, until ${until.toISOString()}: ${call.error}`);
      await run.sleepUntil(`${id} usage limit`, until);
    }
  }

  async #callCoder(work: ItemWork, key: string, step: StepCall): Promise<CoderCall> {
    const { coder, coderTimeoutMs, budget = {}, output, logger } = this.#options;
    const { item, session } = work;
    // An earlier attempt was killed while it worked.
    work.isRepeated = step.attempt > 1;
    const adopted = work.isRepeated ? await this.#findFinished(work, step.signal) : undefined;
    if (adopted !== undefined) return { text: "", adopted, minutes: 0, ...(await this.#head(step.signal)) };
    const startedMs = performance.now();
    const ownSession = hash("sha256", `${key} ${item.id}`, "hex").replace(
      /^(.{8})(.{4})(.{4})(.{4})(.{12}).*/,
      "$1-$2-$3-$4-$5",
    );
    const env = {
      WAYMARK_PLAN: this.#path,
      WAYMARK_ITEM: item.id,
      WAYMARK_ATTEMPT: String(work.calls.length + step.attempt),
      WAYMARK_SESSION: session ?? ownSession,
    };
    const left =
      budget.minutes === undefined ? undefined : Math.max(1_000, (budget.minutes - this.#allSpent().minutes) * 60_000);
    const timeoutMs = Math.min(coderTimeoutMs ?? Number.POSITIVE_INFINITY, left ?? Number.POSITIVE_INFINITY);
    const beside = (await readdir(dirname(this.#path))).filter(
      (name) => /\.md$/i.test(name) && name !== basename(this.#path),
    );
    const prompt = itemPrompt(work, { plan: relative(this.#cwd, this.#path), beside: beside.slice(0, 20) });
    const line = { coder, prompt, session, env, timeoutMs: Number.isFinite(timeoutMs) ? timeoutMs : undefined };
    const report = await callCoder(line, planTask(this.#path, this.#cwd), step, { cwd: this.#cwd, output, logger });
    const { text, error, limit, costUsd, tokens } = report;
    return {
      text,
      minutes: (performance.now() - startedMs) / 60_000,
      ...((error ?? limit) !== undefined && { error: error ?? limit?.message ?? "" }),
      ...(limit && { limitedUntil: limit.resetsAt?.toISOString() ?? "" }),
      ...(report.session !== undefined && { session: report.session }),
      ...(costUsd !== undefined && { costUsd }),
      ...(tokens !== undefined && { tokens }),
      ...(await this.#head(step.signal)),
    };
  }

  async #head(signal: AbortSignal): Promise<{ readonly head?: string }> {
    const head = await readHead(this.#cwd, signal);
    return head === undefined ? {} : { head };
  }

  /** Returns how an item shows that it was finished since its start. */
  async #findFinished({ item, head }: ItemWork, signal: AbortSignal): Promise<string | undefined> {
    const { items } = await readPlan(this.#path, { tag: this.#options.tag });
    if (findItem(items, item)?.status === "done") return "it is marked as done";
    const commit = (await commitsSince(this.#cwd, head, signal)).find((each) => isAbout(each, item));
    return commit && `commit ${commit.id.slice(0, 8)} (${commit.subject})`;
  }

  /** Runs the gates, asks the coder to fix what they find, and marks the item. */
  async #complete(run: Run<PlanState, PlanState>, work: ItemWork, key: string): Promise<Ending> {
    const { maxFixes = 2 } = this.#options;
    const { id, title } = work.item;
    for (;;) {
      const failedCall = work.calls.at(-1)?.error !== undefined;
      const gates = failedCall ? [] : await this.#runGates(run, work);
      const failed = gates.find(({ passed }) => !passed);
      if (failed !== undefined) work.failure = describeFailure(failed);
      if (!failedCall && failed === undefined) {
        const end = await run.step(`${id} finish`, ({ signal }) => this.#finish(work, gates, signal));
        if (!end.isStale) return end;
        this.#say(`${id}: the gates run again, because the work has changed since they passed`);
        continue;
      }
      if (work.fixes >= maxFixes) break;
      work.fixes += 1;
      this.#say(`${id}: fix ${work.fixes} of ${maxFixes}`);
      await this.#askCoder(run, work, key);
    }
    const message =
      `Item ${id} (${title}) is not done after ${work.calls.length} calls of the coder. ${work.failure ?? ""}\nThe work is left as it is, ` +
      "and the items before it are done. Run the plan again to continue with this item.";
    // A coder may have marked it itself.
    await run.step(`${id} not done`, () => writeMark({ path: this.#path, tag: this.#options.tag }, work.item, false));
    return { failure: new PlanError("ITEM_FAILED", message) };
  }

  /** Runs the gates up to the first that fails. */
  async #runGates(run: Run<PlanState, PlanState>, { item, gates }: ItemWork): Promise<readonly GateRun[]> {
    const { gateTimeoutMs = 30 * 60_000, output, logger } = this.#options;
    const settings = { cwd: this.#cwd, output, logger };
    const runs: GateRun[] = [];
    for (const command of gates) {
      const gate = await run.step(`${item.id} gate ${command}`, async (step): Promise<GateRun> => {
        const before = await this.#readWork(step.signal);
        const result = await runGate(command, gateTimeoutMs, planTask(this.#path, this.#cwd), step, settings);
        if (result.timedOut) {
          const message = `The gate ${command} of item ${item.id} took longer than ${gateTimeoutMs} ms. The coder wasn't asked to fix that. Give it more time (--gate-timeout), and run the plan again.`;
          throw new PlanError("GATE_TIMED_OUT", message);
        }
        const { exitCode, stdout, stderr } = result;
        const passed = exitCode === 0;
        const isSame = passed && before !== undefined && before === (await this.#readWork(step.signal));
        return {
          command,
          passed,
          exitCode,
          output: passed ? "" : `${stdout}\n${stderr}`.trim(),
          passedOn: isSame ? before : null,
          process: PROCESS,
        };
      });
      runs.push(gate);
      this.#say(`${item.id}: ${command} ${gate.passed ? "passed" : "failed"}`);
      if (!gate.passed) break;
    }
    return runs;
  }

  /** The state of the files, without the plan; `undefined` if git can't tell. */
  async #readWork(signal: AbortSignal): Promise<string | undefined> {
    const state = await readWorkState({ cwd: this.#cwd, sessionPath: this.#cwd, prpPath: this.#path, signal });
    return "digest" in state ? state.digest : undefined;
  }

  /** Marks the item, and commits it. Does neither if the work isn't what the gates passed on. */
  async #finish(
    { item, startHead }: ItemWork,
    gates: readonly GateRun[],
    signal: AbortSignal,
  ): Promise<{ readonly isStale: boolean; readonly commit?: string }> {
    const { commits, tag } = this.#options;
    const subject = commitSubject(item);
    const own = commits
      ? (await commitsSince(this.#cwd, startHead, signal)).find((each) => each.subject === subject)
      : undefined;
    if (own !== undefined) return { isStale: false, commit: own.id };
    const now = await this.#readWork(signal);
    const holds = ({ passedOn, process }: GateRun) => (passedOn === null ? process === PROCESS : passedOn === now);
    if (!gates.every(holds)) return { isStale: true };
    await writeMark({ path: this.#path, tag }, item, true);
    const commit = commits ? await commitAll(this.#cwd, subject, signal) : undefined;
    return { isStale: false, ...(commit !== undefined && { commit }) };
  }

  #allSpent(): Spent {
    return this.#works.map((work) => work.spent()).reduce(addSpent, this.spent);
  }

  #assertBudget({ items }: PlanState): void {
    this.spent = Object.values(items).reduce(addSpent, NOTHING);
    const {
      usd = Number.POSITIVE_INFINITY,
      tokens = Number.POSITIVE_INFINITY,
      minutes = Number.POSITIVE_INFINITY,
    } = this.#options.budget ?? {};
    const spent = this.#allSpent();
    if (spent.costUsd < usd && spent.tokens < tokens && spent.minutes < minutes) return;
    const message = `The budget is spent: ${spentText(spent)}, ${spent.minutes.toFixed(1)} minutes. What is done is recorded; run the plan again with a larger one (--max-usd, --max-tokens, --max-minutes).`;
    throw new PlanError("BUDGET_SPENT", message);
  }

  #say(text: string): void {
    this.#options.logger.info({}, text);
  }
}

const MINUTE = 60_000;

/** The coder's own time. If it names none, or one that has passed twice, the pauses grow up to an hour. */
function waitUntil(limitedUntil: string, limits: number): Date {
  const resetsAt = limitedUntil === "" ? undefined : new Date(limitedUntil);
  if (resetsAt !== undefined && (limits === 0 || resetsAt.getTime() > Date.now())) return resetsAt;
  return new Date(Date.now() + Math.min(MINUTE * 2 ** limits, 60 * MINUTE));
}

function describeFailure({ command, exitCode, output }: GateRun): string {
  return `This command fails with ${exitCode ?? "a signal"}:\n  ${command}\nIts output:\n${output}`;
}

function invalid({ path }: Plan, why: string): PlanError {
  return new PlanError("PLAN_INVALID", `${path} can't be run: ${why}. Nothing was run.`);
}
