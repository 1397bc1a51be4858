import type { CommandFile } from "../cli.js";
import { durationArgument } from "../measure-arguments.js";
import { statusOption } from "./tasks.js";

export const langgraph: CommandFile = {
  example: "waymark langgraph prune --idle 30d",
  group: "set up",
  register(program, cli) {
    program
      .command("langgraph")
      .summary("remove idle threads")
      .description("Manages the LangGraph threads that WaymarkSaver keeps.")
      .command("prune")
      .description(
        "Removes whole threads that have had no writes for a time, with their subgraphs and pending writes. It shows the " +
          "threads and asks first. A thread stays if it is written to meanwhile, or run under its lease.",
      )
      .option("--idle <age>", "threads without a write for 30d, 12h", durationArgument)
      .addOption(statusOption("only threads of this status"))
      .option("--prefix <text>", "only threads whose id begins with this")
      .option("--dry-run", "show the threads, remove nothing")
      .option("--all-rows", "show the whole of a long plan on a terminal")
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
