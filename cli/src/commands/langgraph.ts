import { Option } from "@commander-js/extra-typings";
import { type StorageLocation, storageLocation } from "waymark/adapters";
import type { CommandFile } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { counted, durationArgument } from "../words.js";

export const langgraph: CommandFile = {
  example: "waymark langgraph import --from sqlite:a.db",
  isSetUp: true,
  register(program, cli) {
    const command = program
      .command("langgraph")
      .summary("import its threads, remove idle ones")
      .description("Looks after the threads of LangGraph that WaymarkSaver keeps.");
    command
      .command("prune")
      .description(
        "Removes whole threads that nobody has written to for a time, with their subgraphs and pending writes. It shows them, " +
          "asks, and removes each only as it was shown: one that somebody writes to meanwhile, or runs under its lease, stays.",
      )
      .option("--idle <age>", "threads without a write for 30d, 12h", durationArgument)
      .addOption(
        new Option("--status <status>", "only threads that are").choices([
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
      .option("--plan-in <file>", "remove exactly those threads; one that has changed stays, with code 6")
      .option("--yes", "don't ask")
      .option("--json", "for programs: the threads, or what was removed")
      .action((options) =>
        cli.withStore(async (session) => {
          const { pruneThreads } = await import("../langgraph/prune-threads.js");
          await pruneThreads(session, options);
        }),
      );
    command
      .command("import")
      .description(
        "Stores the threads of a SqliteSaver or a PostgresSaver as WaymarkSaver would have, under their own ids, then " +
          "reads both and compares them. The source is only read. Safe to repeat: what is there stays, and after a kill " +
          "it continues from there. Exits with 1 if a checkpoint isn't identical.",
      )
      .requiredOption("--from <url>", "sqlite:FILE or postgres://…?schema=NAME (default: public)")
      .option("--to <url>", "default: the storage of --storage, WAYMARK_STORAGE or the configuration")
      .option("--json", "for programs: the counts, and what differs")
      .action(({ from, to, json }) =>
        cli.withStore(
          async ({ storage, config, output, damage, place, name }) => {
            const location = storageLocation(from);
            if (place !== undefined && isSame(location, place)) {
              const what = `${name} can't be both: each has tables of its own there`;
              throw new CommandError(ExitCode.usage, `${what}. Name another storage with --to. Nothing was changed.`);
            }
            const { importThreads } = await import("../langgraph/import-threads.js");
            const source = await openSource(location);
            try {
              const { transforms } = await config();
              const result = await importThreads(source, { storage, transforms }, (checkpoints) =>
                showProgress("importing", () => checkpoints),
              );
              const { threads, checkpoints, imported, identical, different } = result;
              if (json) await output.line(jsonText(result));
              else {
                const what = `${counted(imported, "checkpoint")} of ${counted(threads, "thread")}`;
                await output.line(printable(`Imported ${what} to ${name}; ${checkpoints - imported} there already.`));
                await output.line(output.colors.bold(`${identical} of ${checkpoints} identical`));
              }
              for (const { threadId, namespace, id, reason } of different.slice(0, SHOWN)) {
                const of = namespace === "" ? threadId : `${threadId}, subgraph ${namespace}`;
                await damage.warn(`checkpoint ${id} of thread ${of}: ${reason}`);
              }
              if (different.length === 0) return;
              throw new CommandError(
                ExitCode.failed,
                `${counted(different.length, "checkpoint")} not identical${different.length > SHOWN ? "; --json lists all" : ""}. ` +
                  "The source is as it was. Delete such a thread in the target to import it anew, if nothing has continued it there.",
              );
            } finally {
              await source.close();
            }
          },
          "write",
          to,
        ),
      );
  },
};

const SHOWN = 5;

function isSame(source: StorageLocation, target: StorageLocation): boolean {
  if (source.scheme !== "postgres" || target.scheme !== "postgres") {
    return "path" in source && "path" in target && source.path === target.path;
  }
  return source.url === target.url && (source.schema ?? "public") === (target.schema ?? "waymark");
}

async function openSource(location: StorageLocation) {
  if (location.scheme === "postgres") {
    const { postgresSource } = await import("../langgraph/postgres-source.js");
    return postgresSource(location);
  }
  if (location.scheme === "sqlite") {
    const { sqliteSource } = await import("../langgraph/sqlite-source.js");
    return sqliteSource(location.path);
  }
  throw new CommandError(ExitCode.usage, "LangGraph's savers write databases: --from is sqlite:FILE or postgres://….");
}
