import { type Command, Option } from "@commander-js/extra-typings";
import type { Cli, CommandFile, GlobalOptions } from "../cli.js";
import { JSON_HELP, JsonEvents } from "../event-lines.js";
import { amountArgument, countArgument, durationArgument } from "../measure-arguments.js";
import { runPausably } from "../pausable-run.js";

export const plan: CommandFile = {
  example: 'waymark plan run tasks.md --coder claude --gate "npm test"',
  group: "plans",
  register(program, cli) {
    const command = program
      .command("plan")
      .summary("check a plan's items, run them")
      .description(
        "Runs the items of a plan with a coder and gates: check-box lists of spec-kit, Kiro, OpenSpec, Agent OS and BMAD, " +
          "IMPLEMENTATION_PLAN.md, prd.json, and Taskmaster's tasks.json.",
      );
    registerCheck(command, cli);
    registerRun(command, cli);
  },
};

type PlanCommand = Command<[], Record<never, never>, GlobalOptions>;

const collect = (value: string, before: readonly string[] | undefined) => [...(before ?? []), value];
const gate = () =>
  new Option("--gate <cmd>", "must succeed after each item; may be given several times").argParser(collect);
const gates = () =>
  new Option("--gates <which>", "auto: package.json's typecheck, lint and test; none: items may have no gate").choices([
    "auto",
    "none",
  ] as const);
const item = () =>
  new Option("--item <id>", "only this item, even if it is optional or deferred; may be given several times").argParser(
    collect,
  );

function registerCheck(command: PlanCommand, cli: Cli): void {
  command
    .command("check")
    .summary("what would run, item by item")
    .description(
      "Shows the items of a plan in the order of work, with their gates, and runs nothing. For a folder, the plans in it and " +
        "below. The exit code is 1 if a plan can't be run.",
    )
    .argument("<plan...>", "files; or folders")
    .addOption(gate())
    .addOption(gates())
    .addOption(item())
    .option("--tag <name>", "which of Taskmaster's lists; default: master")
    .option("--json", "for programs: each plan with its items")
    .action(async (paths, options) => {
      const { checkPlans } = await import("../plan/check-plans.js");
      await checkPlans(cli, paths, options);
    });
}

function registerRun(command: PlanCommand, cli: Cli): void {
  command
    .command("run")
    .summary("run a plan's open items, or resume")
    .description(
      "Runs a plan's open items one after the other: the coder, the gates, fixes until the gates pass, then the item's done-mark. " +
        "After Ctrl-C, a failure or a kill, the same command continues. The run is recorded in --storage, by default " +
        ".waymark/checkpoints.db: waymark resume, show and ui show it.",
    )
    .argument("<plan>", "a file; or a folder with one plan")
    .requiredOption("--coder <cmd>", "claude, codex, or a command for sh that reads its prompt on stdin")
    .addOption(gate())
    .addOption(gates())
    .addOption(item())
    .option("--tag <name>", "which of Taskmaster's lists; default: master")
    .option("--fixes <n>", "how many times the coder may try again, for each item; default: 2", countArgument(0))
    .option("--commit", "one commit for each item; refused while other files are changed")
    .option("--allow-dirty", "with --commit: the first item's commit may include existing changes")
    .option("--max-items <n>", "pause after n items", countArgument(1))
    .option("--jobs <n>", "n parallel items at once, with --worktrees; default: 1", countArgument(1))
    .option("--worktrees", "a git worktree for each parallel item; needs --commit")
    .option("--max-usd <n>", "pause once the coder has reported this cost", amountArgument)
    .option("--max-tokens <n>", "pause once the coder has used this many tokens", countArgument(1))
    .option("--max-minutes <n>", "pause once the coder has worked this many minutes", amountArgument)
    .option("--gate-timeout <time>", "for each gate; default: 30m", durationArgument)
    .option("--coder-timeout <time>", "default: none", durationArgument)
    .option("--json", 'lines of JSON: events, then {"type":"ended",…}')
    .addHelpText("after", JSON_HELP)
    .action(async (path, options) => {
      const { findPlan, reportRun, resumeArguments, runInStore } = await import("../plan/run-plan.js");
      const view = options.json ? new JsonEvents(cli.output) : undefined;
      const file = await findPlan(path, options.tag);
      await runPausably(cli, {
        view,
        resume: resumeArguments(cli.args),
        work: (signal) => runInStore(cli, file, { ...options, signal, view }),
        report: (result) => reportRun(cli, result),
      });
    });
}
