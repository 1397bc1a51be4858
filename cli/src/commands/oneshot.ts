import { type Command, Option } from "@commander-js/extra-typings";
import type { OneshotResult } from "waymark/oneshot";
import type { Cli, CommandFile, GlobalOptions } from "../cli.js";
import { whyPlain } from "../config-file.js";
import { EventLines, JSON_HELP, JsonEvents } from "../event-lines.js";
import { namingFlags } from "../flags.js";
import { plainLine } from "../oneshot/plain-line.js";
import { runPausably } from "../pausable-run.js";
import { printable } from "../printable.js";
import { countArgument, counted, durationArgument } from "../words.js";

export const oneshot: CommandFile = {
  example: "waymark oneshot F01 --jobs 4 --resume",
  noStorage: true,
  register(program, cli) {
    const command = program
      .command("oneshot")
      .summary("run a feature's plan")
      .description(
        "Runs the workstreams of a plan, each after those that it depends on. Until all are completed, the checkpoint is " +
          ".sdp/checkpoints/<feature>.json: after Ctrl-C, a failure or a kill, --resume runs the rest.",
      )
      .usage("[run] <feature> [options]")
      // One more subcommand would be one more name that a feature can't have.
      .helpCommand(false);
    const run = registerRun(command, cli);
    command
      .command("status")
      .description("what is done, and how to continue; default: list")
      .argument("[feature]")
      .option("--json", "for programs: the checkpoint, and the command that continues")
      .action(async (feature, { json = false }) => {
        const { printFeature, printFeatures } = await import("../oneshot/features.js");
        await (feature === undefined ? printFeatures(cli, json) : printFeature(cli, feature, json));
      });
    command
      .command("list")
      .description("the features under way")
      .option("--json", "for programs: the checkpoints, and those that can't be read")
      .action(async ({ json = false }) => (await import("../oneshot/features.js")).printFeatures(cli, json));
    // Mostly `run` is left out, so its argument is completed here too, and its options are in the help of `waymark oneshot`.
    command.argument("[feature]");
    command.configureHelp({ visibleOptions: () => run.createHelp().visibleOptions(run) });
  },
};

function registerRun(oneshot: Command<[], Record<never, never>, GlobalOptions>, cli: Cli) {
  return oneshot
    .command("run", { isDefault: true })
    .summary("the same; for a feature named run, status or list")
    .description(
      "The same as waymark oneshot <feature>, whose help says more. `run` is needed only for a feature that is named run, " +
        "status or list.",
    )
    .addHelpText("after", JSON_HELP)
    .argument("[feature]")
    .option("--plan <file>", "default: .sdp/plans/<feature>.yaml, .yml or .json")
    .addOption(new Option("--check", "only say whether the plan is right").conflicts(["resume", "restart", "json"]))
    .addOption(new Option("--resume", "continue from the feature's checkpoint").conflicts("restart"))
    .option("--restart", "start over, whatever the checkpoint says")
    .option("--jobs <n>", "run n at a time; default: 1", countArgument(1))
    .option("--max-age <time>", "refuse an older checkpoint; default: 7d", durationArgument)
    .option("--force", "resume from an older one, too")
    .option("--json", 'lines of JSON: events, then {"type":"ended",…}')
    .action(async (feature, options, self) => {
      if (options.check && (feature ?? options.plan) !== undefined) return check(cli, options.plan, feature);
      if (feature === undefined) return self.error("error: missing required argument 'feature'");
      const { runOneshot } = await import("waymark/oneshot");
      const plain = whyPlain("waymark oneshot", await cli.config());
      if (plain !== undefined) await cli.warn(plain);
      const view = options.json
        ? new JsonEvents(cli.output)
        : cli.output.isTerminal
          ? new (await import("../oneshot/terminal-view.js")).TerminalView(cli.output)
          : new EventLines(cli.output, plainLine);
      await runPausably(cli, {
        view,
        work: (signal) =>
          namingFlags(FLAGS, () =>
            runOneshot(feature, {
              plan: options.plan,
              resume: options.resume,
              restart: options.restart,
              jobs: options.jobs,
              maxAgeMs: options.maxAge,
              force: options.force,
              signal,
              onEvent: (event) => view.show(event),
              // What it logs comes before the run begins, so it doesn't break its list.
              logger: view instanceof JsonEvents ? view.logger : cli.logger,
            }),
          ),
        report: (result) => report(cli, result),
      });
    });
}

/** Says that a plan can be run. The feature is needed only if no plan is named. */
async function check({ output }: Cli, plan: string | undefined, feature = ""): Promise<void> {
  const { loadPlan } = await import("waymark/oneshot");
  const { file, workstreams } = await namingFlags(FLAGS, () =>
    loadPlan({ featureId: feature, baseDir: process.cwd(), plan }),
  );
  const all = counted(workstreams.length, "workstream");
  await output.line(printable(`${plan ?? file}: ${all}, nothing is wrong`));
}

async function report({ output }: Cli, { success, completed, failed, notStarted }: OneshotResult): Promise<void> {
  const line = (text: string) => output.line(printable(text));
  const all = completed.length + failed.length + notStarted.length;
  const done = `Completed: ${completed.length} of ${counted(all, "workstream")}`;
  if (success) return line(`${done}.`);
  for (const { workstream, reason, outputTail } of failed) {
    await line(`${workstream} ${reason}${outputTail.length === 0 ? "." : "; its last lines:"}`);
    for (const text of outputTail) await line(`  ${text}`);
  }
  const rest = notStarted.length === 0 ? "" : ` Not started: ${notStarted.length}.`;
  await line(`${done}; failed: ${failed.length}.${rest} Fix it, then continue with --resume.`);
}

const FLAGS = {
  CHECKPOINT_CONFLICT: "--resume, --restart",
  CHECKPOINT_CORRUPT: "--restart",
  CHECKPOINT_NOT_FOUND: "without --resume",
  CHECKPOINT_STALE: "--force, --max-age, --restart",
  PLAN_UNREADABLE: "--plan",
};
