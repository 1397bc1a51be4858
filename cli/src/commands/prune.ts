import { Option } from "@commander-js/extra-typings";
import {
  type PlannedCheckpoint,
  PlanOutdatedError,
  type PruneResult,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
} from "waymark";
import { isCorrupt } from "waymark/adapter";
import { readableSummaries, requireTask } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { readPlanFile, writePlanFile } from "../plan-file.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { TablePrinter } from "../table.js";
import { bytesText, countArgument, counted, durationArgument, sizeArgument } from "../words.js";

export const prune: CommandFile = {
  example: "waymark prune --all --keep-last 9 --dry-run",
  register(program, cli) {
    program
      .command("prune")
      .summary("remove by a policy")
      .description("Removes what a policy (default: the configured retention) doesn't keep.")
      .argument("[task]")
      .option("--all", "every task")
      .option("--keep-last <n>", "keep the newest n", countArgument(1))
      .option("--keep-within <age>", "keep those of the last 30d, 12h", durationArgument)
      .option("--keep-hourly <n>", "keep the newest of each of n hours; or daily, …", countArgument(1))
      .addOption(new Option("--keep-daily <n>").argParser(countArgument(1)).hideHelp())
      .addOption(new Option("--keep-weekly <n>").argParser(countArgument(1)).hideHelp())
      .addOption(new Option("--keep-monthly <n>").argParser(countArgument(1)).hideHelp())
      .option("--keep-stage <stage...>", "keep all of these stages")
      .option("--max-age <age>", "remove older ones, kept or not", durationArgument)
      .option("--max-bytes <size>", "remove until the task fits: 10MiB", sizeArgument)
      .option("--dry-run", "show the plan, remove nothing")
      .option("--plan-out <file>", "write the plan to a file, remove nothing")
      .option("--force", "let --plan-out replace a file")
      .option("--all-rows", "show the whole of a long plan on a terminal")
      .option("--plan-in <file>", "apply exactly that plan, or refuse it as outdated")
      .option("--yes", "don't ask")
      .option("--json", "for programs: the plans, or what was removed")
      .action((taskId, options) =>
        cli.withStore(async (session) => {
          const { output } = session;
          const plans = await makePlans(session, taskId, options.all === true, policyOf(options), options.planIn);
          if (options.planOut !== undefined) await writePlanFile(options.planOut, plans, options.force === true);
          const isPlanOnly = options.dryRun === true || options.planOut !== undefined;
          if (!options.json) await print(session, plans, options.allRows === true);
          if (options.json && isPlanOnly) await output.line(jsonText({ plans }));
          else if (options.planOut !== undefined) {
            await output.line(printable(`The plan is in ${options.planOut}; --plan-in ${options.planOut} applies it.`));
          }
          if (isPlanOnly) return;

          const doomed = plans.filter(({ remove }) => remove.length > 0);
          if (doomed.length > 0) {
            await output.flush();
            await confirm(session, `Remove ${sizeText(doomed, "remove")} from ${session.name}?`, options.yes === true);
          }
          const result = { ...(await apply(session, doomed)), tasks: plans.length };
          if (options.json) await output.line(jsonText(result));
          else if (doomed.length > 0) {
            await output.line(`Removed ${counted(result.removed, "checkpoint")} (${bytesText(result.removedBytes)}).`);
          }
        }),
      );
  },
};

interface PolicyFlags {
  readonly keepLast?: number | undefined;
  readonly keepWithin?: number | undefined;
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  readonly keepStage?: readonly string[] | undefined;
  readonly maxAge?: number | undefined;
  readonly maxBytes?: number | undefined;
}

/** The policy of the flags; undefined without any. */
function policyOf(flags: PolicyFlags): RetentionPolicy | undefined {
  const policy: RetentionPolicy = {
    keepLast: flags.keepLast,
    keepWithinMs: flags.keepWithin,
    keepHourly: flags.keepHourly,
    keepDaily: flags.keepDaily,
    keepWeekly: flags.keepWeekly,
    keepMonthly: flags.keepMonthly,
    keepStages: flags.keepStage,
    maxAgeMs: flags.maxAge,
    maxBytes: flags.maxBytes,
  };
  return Object.values(policy).every((part) => part === undefined) ? undefined : policy;
}

async function makePlans(
  session: Session,
  taskId: string | undefined,
  all: boolean,
  flags: RetentionPolicy | undefined,
  planIn: string | undefined,
): Promise<readonly RetentionPlan[]> {
  if (planIn !== undefined) {
    if (taskId !== undefined || all || flags !== undefined) {
      throw new CommandError(
        ExitCode.usage,
        "The plan of --plan-in has its own tasks and policy: pass no task, no --all and no policy with it.",
      );
    }
    return readPlanFile(planIn);
  }
  if ((taskId !== undefined) === all) {
    throw new CommandError(
      ExitCode.usage,
      "Pass one task, or --all for every task: waymark prune build-42 --keep-last 10.",
    );
  }
  const policy = flags ?? session.config.retention;
  if (policy === undefined) {
    throw new CommandError(
      ExitCode.usage,
      "No policy is given. Pass one, such as --keep-last 10 or --max-age 30d, or set retention in waymark.config.js.",
    );
  }
  if (taskId !== undefined) {
    await requireTask(session, taskId);
    return [await planOf(session, taskId, policy)];
  }
  const plans: RetentionPlan[] = [];
  for await (const task of session.storage.tasks({ order: "taskId" })) {
    if (isCorrupt(task)) await session.damage.add(task);
    else plans.push(await planOf(session, task.taskId, policy));
  }
  return plans;
}

async function planOf(session: Session, taskId: string, policy: RetentionPolicy): Promise<RetentionPlan> {
  return planRetention(taskId, await readableSummaries(session, { taskId, order: "newest" }), policy, Date.now());
}

/** @throws {CommandError} A plan is outdated; the message says what was removed before it. */
async function apply({ manager }: Session, plans: readonly RetentionPlan[]): Promise<PruneResult> {
  const total = { tasks: 0, removed: 0, removedBytes: 0 };
  const progress = await showProgress("pruning", () => plans.length);
  try {
    for (const plan of plans) {
      const { removed, removedBytes } = await manager.applyPlan(plan);
      total.tasks += 1;
      total.removed += removed;
      total.removedBytes += removedBytes;
      progress.advance();
    }
  } catch (cause) {
    if (!(cause instanceof PlanOutdatedError) || total.tasks === 0) throw cause;
    const before = `Removed before it: ${counted(total.removed, "checkpoint")} of ${counted(total.tasks, "task")}.`;
    throw new CommandError(ExitCode.conflict, `${cause.message} ${before}`, { cause });
  } finally {
    progress.stop();
  }
  return total;
}

/** On a terminal, a long plan is its first and its last rows. */
const SHOWN_ROWS = 10;

async function print({ output }: Session, plans: readonly RetentionPlan[], allRows: boolean): Promise<void> {
  const { colors } = output;
  const table = new TablePrinter(output, [
    { head: "PLAN" },
    { head: "TASK", flexible: true },
    { head: "SEQ", align: "right" },
    { head: "SAVED", flexible: true },
    { head: "AT", flexible: true },
    { head: "SIZE", align: "right" },
    { head: "WHY", flexible: true },
  ]);
  const row = async (
    verb: string,
    color: (text: string) => string,
    { checkpoint, reasons }: PlannedCheckpoint,
    taskId: string,
  ) =>
    table.add(
      { text: verb, color },
      taskId,
      String(checkpoint.sequence),
      checkpoint.createdAt.slice(0, 16).replace("T", " "),
      checkpoint.label ?? checkpoint.stage ?? "",
      bytesText(checkpoint.sizeBytes),
      reasons.join(", "),
    );
  const rows = plans.reduce((sum, { keep, remove }) => sum + keep.length + remove.length, 0);
  const isShort = allRows || !output.isTerminal || rows <= 2 * SHOWN_ROWS + 1;
  const hidden = isShort ? 0 : rows - 2 * SHOWN_ROWS;
  let at = 0;
  const place = async (...cells: Parameters<typeof row>) => {
    if (hidden > 0 && at === SHOWN_ROWS) {
      await table.end();
      await output.line(colors.dim(`… ${counted(hidden, "more row")}; --all-rows shows them`));
    }
    if (hidden === 0 || at < SHOWN_ROWS || at >= SHOWN_ROWS + hidden) await row(...cells);
    at += 1;
  };
  for (const { taskId, keep, remove } of plans) {
    for (const planned of keep) await place("keep", colors.green, planned, taskId);
    for (const planned of remove) await place("remove", colors.red, planned, taskId);
  }
  await table.end();
  const summary = `${sizeText(plans, "remove")} would go, ${sizeText(plans, "keep")} stay.`;
  await output.line(colors.bold(printable(summary)));
}

/** `12 checkpoints (1.5 MiB)` */
function sizeText(plans: readonly RetentionPlan[], part: "keep" | "remove"): string {
  const count = plans.reduce((sum, plan) => sum + plan[part].length, 0);
  const bytes = plans.reduce((sum, plan) => sum + (part === "keep" ? plan.keepBytes : plan.removeBytes), 0);
  return `${counted(count, "checkpoint")} (${bytesText(bytes)})`;
}
