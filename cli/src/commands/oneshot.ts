import { Option } from "@commander-js/extra-typings";
import { CheckpointCorruptError } from "waymark";
import type { OneshotCheckpoint, OneshotResult } from "waymark/oneshot";
import type { Cli, CommandFile } from "../cli.js";
import { whyPlain } from "../config-file.js";
import { ExitCode } from "../exit-code.js";
import { namingFlags } from "../flags.js";
import { PlainLines } from "../oneshot/plain-lines.js";
import { jsonText, printable } from "../printable.js";
import { statusCell } from "../status-cell.js";
import { TablePrinter } from "../table.js";
import { agoText, countArgument, counted, durationArgument } from "../words.js";

export const oneshot: CommandFile = {
  example: "waymark oneshot F01 --jobs 4 --resume",
  register(program, cli) {
    const command = program
      .command("oneshot")
      .summary("run a feature's plan")
      .description(
        "Runs a feature's workstreams in the plan's order, each after those that it depends on. The checkpoint is " +
          ".sdp/checkpoints/<feature>.json: after Ctrl-C, a failure or a kill, --resume runs what is not completed. " +
          "Success removes that file. It does not use --storage. `oneshot list` shows the features under way.",
      )
      .argument("<feature>")
      .option("--plan <file>", "YAML or JSON; default: .sdp/plans/<feature>.yaml, .yml or .json")
      .addOption(new Option("--resume", "continue from the feature's checkpoint").conflicts("restart"))
      .option("--restart", "start over, whatever the checkpoint says")
      .option("--jobs <n>", "run n at a time; default: 1", countArgument(1))
      .option("--max-age <time>", "refuse an older checkpoint; default: 7d", durationArgument)
      .option("--force", "resume from an older one, too")
      .action(async (feature, options) => {
        const { runOneshot } = await import("waymark/oneshot");
        const plain = await whyPlain("waymark oneshot");
        if (plain !== undefined) await cli.warn(plain);
        const view = cli.output.isTerminal
          ? new (await import("../oneshot/live-list.js")).LiveList(cli.output.colors)
          : new PlainLines(cli.output);
        // Warnings come before the run begins, so they don't break its list.
        const warn = (_details: object, message: string) => void cli.warn(message);
        let result: OneshotResult;
        try {
          result = await namingFlags(FLAGS, () =>
            runOneshot(feature, {
              plan: options.plan,
              resume: options.resume,
              restart: options.restart,
              jobs: options.jobs,
              maxAgeMs: options.maxAge,
              force: options.force,
              onEvent: (event) => view.show(event),
              logger: { debug() {}, info() {}, warn, error: warn },
            }),
          );
        } finally {
          await view.end();
        }
        await report(result);
      });

    command
      .command("list")
      .description("The features that have a checkpoint, and how far each of them is.")
      .option("--json", "for programs: the checkpoints, and those that can't be read")
      .action((options) => list(cli, options.json === true));

    async function report({ success, completed, failed, notStarted }: OneshotResult): Promise<void> {
      const line = (text: string) => cli.output.line(printable(text));
      const all = completed.length + failed.length + notStarted.length;
      const done = `Completed: ${completed.length} of ${counted(all, "workstream")}`;
      if (success) return line(`${done}.`);
      for (const { workstream, reason, outputTail } of failed) {
        await line(`${workstream} ${reason}${outputTail.length === 0 ? "." : "; its last lines:"}`);
        for (const text of outputTail) await line(`  ${text}`);
      }
      const rest = notStarted.length === 0 ? "" : ` Not started: ${notStarted.length}.`;
      await line(`${done}; failed: ${failed.length}.${rest} Fix it, then continue with --resume.`);
      cli.exitCode = ExitCode.failed;
    }
  },
};

/** Of features that are under way: success removes the checkpoint. */
async function list(cli: Cli, isJson: boolean): Promise<void> {
  const { CheckpointRepository } = await import("waymark/oneshot");
  const repository = new CheckpointRepository();
  const checkpoints: OneshotCheckpoint[] = [];
  const damaged: { feature: string; reason: string }[] = [];
  for (const feature of await repository.list()) {
    try {
      checkpoints.push(await repository.load(feature, { force: true }));
    } catch (error) {
      if (!(error instanceof CheckpointCorruptError)) throw error;
      damaged.push({ feature, reason: error.message });
      cli.exitCode = ExitCode.damaged;
    }
  }
  if (isJson) return cli.output.line(jsonText({ checkpoints, damaged }));
  await printFeatures(cli, checkpoints);
  for (const { reason } of damaged) await cli.warn(reason);
  if (checkpoints.length + damaged.length > 0) return;
  await cli.errors.line(printable(`No feature has a checkpoint in ${repository.checkpointDir}.`));
  cli.exitCode = ExitCode.notFound;
}

async function printFeatures({ output }: Cli, checkpoints: readonly OneshotCheckpoint[]): Promise<void> {
  const table = new TablePrinter(output, [
    { head: "FEATURE", flexible: true },
    { head: "STATUS" },
    { head: "COMPLETED", align: "right" },
    { head: "AT", flexible: true },
    { head: "SAVED" },
  ]);
  for (const { featureId, status, completedWs, currentWs, lastUpdate } of checkpoints) {
    const saved = agoText(lastUpdate.toISOString(), Date.now());
    await table.add(featureId, statusCell(status, output.colors), String(completedWs.length), currentWs, saved);
  }
  await table.end();
}

const FLAGS = {
  CHECKPOINT_CONFLICT: "--resume goes on from it, --restart begins anew",
  CHECKPOINT_CORRUPT: "--restart sets it aside and begins anew",
  CHECKPOINT_NOT_FOUND: "it is started without --resume",
  CHECKPOINT_STALE: "--force uses it, --max-age accepts more, --restart begins anew",
  PLAN_UNREADABLE: "--plan names it",
};
