import { resolve } from "node:path";
import type { CheckpointManager, Run } from "waymark";
import { readScripts } from "../prp/gates/servers.js";
import { RunnerError } from "../runner-error.js";
import { NOTHING } from "./item-work.js";
import { readHead, runGit } from "./plan-git.js";
import { type PlanResult, type PlanState, planTask, type RunPlanOptions } from "./plan-options.js";
import { PlanTurns } from "./plan-turns.js";
import { readPlan } from "./read-plan.js";

/**
 * Runs a plan's open items, one after the other or several parallel items at once. For each item, calls the coder, runs
 * the gates, asks for fixes until the gates pass, then writes the done-mark. The plan is a run of the task
 * {@link planTask}: after a kill, call this function again to resume. An item that was finished before the kill, but
 * not recorded, isn't done again.
 *
 * @throws {RunnerError} The plan can't be run (nothing was done), an item failed, or the budget is spent.
 * @throws {LeaseHeldError} Another process runs this plan.
 */
export async function runPlan(manager: CheckpointManager, path: string, options: RunPlanOptions): Promise<PlanResult> {
  const { cwd = ".", tag, signal } = options;
  const scripts = await readScripts(cwd);
  const running = new PlanTurns(resolve(path), scripts, options);
  const plan = await readPlan(path, { tag });
  running.check(plan);
  await assertGit(path, options);
  const taskId = planTask(path, cwd);
  const isOver = (await manager.latest(taskId))?.status === "completed";
  const open = running.wantedIn(plan);
  if (isOver && open.length === 0) return { success: true, done: [], open: [], spent: NOTHING };
  const initialState: PlanState = { items: {} };
  const signals = [running.enough.signal, ...(signal === undefined ? [] : [signal])];
  try {
    await manager.run(taskId, (run: Run<PlanState, PlanState>) => running.turn(run), {
      initialState,
      restart: isOver,
      signal: AbortSignal.any(signals),
    });
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (!running.enough.signal.aborted) throw error;
  }
  const left = running.wantedIn(await readPlan(path, { tag })).map(({ id }) => id);
  return { success: true, done: running.done, open: left, spent: running.spent };
}

/**
 * @throws {RunnerError} `PLAN_INVALID`: the options exclude each other. `GIT_FAILED`: there is no repository, or no
 * commit.
 */
async function assertGit(path: string, { jobs = 1, worktrees, commits, cwd = "." }: RunPlanOptions): Promise<void> {
  const refuse = (why: string) => new RunnerError("PLAN_INVALID", `${path} can't be run: ${why}. Nothing was run.`);
  if (jobs > 1 && !worktrees)
    throw refuse(
      `${jobs} coders in one folder would overwrite each other's work, and no gate could tell whose work it judges. Pass --worktrees to have a git worktree for each`,
    );
  if (worktrees && !commits) throw refuse("the work of a worktree reaches the branch as a commit. Pass --commit");
  const { signal } = new AbortController();
  if (commits) await runGit(cwd, signal, "rev-parse", "--show-toplevel");
  if (worktrees && (await readHead(cwd, signal)) === undefined)
    throw new RunnerError("GIT_FAILED", "A worktree needs a commit to begin with, and there is none. Nothing was run.");
}
