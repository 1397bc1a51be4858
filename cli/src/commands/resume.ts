import type { CommandFile } from "../cli.js";
import { JsonArrayPrinter } from "../json-array.js";
import { describedTasks, type FoundTask, nameOf } from "../langgraph/find-tasks.js";
import { questionsText } from "../langgraph/standing.js";
import { shownStatus } from "../langgraph/thread-state.js";
import { printable } from "../printable.js";
import { statusCell } from "../status-cell.js";
import { SCREEN_ROWS, TablePrinter } from "../table.js";
import { agoText, countArgument } from "../words.js";
import { INCOMPLETE } from "./tasks.js";

export const resume: CommandFile = {
  example: "waymark resume --limit 10",
  register(program, cli) {
    program
      .command("resume")
      .summary("what isn't done yet")
      .description("The incomplete tasks, the most recent first: at which stage each stopped, when, and why.")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--limit <n>", "at most n; without it a terminal gets 20", countArgument(1))
      .option("--json", "for programs: a JSON array, one task per line")
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, errors, name } = session;
          const nowMs = Date.now();
          const json = new JsonArrayPrinter(output);
          const { prefix, limit } = options;
          const columns = [
            { head: "TASK", flexible: true },
            { head: "STOPPED AT", flexible: true },
            { head: "WHEN" },
            { head: "STATUS" },
            { head: "WHY", flexible: true },
          ] as const;
          const table = new TablePrinter(output, columns, limit ?? SCREEN_ROWS);
          let found = 0;
          for await (const task of describedTasks(session, { order: "recent", status: INCOMPLETE, prefix, limit })) {
            if (output.isClosed) break;
            found += 1;
            const { newest, thread } = task;
            const why = whyStopped(task);
            if (options.json) await json.add({ ...task, why });
            else {
              const stoppedAt = newest.label ?? newest.stage ?? `@${newest.sequence}`;
              const status = statusCell(shownStatus(newest, thread ? thread.interrupts : []), output.colors);
              await table.add(nameOf(task), stoppedAt, agoText(newest.createdAt, nowMs), status, why);
            }
            if (found === limit) break;
          }
          if (options.json) await json.end();
          else await table.end();
          if (found === 0 && !options.json)
            await errors.line(printable(`Nothing to resume in ${name}: every task is completed.`));
        }),
      );
  },
};

function whyStopped({ newest: { status, error }, thread }: FoundTask): string {
  if (error !== undefined) return error.message;
  const questions = questionsText(thread?.interrupts);
  if (questions !== undefined) return `asks ${questions}`;
  if (thread !== undefined && thread.interrupts === undefined) return "what it waits for can't be read";
  if (status === "running") return "still running, or ended without a word";
  return status === "paused" ? "paused" : "failed, without an error";
}
