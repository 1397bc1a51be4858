import { mkdir, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { findPlans, type PlanResult, planTask, readPlan, runPlan, spentText } from "waymark-runners/plans";
import type { Cli } from "../cli.js";
import type { JsonEvents } from "../event-lines.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { printable } from "../printable.js";
import { shellWords } from "../shell-command.js";
import { DEFAULT_FILE } from "../store.js";
import { commonGates, type PlanChoice } from "./check-plans.js";

interface RunChoice extends PlanChoice {
  readonly coder: string;
  readonly fixes?: number | undefined;
  readonly commit?: true | undefined;
  readonly allowDirty?: true | undefined;
  readonly maxItems?: number | undefined;
  readonly jobs?: number | undefined;
  readonly worktrees?: true | undefined;
  readonly maxUsd?: number | undefined;
  readonly maxTokens?: number | undefined;
  readonly maxMinutes?: number | undefined;
  readonly gateTimeout?: number | undefined;
  readonly coderTimeout?: number | undefined;
  readonly signal: AbortSignal;
  readonly view: JsonEvents | undefined;
}

/** Returns the plan that a path names: the file itself, or the folder's only plan with open items. */
export async function findPlan(path: string, tag: string | undefined): Promise<string> {
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) return path;
  const files: string[] = [];
  for await (const file of findPlans(path)) {
    const plan = await readPlan(file, { tag }).catch(() => undefined);
    if (plan?.items.some(({ status }) => status === "open" || status === "begun")) files.push(file);
  }
  const [only, ...others] = files;
  if (only !== undefined && others.length === 0) return only;
  const why =
    only === undefined ? "no plan with open items" : `several plans with open items: ${files.join(", ")}. Name one`;
  throw new CommandError(ExitCode.notFound, `${resolve(path)} has ${why}.`);
}

/** Runs the plan in the storage of the flags, or else in `.waymark/checkpoints.db`. */
export async function runInStore(cli: Cli, file: string, choice: RunChoice): Promise<PlanResult> {
  const { coder, tag, signal, view, item: only } = choice;
  const gates = await commonGates(cli, choice);
  if (choice.gates === "auto") cli.logger.info({}, `Gates of package.json: ${gates.join(", ")}`);
  let result: PlanResult | undefined;
  await cli.withStore(
    async ({ configured, commandText }) => {
      const manager = await configured();
      try {
        result = await runPlan(manager, file, {
          ...{ coder, gates, tag, only, signal },
          allowsNoGates: choice.gates === "none",
          maxFixes: choice.fixes,
          gateTimeoutMs: choice.gateTimeout,
          coderTimeoutMs: choice.coderTimeout,
          commits: choice.commit,
          allowsDirty: choice.allowDirty,
          maxItems: choice.maxItems,
          jobs: choice.jobs,
          worktrees: choice.worktrees,
          budget: { usd: choice.maxUsd, tokens: choice.maxTokens, minutes: choice.maxMinutes },
          output: view && ((text, source) => view.show({ type: "output", ...source, text })),
          logger: view?.logger ?? cli.logger,
        });
      } finally {
        await manager.close();
      }
      if (view === undefined) await cli.errors.line(commandText("show", [planTask(file)]));
    },
    "write",
    (await cli.namesStorage()) ? undefined : await defaultStorage(),
  );
  if (result === undefined) throw new Error("The storage was never opened");
  return result;
}

/** Creates the folder of the default storage, and makes git ignore it. */
async function defaultStorage(): Promise<string> {
  const folder = dirname(DEFAULT_FILE);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFile(join(folder, ".gitignore"), "*\n");
  return `sqlite:${DEFAULT_FILE}`;
}

export async function reportRun({ output }: Cli, { done, open, spent }: PlanResult): Promise<void> {
  const left = open.length === 0 ? "Nothing is open." : `Still open: ${open.join(", ")}.`;
  const cost = spent.calls === 0 ? "" : ` (${spentText(spent)} in all)`;
  await output.line(printable(`Done: ${done.length === 0 ? "nothing new" : done.join(", ")}${cost}. ${left}`));
}

/** Returns the command that continues a plan: the same one again. */
export function resumeArguments(args: readonly string[]): string {
  return shellWords(["waymark", ...args]);
}
