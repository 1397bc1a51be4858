import type { RepairOptions, RepairResult, RepairStep } from "waymark";
import type { CommandFile, Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { ExitCode } from "../exit-code.js";
import { printSteps } from "../findings.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { counted, durationArgument, timeText } from "../words.js";

export const repair: CommandFile = {
  example: "waymark repair --dry-run",
  register(program, cli) {
    program
      .command("repair")
      .summary("move damage away")
      .description(
        "Moves damaged records to quarantine (the folder .quarantine of the storage, or its table waymark_quarantine), " +
          "byte for byte and with the reason, and removes old leftovers of killed writes. It deletes no record, and no " +
          "sequence is given again. Ends with 1 where damage is left that it can't repair.",
      )
      .option("--leftovers-older-than <age>", "which leftovers go: 1h unless told", durationArgument)
      .option("--dry-run", "show what it would do, change nothing")
      .option("--yes", "don't ask")
      .option("--json", "for programs: the steps, and what is newest now")
      .action((options) =>
        cli.withStore(async (session) => {
          const { manager, output, name } = session;
          const how = { leftoversOlderThanMs: options.leftoversOlderThan };
          const plan = await manager.repair({ ...how, dryRun: true });
          const changes = plan.steps.filter(({ action }) => action !== "left");
          const isPlanOnly = options.dryRun === true || changes.length === 0;
          if (!isPlanOnly && options.yes !== true) {
            if (!options.json) await printSteps(session, plan.steps, true);
            await output.flush();
            await confirm(`${changesText(changes)} in ${name}?`, false);
          }
          const result = isPlanOnly ? plan : await repairAll(session, how, changes.length);
          if (options.json) await output.line(jsonText(result));
          else await print(session, result, options.dryRun === true);
          const isLeft = ({ action, finding }: RepairStep) => action === "left" && finding.kind !== "leftover";
          if (result.steps.some(isLeft)) cli.exitCode = ExitCode.failed;
        }),
      );
  },
};

async function repairAll({ manager }: Session, how: RepairOptions, total: number): Promise<RepairResult> {
  const progress = await showProgress("repairing", () => total);
  try {
    return await manager.repair({ ...how, onProgress: () => progress.advance() });
  } finally {
    progress.stop();
  }
}

async function print(session: Session, { steps, tasks }: RepairResult, isDryRun: boolean): Promise<void> {
  const { output, name } = session;
  await printSteps(session, steps, isDryRun);
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

/** `Move 2 damaged records to quarantine, renumber 1 task, remove 1 leftover` */
function changesText(changes: readonly RepairStep[]): string {
  const count = (action: RepairStep["action"]) => changes.filter((step) => step.action === action).length;
  const [moved, renumbered, removed] = [count("quarantined"), count("renumbered"), count("removed")];
  const parts = [
    ...(moved > 0 ? [`move ${counted(moved, "damaged record")} to quarantine`] : []),
    ...(renumbered > 0 ? [`renumber ${counted(renumbered, "task")}`] : []),
    ...(removed > 0 ? [`remove ${counted(removed, "leftover")}`] : []),
  ];
  const text = parts.length === 0 ? "change nothing" : parts.join(", ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
