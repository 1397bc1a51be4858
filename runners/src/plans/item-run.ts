import { hash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { basename, dirname, relative } from "node:path";
import type { Run, StepCall } from "waymark";
import { readWorkState } from "../prp/work-state.js";
import { RunnerError } from "../runner-error.js";
import type { Budget } from "./budget.js";
import { findItem, writeMark } from "./done-mark.js";
import type { CoderCall, ItemWork } from "./item-work.js";
import { callCoder, runGate } from "./plan-commands.js";
import { commitAll, commitSubject, commitsSince, isAbout, readHead } from "./plan-git.js";
import { type PlanState, planTask, type RunPlanOptions } from "./plan-options.js";
import { itemPrompt } from "./plan-prompts.js";
import type { PlanWorktrees } from "./plan-worktrees.js";
import { readPlan } from "./read-plan.js";

interface GateRun {
  readonly command: string;
  readonly passed: boolean;
  readonly exitCode: number | null;
  readonly output: string;
  /** The digest of the work that the gate passed on; null if it failed, or the digest is unknown. */
  readonly passedOn: string | null;
  readonly process: string;
}

/** How the work on an item ended. */
export interface Ending {
  readonly commit?: string;
  readonly failure?: RunnerError;
}

/** The result of finishing an item: the item is finished, or the gates must run again. */
interface Finish extends Ending {
  /** True if the work has changed since the gates passed. */
  readonly isStale?: boolean;
  /** The commit that the work must be rebased onto before it can be merged into the branch. */
  readonly onto?: string;
  /** The work, as a commit that is on no branch yet. */
  readonly work?: string;
}

/** The parts that all items of a plan share. */
export interface PlanWork {
  /** The path of the plan's file. */
  readonly path: string;
  readonly cwd: string;
  readonly options: RunPlanOptions;
  readonly budget: Budget;
  readonly worktrees: PlanWorktrees;
  /** Runs the changes of the branch one after the other. */
  readonly inTurn: <Result>(change: () => Promise<Result>) => Promise<Result>;
}

/**
 * Identifies this process. If a gate changed the work while it ran, its result only counts in the process that ran it.
 */
const PROCESS = hash("sha256", `${process.pid} ${Date.now()} ${Math.random()}`, "hex").slice(0, 16);

/** Runs the steps of one item: the coder, the gates, fixes, then the done-mark and the commit. */
export class ItemRun {
  readonly #run: Run<PlanState, PlanState>;
  readonly #work: ItemWork;
  readonly #plan: PlanWork;
  /** The turn's key. */
  readonly #key: string;

  constructor(run: Run<PlanState, PlanState>, work: ItemWork, key: string, plan: PlanWork) {
    this.#run = run;
    this.#work = work;
    this.#plan = plan;
    this.#key = key;
  }

  /** Does the item. Resolves once the item is marked as done, or has failed. */
  async do(): Promise<Ending> {
    const { item, place, base = "" } = this.#work;
    const { worktrees } = this.#plan;
    if (place.worktree !== undefined)
      await this.#run.step(`${item.id} worktree`, ({ signal }) => worktrees.add(place, base, signal));
    if (!item.isGroup) await this.#askCoder();
    return this.#complete();
  }

  /** Calls the coder. After each usage limit, waits and calls it again. */
  async #askCoder(): Promise<void> {
    const { id } = this.#work.item;
    for (let limits = 0; ; limits++) {
      this.#plan.budget.assert(this.#run.state);
      const call = await this.#run.step(`${id} coder`, (step) => this.#callCoder(step));
      this.#work.note(call);
      if (call.adopted !== undefined) this.#say(`${id} was finished before: ${call.adopted}`);
      if (call.limitedUntil === undefined) return;
      const until = waitUntil(call.limitedUntil, limits);
      this.#say(`${id} waits for a usage limit, until ${until.toISOString()}: ${call.error}`);
      await this.#run.sleepUntil(`${id} usage limit`, until);
    }
  }

  async #callCoder(step: StepCall): Promise<CoderCall> {
    const { coder, coderTimeoutMs = Number.POSITIVE_INFINITY } = this.#plan.options;
    const work = this.#work;
    const { item, session, place } = work;
    // If this isn't the step's first attempt, the earlier one was killed while the coder worked.
    work.isRepeated = step.attempt > 1;
    const adopted = work.isRepeated ? await this.#findFinished(step.signal) : undefined;
    if (adopted !== undefined) return { text: "", adopted, minutes: 0, ...(await this.#head(step.signal)) };
    const startedMs = performance.now();
    const ownSession = hash("sha256", `${this.#key} ${item.id}`, "hex").replace(
      /^(.{8})(.{4})(.{4})(.{4})(.{12}).*/,
      "$1-$2-$3-$4-$5",
    );
    const env = {
      WAYMARK_PLAN: place.path,
      WAYMARK_ITEM: item.id,
      WAYMARK_ATTEMPT: String(work.calls.length + step.attempt),
      WAYMARK_SESSION: session ?? ownSession,
    };
    const timeoutMs = Math.min(coderTimeoutMs, this.#plan.budget.leftMs());
    const beside = (await readdir(dirname(place.path))).filter(
      (name) => /\.md$/i.test(name) && name !== basename(place.path),
    );
    const prompt = itemPrompt(work, { plan: relative(place.cwd, place.path), beside: beside.slice(0, 20) });
    const line = { coder, prompt, session, env, timeoutMs: Number.isFinite(timeoutMs) ? timeoutMs : undefined };
    const report = await callCoder(line, this.#task(), step, this.#commands());
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
    const head = await readHead(this.#work.place.cwd, signal);
    return head === undefined ? {} : { head };
  }

  /** Returns what shows that the item has been finished since its start: its done-mark, or a commit. */
  async #findFinished(signal: AbortSignal): Promise<string | undefined> {
    const { item, head, place } = this.#work;
    const { items } = await readPlan(place.path, { tag: this.#plan.options.tag });
    if (findItem(items, item)?.status === "done") return "it is marked as done";
    const commit = (await commitsSince(place.cwd, head, signal)).find((each) => isAbout(each, item));
    return commit && `commit ${commit.id.slice(0, 8)} (${commit.subject})`;
  }

  /** Runs the gates, asks the coder to fix what they find, and marks the item. */
  async #complete(): Promise<Ending> {
    const { maxFixes = 2 } = this.#plan.options;
    const work = this.#work;
    const { id, title } = work.item;
    for (;;) {
      const failedCall = work.calls.at(-1)?.error !== undefined;
      const gates = failedCall ? [] : await this.#runGates();
      const failed = gates.find(({ passed }) => !passed);
      if (failed !== undefined) work.failure = describeFailure(failed);
      if (!failedCall && failed === undefined) {
        const end = await this.#plan.inTurn(() => this.#finish(gates));
        if (end === "again") continue;
        if (end !== "conflict") return end;
      }
      if (work.fixes >= maxFixes) break;
      work.fixes += 1;
      this.#say(`${id}: fix ${work.fixes} of ${maxFixes}`);
      await this.#askCoder();
    }
    const left = work.place.worktree === undefined ? "" : ` in ${work.place.worktree}, until the plan is run again`;
    const message =
      `Item ${id} (${title}) is not done after ${work.calls.length} calls of the coder. ${work.failure ?? ""}\nThe work is left as it ` +
      `is${left}, and the items before it are done. Run the plan again to ${left === "" ? "continue with" : "begin"} this item.`;
    // The coder may have marked the item as done.
    await this.#run.step(`${id} not done`, () => this.#mark(false));
    return { failure: new RunnerError("ITEM_FAILED", message) };
  }

  /** Runs the gates up to the first that fails. */
  async #runGates(): Promise<readonly GateRun[]> {
    const { gateTimeoutMs = 30 * 60_000 } = this.#plan.options;
    const { item, gates } = this.#work;
    const runs: GateRun[] = [];
    for (const command of gates) {
      const gate = await this.#run.step(`${item.id} gate ${command}`, async (step): Promise<GateRun> => {
        const before = await this.#readWork(step.signal);
        const result = await runGate(command, gateTimeoutMs, this.#task(), step, this.#commands());
        if (result.timedOut) {
          const message = `The gate ${command} of item ${item.id} took longer than ${gateTimeoutMs} ms. The coder wasn't asked to fix that. Give it more time (--gate-timeout), and run the plan again.`;
          throw new RunnerError("GATE_TIMED_OUT", message);
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

  /**
   * Marks and commits the item, unless the gates must run again, or the work conflicts with items finished meanwhile.
   */
  async #finish(gates: readonly GateRun[]): Promise<Ending | "again" | "conflict"> {
    const { worktrees } = this.#plan;
    const work = this.#work;
    const { item, place } = work;
    const { id } = item;
    const finish = await this.#run.step(`${id} finish`, ({ signal }) => this.#markOrCommit(gates, signal));
    const { isStale, onto, work: commit } = finish;
    if (isStale) {
      this.#say(`${id}: the gates run again, because the work has changed since they passed`);
      return "again";
    }
    if (place.worktree === undefined) return finish;
    if (onto === undefined) {
      const end = await this.#run.step(`${id} merge`, ({ signal }) => this.#merge(commit, signal));
      return end.isStale ? "again" : end;
    }
    const files = await this.#run.step(`${id} rebase`, ({ signal }) => worktrees.move(place, commit, onto, signal));
    work.base = onto;
    if (files.length === 0) {
      this.#say(`${id}: the gates run again, on top of the items that were finished meanwhile`);
      return "again";
    }
    this.#say(`${id}: conflicts with items that were finished meanwhile, in: ${files.join(", ")}`);
    work.failure = `Your changes conflict with those of other items, which were finished meanwhile, in: ${files.join(", ")}. Your changes were undone, and the files now have those of the others. Do the item again.`;
    return "conflict";
  }

  /** Checks that the gates passed on the current work. If it isn't in a worktree, also marks and commits the item. */
  async #markOrCommit(gates: readonly GateRun[], signal: AbortSignal): Promise<Finish> {
    const { options, cwd, worktrees } = this.#plan;
    const { item, startHead, place, base = "" } = this.#work;
    const subject = commitSubject(item);
    if (place.worktree === undefined && options.commits) {
      const own = await this.#findCommit(startHead, signal);
      if (own !== undefined) return { commit: own };
    }
    const now = await this.#readWork(signal);
    const holds = ({ passedOn, process }: GateRun) => (passedOn === null ? process === PROCESS : passedOn === now);
    if (!gates.every(holds)) return { isStale: true };
    if (place.worktree !== undefined) {
      const [head, work] = [await worktrees.head(signal), await worktrees.commit(place, base, subject, signal)];
      return { ...(head !== base && { onto: head ?? "" }), ...(work !== undefined && { work }) };
    }
    await this.#mark(true);
    const commit = options.commits ? await commitAll(cwd, subject, signal) : undefined;
    return commit === undefined ? {} : { commit };
  }

  /** Merges the work of a worktree into the plan's branch, with the done-mark. After a kill, never merges it twice. */
  async #merge(work: string | undefined, signal: AbortSignal): Promise<Finish> {
    const { cwd, worktrees } = this.#plan;
    const { item, startHead, place, base } = this.#work;
    const own = await this.#findCommit(startHead, signal);
    if (own === undefined) {
      if ((await worktrees.head(signal)) !== base) return { isStale: true };
      if (work !== undefined) await worktrees.bring(work, signal);
    }
    await this.#mark(true);
    const amends = (own ?? work) !== undefined && (own ?? work) === (await worktrees.head(signal));
    const commit = await commitAll(cwd, commitSubject(item), signal, { amends });
    await worktrees.remove(place.worktree ?? "", signal);
    return commit === undefined ? {} : { commit };
  }

  async #findCommit(since: string | undefined, signal: AbortSignal): Promise<string | undefined> {
    const subject = commitSubject(this.#work.item);
    return (await commitsSince(this.#plan.cwd, since, signal)).find((each) => each.subject === subject)?.id;
  }

  #mark(isDone: boolean): Promise<void> {
    const { path, options } = this.#plan;
    return writeMark({ path, tag: options.tag }, this.#work.item, isDone);
  }

  /** Returns a digest of the files, without the plan; `undefined` if git can't tell their state. */
  async #readWork(signal: AbortSignal): Promise<string | undefined> {
    const { cwd, path } = this.#work.place;
    const state = await readWorkState({ cwd, sessionPath: cwd, prpPath: path, signal });
    return "digest" in state ? state.digest : undefined;
  }

  #task(): string {
    return planTask(this.#plan.path, this.#plan.cwd);
  }

  #commands() {
    const { output, logger } = this.#plan.options;
    return { cwd: this.#work.place.cwd, output, logger };
  }

  #say(text: string): void {
    this.#plan.options.logger.info({}, text);
  }
}

const MINUTE = 60_000;

/**
 * Returns when to call the coder again: at the time that it named. If it named none, or a past time again, after pauses
 * that grow up to an hour.
 */
function waitUntil(limitedUntil: string, limits: number): Date {
  const resetsAt = limitedUntil === "" ? undefined : new Date(limitedUntil);
  if (resetsAt !== undefined && (limits === 0 || resetsAt.getTime() > Date.now())) return resetsAt;
  return new Date(Date.now() + Math.min(MINUTE * 2 ** limits, 60 * MINUTE));
}

function describeFailure({ command, exitCode, output }: GateRun): string {
  return `This command fails with ${exitCode ?? "a signal"}:\n  ${command}\nIts output:\n${output}`;
}
