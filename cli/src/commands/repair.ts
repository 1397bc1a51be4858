import type { RepairResult } from "waymark";
import { repairStorage, type StoppedRepair } from "../actions/repair.js";
import type { CommandFile, Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { ExitCode } from "../exit-code.js";
import type { RepairStep } from "../findings.js";
import { printSteps } from "../findings.js";
import { durationArgument } from "../measure-arguments.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { counted, timeText } from "../words.js";

export const repair: CommandFile = {
  example: "waymark repair --dry-run",
  register(program, cli) {
    program
      .command("repair")
      .summary("move damage away")
      .description(
        "Moves damaged records to quarantine (the storage's folder .quarantine or table waymark_quarantine), byte for " +
          "byte and with the reason, and removes old leftovers of killed writes. It deletes no record, and no sequence is " +
          "used twice. Exits with 1 if damage is left that it can't repair. At Ctrl-C, or if it fails midway, it shows " +
          "what it has done; the next run continues from there.",
      )
      .option("--leftovers-older-than <age>", "remove leftovers older than this; default: 1h", durationArgument)
      .option("--dry-run", "show what it would do, change nothing")
      .option("--yes", "don't ask")
      .option("--json", "for programs: the steps, and each task's newest")
      .action((options) =>
        cli.withStore(async (session) => {
          const { manager, output, name } = session;
          const how = { leftoversOlderThanMs: options.leftoversOlderThan };
          const plan = await manager.maintenance.repair({ ...how, dryRun: true });
          const changes = plan.steps.filter(({ action }) => action !== "left");
          const isPlanOnly = options.dryRun === true || changes.length === 0;
          if (!isPlanOnly && options.yes !== true) {
            if (!options.json) await printSteps(session, plan.steps, true);
            await output.flush();
            await confirm(session, `${changesText(changes)} in ${name}?`, false);
          }
          const show = async (result: RepairResult | StoppedRepair): Promise<void> => {
            if (options.json) await output.line(jsonText(result));
            else await print(session, result, options.dryRun === true);
            const isLeft = ({ action, finding }: RepairStep) => action === "left" && finding.kind === "damaged";
            if (result.steps.some(isLeft)) cli.exitCode = ExitCode.failed;
          };
          // The signal handler is set just before the first change. Until then, Ctrl-C ends the command at once.
          if (isPlanOnly) return show(plan);
          const signal = cli.interruptible();
          const progress = await showProgress("repairing", () => changes.length);
          const onProgress = ({ steps }: RepairResult) => steps.at(-1)?.action !== "left" && progress.advance();
          const repaired = await repairStorage(session, { ...how, signal, onProgress });
          progress.stop();
          await show(repaired.result);
          if ("reason" in repaired && repaired.reason !== signal.reason) throw repaired.reason;
        }),
      );
  },
};

async function print(session: Session, result: RepairResult | StoppedRepair, isDryRun: boolean): Promise<void> {
  const { output, name } = session;
  const { steps } = result;
  await printSteps(session, steps, isDryRun);
  if ("stopped" in result) {
    const soFar = changesText(steps.filter(({ action }) => action !== "left"));
    await output.line(output.colors.bold(printable(`Stopped. ${soFar}: done, in ${name}. Run it again to continue.`)));
    return;
  }
  const { tasks } = result;
  for (const { taskId, newest } of tasks) {
    const now =
      newest === undefined
        ? "nothing intact is left"
        : `the newest intact one is @${newest.sequence} of ${timeText(newest.createdAt)} (${newest.id})`;
    await output.line(printable(`Task ${JSON.stringify(taskId)}: ${now}.`));
  }
  const changes = steps.filter(({ action }) => action !== "left");
  const done = steps.length === 0 ? "There is nothing to repair" : `${changesText(changes)}${isDryRun ? "" : ": done"}`;
  await output.line(output.colors.bold(printable(`${done}, in ${name}.${isDryRun ? " Nothing was changed." : ""}`)));
}

/** `Move 2 damaged records to quarantine, remove 1 leftover` */
function changesText(changes: readonly RepairStep[]): string {
  const count = (action: RepairStep["action"]) => changes.filter((step) => step.action === action).length;
  const [quarantined, removed] = [count("quarantined"), count("removed")];
  const parts = [
    ...(quarantined > 0 ? [`move ${counted(quarantined, "damaged record")} to quarantine`] : []),
    ...(removed > 0 ? [`remove ${counted(removed, "leftover")}`] : []),
  ];
  const text = parts.length === 0 ? "change nothing" : parts.join(", ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
