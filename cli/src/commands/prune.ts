import { Option } from "@commander-js/extra-typings";
import type { CommandFile } from "../cli.js";
import { countArgument, durationArgument, sizeArgument } from "../measure-arguments.js";

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
      .option("--keep-within <age>", "keep all that are newer than this: 30d, 12h", durationArgument)
      .option("--keep-hourly <n>", "keep the newest of each hour, up to n (also daily, …)", countArgument(1))
      .addOption(new Option("--keep-daily <n>").argParser(countArgument(1)).hideHelp())
      .addOption(new Option("--keep-weekly <n>").argParser(countArgument(1)).hideHelp())
      .addOption(new Option("--keep-monthly <n>").argParser(countArgument(1)).hideHelp())
      .option("--time-zone <name>", "count hours and days in this time zone: Europe/Berlin")
      .option("--keep-stage <stage...>", "keep all of these stages")
      .option("--max-age <age>", "remove all that are older, even if a rule keeps them", durationArgument)
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
          const { pruneStorage } = await import("../prune/prune-storage.js");
          await pruneStorage(session, taskId, options);
        }),
      );
  },
};
