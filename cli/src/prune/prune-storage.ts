import type { PruneResult, RetentionPolicy } from "waymark";
import { applyPlans } from "../actions/prune.js";
import { bytesOnDisk } from "../bytes-on-disk.js";
import { requireTaskToChange } from "../checkpoints.js";
import type { Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { CommandError, ExitCode, toExitCode } from "../exit-code.js";
import { JsonArrayPrinter } from "../items.js";
import { refuseThread } from "../langgraph/find-tasks.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { type Plans, PolicyPlans } from "../queries/retention.js";
import { bytesText, counted } from "../words.js";
import { PlanFile, readPlanFile } from "./plan-file.js";
import { PlanTable } from "./plan-table.js";

/** The options of `waymark prune`. Ages are in milliseconds, sizes in bytes. */
interface PruneOptions {
  readonly all?: true | undefined;
  readonly keepLast?: number | undefined;
  readonly keepWithin?: number | undefined;
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  readonly timeZone?: string | undefined;
  readonly keepStage?: readonly string[] | undefined;
  readonly maxAge?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly dryRun?: true | undefined;
  readonly planOut?: string | undefined;
  readonly force?: true | undefined;
  readonly allRows?: true | undefined;
  readonly planIn?: string | undefined;
  readonly yes?: true | undefined;
  readonly json?: true | undefined;
}

const SHOWN_FAILURES = 5;

/** Shows the plans, asks, and applies them. With `--dry-run` or `--plan-out`, it only shows or writes them. */
export async function pruneStorage(session: Session, taskId: string | undefined, options: PruneOptions): Promise<void> {
  const { output } = session;
  const { planOut, json } = options;
  const isPlanOnly = options.dryRun === true || planOut !== undefined;
  const plans = await readPlans(session, taskId, options);
  const total = await show(session, plans, options);
  const goes = sizeText(total.remove, total.removeBytes);
  if (!json) {
    const stays = sizeText(total.keep, total.keepBytes);
    await output.line(output.colors.bold(`${goes} would go, ${stays} stay.`));
    if (total.removing > 0) for (const line of await freedLines(session, total.removeBytes)) await output.line(line);
    if (planOut !== undefined) {
      await output.line(printable(`The plan is in ${planOut}; --plan-in ${planOut} applies it.`));
    }
  }
  if (isPlanOnly) return;

  if (total.removing > 0) {
    await output.flush();
    await confirm(session, `Remove ${goes} from ${session.name}?`, options.yes === true);
  }
  const progress = await showProgress("pruning", () => total.removing);
  const applied = applyPlans(session, plans, () => progress.advance()).finally(() => progress.stop());
  const { removed, removedBytes, failures } = await applied;
  const failed = failures.map(({ taskId, error }) => ({ taskId, code: error.code, message: error.message }));
  if (json) await output.line(jsonText({ tasks: total.tasks, removed, removedBytes, failed }));
  else if (total.removing > 0) await output.line(`Removed ${sizeText(removed, removedBytes)}.`);
  throwFailures(failures, total.removing);
}

/** @throws {CommandError} Some tasks could not be pruned; the message says which, and why. */
function throwFailures(failures: PruneResult["failures"], removing: number): void {
  const [first] = failures;
  if (first === undefined) return;
  const shown = failures.slice(0, SHOWN_FAILURES).map(({ error }) => error.message);
  const more = failures.length > shown.length ? ` And ${failures.length - shown.length} more.` : "";
  throw new CommandError(
    toExitCode(first.error),
    `${failures.length} of ${counted(removing, "task")} could not be pruned. ${shown.join(" ")}${more}`,
    { cause: first.error },
  );
}

/** Describes how much disk space a removal of `removeBytes` frees, as far as this is known in advance. */
export async function freedLines(session: Session, removeBytes: number): Promise<readonly string[]> {
  const bytes = await bytesOnDisk(session);
  if (bytes === undefined) return [];
  const all = bytesText(bytes);
  const scheme = session.location?.scheme;
  if (scheme === "files" || scheme === "tasks") {
    return [`That frees at least ${bytesText(removeBytes)} of ${all} on the disk.`];
  }
  return [
    `These are bytes of whole states. The storage takes ${all} on the disk: it stores`,
    "only changes. So it isn't known beforehand how much a removal frees.",
    scheme === "sqlite"
      ? "Later saves use the freed space; only VACUUM makes the file smaller."
      : "Later saves use the freed space, once the server has vacuumed the tables.",
  ];
}

/** Prints the plans, and writes the file of `--plan-out`. */
async function show({ output }: Session, plans: Plans, options: PruneOptions): Promise<typeof NO_PLANS> {
  const { planOut, dryRun, json, force = false, allRows = false } = options;
  const total = { ...NO_PLANS };
  const file = planOut === undefined ? undefined : await PlanFile.create(planOut, force);
  // With --json, the plans are printed only if nothing is removed (--dry-run, --plan-out); otherwise the result is
  // printed.
  const isShown = !json || dryRun || file !== undefined;
  const view = json ? new JsonArrayPrinter(output, '{"plans":[', "]}") : new PlanTable(output, allRows);
  try {
    for await (const plan of plans.shown()) {
      if (output.isClosed && dryRun && file === undefined) break;
      total.tasks += 1;
      if (plan.remove.length > 0 || plan.removeRecords !== undefined) total.removing += 1;
      for (const part of ["keep", "remove"] as const) {
        total[part] += plan[part].length;
        total[`${part}Bytes`] += plan[`${part}Bytes`];
      }
      await file?.add(plan);
      if (isShown) await view.add(plan);
    }
    await file?.end();
  } finally {
    await file?.close();
  }
  if (isShown) await view.end();
  return total;
}

/** Returns the rules and limits of the options; `undefined` if there are none. */
function readPolicy(options: PruneOptions): RetentionPolicy | undefined {
  const policy: RetentionPolicy = {
    keepLast: options.keepLast,
    keepWithinMs: options.keepWithin,
    keepHourly: options.keepHourly,
    keepDaily: options.keepDaily,
    keepWeekly: options.keepWeekly,
    keepMonthly: options.keepMonthly,
    keepStages: options.keepStage,
    maxAgeMs: options.maxAge,
    maxBytes: options.maxBytes,
  };
  return Object.values(policy).every((part) => part === undefined) ? undefined : policy;
}

function countsDays({ keepHourly, keepDaily, keepWeekly, keepMonthly }: RetentionPolicy): boolean {
  return [keepHourly, keepDaily, keepWeekly, keepMonthly].some((count) => count !== undefined);
}

/** @throws {CommandError} The arguments don't select any plans. */
async function readPlans(session: Session, taskId: string | undefined, options: PruneOptions): Promise<Plans> {
  const fromFlags = readPolicy(options);
  const all = options.all === true;
  if (options.planIn !== undefined) {
    if (taskId !== undefined || all || (fromFlags ?? options.timeZone ?? options.planOut) !== undefined) {
      throw new CommandError(
        ExitCode.usage,
        "The plan of --plan-in has its own tasks and policy: pass no task, no --all, no policy and no --plan-out with it.",
      );
    }
    const { planIn } = options;
    return { shown: () => readPlanFile(planIn), agreed: (outcome) => readPlanFile(planIn, outcome) };
  }
  if ((taskId !== undefined) === all) {
    throw new CommandError(
      ExitCode.usage,
      "Pass one task, or --all for every task: waymark prune build-42 --keep-last 10.",
    );
  }
  // Days are counted in the project's time zone, even if the project's policy isn't used.
  const isConfigured = fromFlags === undefined || (countsDays(fromFlags) && options.timeZone === undefined);
  const retention = isConfigured ? (await session.config()).retention : undefined;
  const policy = fromFlags ?? retention;
  if (policy === undefined) {
    throw new CommandError(
      ExitCode.usage,
      "No policy is given. Pass one, such as --keep-last 10 or --max-age 30d, or set retention in waymark.config.js.",
    );
  }
  const task = taskId && (await requireTaskToChange(session, taskId));
  if (task !== undefined)
    refuseThread(
      task,
      "To prune a thread, call WaymarkSaver.prune; to remove it, use waymark delete, or waymark langgraph prune if it is idle.",
    );
  const { timeZone = retention?.timeZone } = options;
  return new PolicyPlans(session, { ...policy, timeZone }, task === undefined ? undefined : [task]);
}

/** Counts of all tasks, of the tasks that lose a checkpoint, and of the checkpoints that are kept and removed. */
const NO_PLANS = { tasks: 0, removing: 0, keep: 0, keepBytes: 0, remove: 0, removeBytes: 0 };

/** `12 checkpoints (1.5 MiB)` */
function sizeText(count: number, bytes: number): string {
  return `${counted(count, "checkpoint")} (${bytesText(bytes)})`;
}
