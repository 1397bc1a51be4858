import type { CommandFile, Session } from "../cli.js";
import { jsonOption, jsonPrinter, ndjsonOption, printItems } from "../items.js";
import { describeTask } from "../langgraph/find-tasks.js";
import { countArgument } from "../measure-arguments.js";
import { printable } from "../printable.js";
import { type IncompleteTask, listIncomplete } from "../queries/incomplete.js";
import { whereText } from "../run-steps.js";
import { statusCell } from "../status-cell.js";
import { type Column, SCREEN_ROWS, TablePrinter } from "../table.js";
import { Answers, canRetry } from "../waits.js";
import { whenColumn, whyText } from "./tasks.js";

export const resume: CommandFile = {
  example: "waymark resume --limit 10",
  register(program, cli) {
    program
      .command("resume")
      .summary("list what can continue")
      .description("The tasks that can continue, the most recent first: at which stage each stopped, when, and why.")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--limit <n>", "at most n; default: 20 on a terminal, else all", countArgument(1))
      .addOption(jsonOption("task"))
      .addOption(ndjsonOption("task"))
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, errors, name } = session;
          const { prefix, limit } = options;
          const json = jsonPrinter(output, options);
          const table = new TablePrinter(output, makeColumns(session), limit ?? SCREEN_ROWS);
          const answers = new Answers(session);
          let hasFailed = false;
          async function* findTasks() {
            for await (const task of listIncomplete(session, { prefix, limit })) {
              if ("newest" in task && canRetry(task.newest)) hasFailed = true;
              yield task;
            }
          }
          const found = answers.from(findTasks());
          const count = await printItems(output, found, json ?? table);
          if (!json) await answers.print();
          if (!json && hasFailed) await errors.line('Workers take a failed run again after "waymark retry TASK".');
          if (count === 0 && !json) {
            await errors.line(printable(`Nothing to resume in ${name}: no task can continue.`));
          }
        }),
      );
  },
};

function makeColumns({ output: { colors }, damage }: Session): readonly Column<IncompleteTask>[] {
  const nowMs = Date.now();
  return [
    { head: "TASK", isWhole: true, cell: describeTask },
    { head: "STOPPED AT", flexible: true, cell: formatPosition },
    whenColumn(nowMs),
    {
      head: "STATUS",
      cell: ({ taskId, status }) => statusCell(damage.of(taskId).length > 0 ? "damaged" : status, colors),
    },
    { head: "WHY", isBelow: true, cell: (task) => whyText(task, damage, nowMs) },
  ];
}

/** `Auto-save (unit-tests)` */
function formatPosition(task: IncompleteTask): string {
  if (!("newest" in task)) return "";
  const { label, stage, sequence } = task.newest;
  const where = whereText(task.steps);
  if (where !== undefined) return where;
  if (label === undefined) return stage ?? `@${sequence}`;
  // The label of a thread is its step. Its stage (`loop`) only says how LangGraph made the checkpoint.
  return stage === undefined || stage === label || task.thread ? label : `${label} (${stage})`;
}
