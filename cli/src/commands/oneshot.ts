import { relative } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import type { CheckedWorkstream, OneshotResult, WorkstreamFolder } from "waymark-runners/oneshot";
import type { Cli, CommandFile, GlobalOptions } from "../cli.js";
import { whyPlain } from "../config-file.js";
import { EventLines, JSON_HELP, JsonEvents } from "../event-lines.js";
import { namingFlags } from "../flags.js";
import { countArgument, durationArgument } from "../measure-arguments.js";
import { plainLine } from "../oneshot/plain-line.js";
import { runPausably } from "../pausable-run.js";
import { printable } from "../printable.js";
import { counted } from "../words.js";

const DIR = "the checkpoints' folder; default: .sdp/checkpoints";

export const oneshot: CommandFile = {
  example: "waymark oneshot F01 --jobs 4 --resume",
  group: "plans",
  noStorage: true,
  register(program, cli) {
    const command = program
      .command("oneshot")
      .summary("run a feature's plan")
      .description("Runs a plan's workstreams; --resume continues after Ctrl-C, failure or kill.")
      .usage("[run] <feature> [options]")
      // With a `help` subcommand, no feature could be named help.
      .helpCommand(false);
    const run = registerRun(command, cli);
    command
      .command("status")
      .description("what is done, and how to continue; default: list")
      .argument("[feature]")
      .option("--dir <folder>", DIR)
      .option("--json", "for programs: the checkpoint, and the command that continues")
      .action(async (feature, { json = false, dir }) => {
        const { printFeature, printFeatures } = await import("../oneshot/features.js");
        await (feature === undefined ? printFeatures(cli, { json, dir }) : printFeature(cli, feature, { json, dir }));
      });
    command
      .command("list")
      .description("the features under way")
      .option("--dir <folder>", DIR)
      .option("--json", "for programs: the checkpoints, those that can't be read, and other programs' files")
      .action(async ({ json = false, dir }) =>
        (await import("../oneshot/features.js")).printFeatures(cli, { json, dir }),
      );
    // Users usually omit `run`, so its argument is completed here too, and `waymark oneshot --help` shows its options.
    command.argument("[feature]");
    command.configureHelp({
      // Omits --help, which the user has just used, so that the help fits a screen.
      visibleOptions: () =>
        run
          .createHelp()
          .visibleOptions(run)
          .filter(({ long }) => long !== "--help"),
    });
  },
};

function registerRun(oneshot: Command<[], Record<never, never>, GlobalOptions>, cli: Cli) {
  return oneshot
    .command("run", { isDefault: true })
    .summary("like waymark oneshot <feature>")
    .description(
      "The same as waymark oneshot <feature>, whose help shows more. `run` is needed only for a feature that is named run, " +
        "status or list.",
    )
    .addHelpText("after", JSON_HELP)
    .argument("[feature]")
    .option("--plan <file>", "default: .sdp/plans/<feature>.yaml, .yml or .json")
    .addOption(new Option("--workstreams <folder>", "run the feature's workstream files (Markdown)").conflicts("plan"))
    .option("--command <template>", "run this for each: '… $WS …' or '… $WS_FILE …'")
    .addOption(new Option("--check", "only say what would run").conflicts(["resume", "restart", "json"]))
    .addOption(new Option("--resume", "continue from the feature's checkpoint").conflicts("restart"))
    .option("--restart", "ignore the checkpoint and start over")
    .option("--jobs <n>", "run n at a time; default: 1", countArgument(1))
    .option("--max-age <time>", "refuse an older checkpoint; default: 7d", durationArgument)
    .option("--force", "also resume from an older checkpoint")
    .option("--dir <folder>", DIR)
    .option("--json", 'lines of JSON: events, then {"type":"ended",…}')
    .action(async (feature, options, self) => {
      const { workstreams, command } = options;
      if ((workstreams === undefined) !== (command === undefined)) {
        return self.error("error: options '--workstreams <folder>' and '--command <template>' need each other");
      }
      const folder = workstreams === undefined || command === undefined ? undefined : { workstreams, command };
      const plan = folder ?? options.plan;
      if (options.check && (feature ?? options.plan) !== undefined) return check(cli, plan, feature);
      if (feature === undefined) return self.error("error: missing required argument 'feature'");
      const { runOneshot } = await import("waymark-runners/oneshot");
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
              plan,
              checkpointDir: options.dir,
              resume: options.resume,
              restart: options.restart,
              jobs: options.jobs,
              maxAgeMs: options.maxAge,
              force: options.force,
              signal,
              onEvent: (event) => view.show(event),
              // The logger's entries come before the run begins, so they don't break the list.
              logger: view instanceof JsonEvents ? view.logger : cli.logger,
            }),
          ),
        report: (result) => report(cli, result),
      });
    });
}

/** Prints the workstreams of a plan in the order of work. If no plan is named, the feature is needed. */
async function check(cli: Cli, plan: WorkstreamFolder | string | undefined, feature = ""): Promise<void> {
  const { loadPlan } = await import("waymark-runners/oneshot");
  const { file, folder, workstreams } = await namingFlags(FLAGS, () =>
    loadPlan({ featureId: feature, baseDir: process.cwd(), plan }),
  );
  const line = (text: string) => cli.output.line(printable(text));
  const done = workstreams.filter(({ isCompleted }) => isCompleted);
  const where = typeof plan === "string" ? plan : (file ?? folder?.workstreams);
  const completed = done.length === 0 ? "" : `, ${done.length} completed`;
  await line(`${where}: ${counted(workstreams.length, "workstream")}${completed}, nothing is wrong`);
  for (const { id, file } of done) await line(`  completed  ${id}  ${shownFile(file)}`);
  for (const [index, { id, command, dependsOn, file }] of inOrder(workstreams).entries()) {
    const what = file === undefined ? (command.trimEnd().split("\n")[0] ?? "") : shownFile(file);
    const after = dependsOn.length === 0 ? "" : `  (after ${dependsOn.join(", ")})`;
    await line(`  ${`${index + 1}`.padStart(9)}  ${id}  ${what}${after}`);
  }
  const [command] = workstreams.filter(({ file }) => file !== undefined).map(({ command }) => command);
  if (command !== undefined) await line(`Each runs: ${command}`);
}

/** Sorts workstreams as a single job runs them: next is always the first one that waits for no other. */
function inOrder(workstreams: readonly CheckedWorkstream[]): CheckedWorkstream[] {
  const done = new Set(workstreams.filter(({ isCompleted }) => isCompleted).map(({ id }) => id));
  const order: CheckedWorkstream[] = [];
  const isNext = ({ id, dependsOn }: CheckedWorkstream) => !done.has(id) && dependsOn.every((other) => done.has(other));
  for (let next = workstreams.find(isNext); next !== undefined; next = workstreams.find(isNext)) {
    order.push(next);
    done.add(next.id);
  }
  return order;
}

function shownFile(file: string | undefined): string {
  return file === undefined ? "" : relative(process.cwd(), file);
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
  PLAN_UNREADABLE: "--plan, --workstreams",
  UNSUPPORTED_FORMAT: "--dir",
};
