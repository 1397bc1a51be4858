import { Option } from "@commander-js/extra-typings";
import type { CommandFile } from "../cli.js";
import { durationArgument } from "../words.js";

export const langgraph: CommandFile = {
  example: "waymark langgraph prune --idle 30d",
  isSetUp: true,
  register(program, cli) {
    const command = program
      .command("langgraph")
      .summary("remove idle threads")
      .description("Looks after the threads of LangGraph that WaymarkSaver keeps.");
    command
      .command("prune")
      .description(
        "Removes whole threads that nobody has written to for a time, with their subgraphs and pending writes. It shows the " +
          "threads and asks first. A thread stays if somebody writes to it meanwhile, or runs it under its lease.",
      )
      .option("--idle <age>", "threads without a write for 30d, 12h", durationArgument)
      .addOption(
        new Option("--status <status>", "only threads of this status").choices([
          "running",
          "paused",
          "completed",
          "failed",
        ] as const),
      )
      .option("--prefix <text>", "only threads whose id begins with this")
      .option("--dry-run", "show the threads, remove nothing")
      .option("--plan-out <file>", "write the plan to a file, remove nothing")
      .option("--force", "let --plan-out replace a file")
      .option("--all-rows", "show the whole of a long plan on a terminal")
      .option("--plan-in <file>", "remove that plan's threads; exit with 6 if a thread has changed, which stays")
      .option("--yes", "don't ask")
      .option("--json", "for programs: the threads, or what was removed")
      .action((options) =>
        cli.withStore(async (session) => {
          const { pruneThreads } = await import("../langgraph/prune-threads.js");
          await pruneThreads(session, options);
        }),
      );
  },
};
