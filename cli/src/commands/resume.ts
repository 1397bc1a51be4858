import type { CommandFile } from "../cli.js";
import { itemPrinter, jsonOption, ndjsonOption } from "../json-array.js";
import { describedTasks, nameOf } from "../langgraph/find-tasks.js";
import { questionsText } from "../langgraph/standing.js";
import { LeaseReader, lapsedText, type RunTask, runningText } from "../leases.js";
import { printable } from "../printable.js";
import { statusCell, taskStatusCell } from "../status-cell.js";
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
      .addOption(jsonOption("task"))
      .addOption(ndjsonOption("task"))
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, errors, name } = session;
          const nowMs = Date.now();
          const json = itemPrinter(output, options);
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
          const leases = new LeaseReader(session);
          const leased = new Set<string>();
          const query = { order: "recent", status: INCOMPLETE, prefix, limit } as const;
          for await (const task of leases.of(describedTasks(session, query), limit)) {
            if (output.isClosed) break;
            found += 1;
            if (task.lease) leased.add(task.taskId);
            const why = whyStopped(task, nowMs);
            if (json) await json.add({ ...task, why });
            else {
              const status = taskStatusCell(task, output.colors);
              await table.add(nameOf(task), placeOf(task), agoText(task.newest.createdAt, nowMs), status, why);
            }
          }
          const left = output.isClosed ? 0 : (limit ?? Number.POSITIVE_INFINITY) - found;
          for (const task of await leases.starting(prefix, leased, left)) {
            found += 1;
            const why = `${runningText(task.lease)}, no checkpoint yet`;
            const { taskId, count, lease } = task;
            if (json) await json.add({ taskId, count, lease, why });
            else await table.add(task.name, "", "", statusCell("running", output.colors), why);
          }
          if (json) await json.end();
          else await table.end();
          if (found === 0 && !json)
            await errors.line(printable(`Nothing to resume in ${name}: every task is completed.`));
        }),
      );
  },
};

/** `Auto-save (unit-tests)` */
function placeOf({ newest: { label, stage, sequence }, thread }: RunTask): string {
  if (label === undefined) return stage ?? `@${sequence}`;
  // A thread's label is its step. Its stage (`loop`) says only how it came about.
  return stage === undefined || stage === label || thread ? label : `${label} (${stage})`;
}

function whyStopped({ newest: { status, error }, thread, lease, lapsed }: RunTask, nowMs: number): string {
  if (lease !== undefined) return runningText(lease);
  if (error !== undefined) return error.message;
  const questions = questionsText(thread?.interrupts);
  if (questions !== undefined) return `asks ${questions}`;
  if (thread !== undefined && thread.interrupts === undefined) return "what it waits for can't be read";
  if (lapsed !== undefined) return lapsedText(lapsed, nowMs);
  if (status === "running") return "no lease: it may be running, or has ended";
  return status === "paused" ? "paused" : "failed, without an error";
}
