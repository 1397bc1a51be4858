import { resolve } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import type { PrpTaskStatus } from "waymark/prp";
import type { ExecutionResult } from "waymark-runners/prp";
import type { Cli, CommandFile, GlobalOptions } from "../cli.js";
import { whyPlain } from "../config-file.js";
import { JSON_HELP, JsonEvents } from "../event-lines.js";
import { ExitCode } from "../exit-code.js";
import { namingFlags } from "../flags.js";
import { countArgument, durationArgument } from "../measure-arguments.js";
import { runPausably } from "../pausable-run.js";
import { jsonText, printable } from "../printable.js";
import { statusCell } from "../status-cell.js";
import { printTable } from "../table.js";
import { agoText, counted } from "../words.js";

export const prp: CommandFile = {
  example: "waymark prp run PRP.md --coder './agent'",
  group: "plans",
  noStorage: true,
  register(program, cli) {
    const command = program
      .command("prp")
      .summary("check PRPs, run them")
      .description(
        "Shows what a PRP would run, runs it with a coder and its validation gates, and shows the state of a session's PRPs.",
      );
    registerCheck(command, cli);
    registerRun(command, cli);
    registerStatus(command, cli);
  },
};

type PrpCommand = Command<[], Record<never, never>, GlobalOptions>;

const SKIP = "levels to leave out: 2, or 2,3, or 1-2 for the second of level 1";
const ONLY = "levels to run, without the others";
const SECTION = "the heading above the gates, if it doesn't say validation";

function registerCheck(command: PrpCommand, cli: Cli): void {
  command
    .command("check")
    .summary("what PRPs would run, with warnings")
    .description(
      "Shows what PRPs would run, and runs nothing: each gate with its statements or why it is skipped, and warnings with " +
        "their lines. For a folder, it sums up the PRPs in the folder and below, without hidden folders and node_modules. " +
        "The exit code is 1 if a PRP can't be run.",
    )
    .argument("<prp...>", "Markdown or JSON; or folders")
    .option("--section <heading>", SECTION)
    .option("--skip <levels>", SKIP, levelsArgument)
    .option("--only <levels>", ONLY, levelsArgument)
    .option("--json", "for programs: each PRP with its gates, and the totals")
    .action(async (paths, options) => {
      const { checkPrps } = await import("../prp/check-prps.js");
      await checkPrps(cli, paths, options);
    });
}

function registerRun(command: PrpCommand, cli: Cli): void {
  command
    .command("run")
    .summary("run a PRP, or resume it")
    .description(
      "Runs a PRP: the coder, then the validation gates; if a gate fails, the coder fixes it. Checkpoints are saved in the " +
        "session's folder. After Ctrl-C, a failure or a kill, --resume continues and reuses the coder's saved replies. " +
        "Coder and gates run in the current folder, and their output is shown as it comes. First it shows the warnings of " +
        "waymark prp check; a PRP that can't be run is refused before the coder is asked.",
    )
    .argument("<prp>", "Markdown with a Validation Loop, or JSON")
    .requiredOption("--coder <cmd>", "claude, codex, or a command for sh that reads its prompt on stdin")
    .option("--session <dir>", "where the checkpoints are, below artifacts/", ".")
    .addOption(new Option("--resume", "continue from the PRP's checkpoint").conflicts("restart"))
    .option("--restart", "ignore the checkpoint and start over")
    .option("--task <id>", "default: the PRP's own id, else its path from --session")
    .option("--section <heading>", SECTION)
    .option("--skip <levels>", SKIP, levelsArgument)
    .option("--only <levels>", ONLY, levelsArgument)
    .option("--fixes <n>", "how many times the coder may try to fix; default: 2", countArgument(0))
    .option("--gate-timeout <time>", "for each gate; default: 30m", durationArgument)
    .option("--coder-timeout <time>", "default: none", durationArgument)
    .option("--json", 'lines of JSON: events, then {"type":"ended",…}')
    .addHelpText("after", JSON_HELP)
    .action(async (path, options) => {
      const { PrpExecutor } = await import("waymark-runners/prp");
      const { warnOfPrp } = await import("../prp/check-prps.js");
      const { task: taskId, section, skip, only, session: sessionPath } = options;
      const plain = whyPlain("waymark prp run", await cli.config());
      if (plain !== undefined) await cli.warn(plain);
      const view = options.json ? new JsonEvents(cli.output) : undefined;
      const executor = new PrpExecutor(sessionPath, {
        coder: options.coder,
        cwd: ".",
        maxFixAttempts: options.fixes,
        gateTimeoutMs: options.gateTimeout,
        coderTimeoutMs: options.coderTimeout,
        output: view && ((text, source) => view.show({ type: "output", ...source, text })),
        logger: view?.logger ?? cli.logger,
      });
      try {
        await runPausably(cli, {
          view,
          work: (signal) =>
            namingFlags(FLAGS, async () => {
              await warnOfPrp(cli, view, path, { taskId, section, skip, only, sessionPath });
              return executor.execute(path, {
                signal,
                taskId,
                section,
                skip,
                only,
                restart: options.restart,
                // Without either flag, unfinished work is not continued.
                resume: options.restart ? undefined : options.resume === true,
              });
            }),
          report: (result) => report(cli, sessionPath, result),
        });
      } finally {
        await executor.close();
      }
    });
}

function levelsArgument(text: string): string[] {
  return text.split(",").map((level) => level.trim());
}

async function report({ output }: Cli, session: string, result: ExecutionResult): Promise<void> {
  const { success, fixAttempts, error, resumedFrom } = result;
  if (resumedFrom?.stage === "complete") {
    const { prpStatus } = await import("waymark/prp");
    const { tasks } = await prpStatus(session);
    // If a gate was changed or added and has run since, the task's newest checkpoint isn't `resumedFrom`.
    const finished = tasks.find(({ checkpointId }) => checkpointId === resumedFrom.id);
    if (finished !== undefined) {
      const when = agoText(finished.savedAt.toISOString(), Date.now());
      return output.line(`Complete already (${when}). Nothing was run; --restart runs it again.`);
    }
  }
  if (success) return output.line(`Complete, after ${counted(fixAttempts, "fix attempt")}.`);
  await output.line(printable(`Failed: ${error}. Fix it, then continue with --resume.`));
}

const FLAGS = {
  CHECKPOINT_CONFLICT: "--resume, --restart",
  CHECKPOINT_CORRUPT: "--restart sets the unreadable file aside and begins anew",
  CHECKPOINT_NOT_FOUND: "without --resume",
};

function registerStatus(command: PrpCommand, cli: Cli): void {
  command
    .command("status")
    .summary("where a session's PRPs stand")
    .description("The state of each PRP of a session, the most recent first.")
    .option("--session <dir>", "the session's folder", ".")
    .option("--json", "for programs: the tasks, and what is damaged")
    .action(async (options) => {
      const { prpStatus } = await import("waymark/prp");
      const { tasks, damaged } = await prpStatus(options.session);
      if (damaged.length > 0) cli.exitCode = ExitCode.damaged;
      if (options.json) {
        await cli.output.line(jsonText({ tasks, damaged }));
        return;
      }
      const nowMs = Date.now();
      await printTable(cli.output, tasks, [
        { head: "TASK", flexible: true, cell: ({ taskId }) => taskId },
        { head: "STATUS", cell: ({ status, runner }) => statusCell(status, cli.output.colors, runner) },
        { head: "WHERE", flexible: true, cell: ({ label }) => label },
        { head: "WHEN", cell: ({ savedAt }) => agoText(savedAt.toISOString(), nowMs) },
        { head: "WHY", flexible: true, cell: explainEnd },
      ]);
      if (tasks.length === 0 && damaged.length === 0) {
        await cli.errors.line(printable(`No PRP has been run in ${resolve(options.session)}.`));
        cli.exitCode = ExitCode.notFound;
      }
      for (const { location, reason } of damaged) {
        await cli.errors.line(printable(`warning: ${location} can't be read: ${reason}`));
      }
    });
}

function explainEnd({ error, runner }: PrpTaskStatus): string {
  if (error !== undefined) return error.message;
  return runner === "died" ? "its run was killed; continue with --resume" : "";
}
