import { Option } from "@commander-js/extra-typings";
import type { CheckpointStatus } from "waymark";
import type { CommandFile, Session } from "../cli.js";
import { type ItemPrinter, itemPrinter, jsonOption, ndjsonOption } from "../json-array.js";
import { describedTasks, type FoundTask, nameOf } from "../langgraph/find-tasks.js";
import { questionsText } from "../langgraph/standing.js";
import { LeaseReader, type RunTask, runningText, type StartingTask } from "../leases.js";
import { printable } from "../printable.js";
import { statusCell, taskStatusCell } from "../status-cell.js";
import { SCREEN_ROWS, TablePrinter } from "../table.js";
import { agoText, countArgument } from "../words.js";

export const tasks: CommandFile = {
  example: "waymark tasks --incomplete",
  register(program, cli) {
    program
      .command("tasks")
      .summary("the tasks there are")
      .description(
        "The tasks that have checkpoints, by id, each with its newest one; after them the leased ones that have none yet. " +
          "A thread of LangGraph is one task: with its status, its subgraphs, and what it asks before it goes on.",
      )
      .option("--incomplete", "only tasks whose newest checkpoint isn't completed")
      .addOption(statusOption("only tasks whose newest checkpoint is"))
      .option("--stage <stage>", "only tasks whose newest checkpoint is of this stage")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--recent", "the most recent first")
      .option("--limit <n>", "at most n; without it a terminal gets 20", countArgument(1))
      .addOption(jsonOption("task"))
      .addOption(ndjsonOption("task"))
      .action((options) =>
        cli.withStore(async (session) => {
          const json = itemPrinter(session.output, options);
          const printer = json ? jsonOf(json) : tableOf(session, options.limit);
          const leases = new LeaseReader(session);
          const { prefix, limit, stage } = options;
          const status = statusesOf(options);
          let printed = 0;
          const leased = new Set<string>();
          const found = describedTasks(session, {
            order: options.recent ? "recent" : "taskId",
            prefix,
            status,
            limit: stage === undefined ? limit : undefined,
          });
          for await (const task of leases.of(ofStage(found, stage), limit)) {
            if (session.output.isClosed) break;
            if (task.lease) leased.add(task.taskId);
            await printer.add(task);
            printed += 1;
          }
          const isAll = stage !== undefined || status?.includes("running") === false || session.output.isClosed;
          const left = isAll ? 0 : (limit ?? Number.POSITIVE_INFINITY) - printed;
          for (const task of await leases.starting(prefix, leased, left)) {
            await printer.addStarting(task);
            printed += 1;
          }
          await printer.end();
          if (printed === 0 && !json) await session.errors.line(printable(`No such task in ${session.name}.`));
        }),
      );
  },
};

/** The statuses of a task or checkpoint that is not completed. */
export const INCOMPLETE: readonly CheckpointStatus[] = ["running", "paused", "failed"];

/** @param description - Without the status at its end: `only those that are`. */
export function statusOption(description: string) {
  return new Option("--status <status>", description)
    .choices(["running", "paused", "completed", "failed"] as const)
    .conflicts("incomplete");
}

/** The statuses that are asked for; `undefined` for all. */
export function statusesOf(asked: {
  readonly status?: CheckpointStatus | undefined;
  readonly incomplete?: true | undefined;
}): readonly CheckpointStatus[] | undefined {
  if (asked.status !== undefined) return [asked.status];
  return asked.incomplete ? INCOMPLETE : undefined;
}

async function* ofStage(
  tasks: AsyncIterable<FoundTask>,
  stage: string | undefined,
): AsyncGenerator<FoundTask, void, void> {
  for await (const task of tasks) if (stage === undefined || task.newest.stage === stage) yield task;
}

interface TaskPrinter {
  add(task: RunTask): Promise<void>;
  addStarting(task: StartingTask): Promise<void>;
  end(): Promise<void>;
}

function jsonOf(json: ItemPrinter): TaskPrinter {
  return {
    add: (task) => json.add(task),
    addStarting: ({ taskId, count, lease }) => json.add({ taskId, count, lease }),
    end: () => json.end(),
  };
}

function tableOf({ output }: Session, limit = SCREEN_ROWS): TaskPrinter {
  const columns = [
    { head: "TASK", flexible: true },
    { head: "CHECKPOINTS", align: "right" },
    { head: "STATUS" },
    { head: "NEWEST", flexible: true },
    { head: "SAVED" },
  ] as const;
  const table = new TablePrinter(output, columns, limit);
  const nowMs = Date.now();
  return {
    add: (task) =>
      table.add(
        nameOf(task),
        String(task.count),
        taskStatusCell(task, output.colors),
        newestText(task),
        agoText(task.newest.createdAt, nowMs),
      ),
    addStarting: ({ name, lease }) =>
      table.add(name, "0", statusCell("running", output.colors), `${runningText(lease)}, no checkpoint yet`, ""),
    end: () => table.end(),
  };
}

function newestText({ newest, thread, lease }: RunTask): string {
  const runner = lease === undefined ? "" : ` (${runningText(lease)})`;
  const at = `${newest.label ?? newest.stage ?? ""}${runner}`.trimStart();
  if (thread === undefined) return at;
  const subgraphs = subgraphsText(thread.namespaces.map(({ namespace }) => namespace));
  const questions = questionsText(thread.interrupts);
  return [
    `LangGraph, ${at}`,
    ...(subgraphs === "" ? [] : [`with ${subgraphs}`]),
    ...(questions === undefined ? [] : [`asks ${questions}`]),
  ].join(", ");
}

/** `mail, research ×40`: LangGraph gives each call of a subgraph a namespace of its own, `research:<uuid>`. */
function subgraphsText(namespaces: readonly string[]): string {
  const calls = new Map<string, number>();
  for (const namespace of namespaces) {
    const name = namespace.replaceAll(/:[^|]*/g, "");
    if (name !== "") calls.set(name, (calls.get(name) ?? 0) + 1);
  }
  return Array.from(calls, ([name, count]) => (count === 1 ? name : `${name} ×${count}`)).join(", ");
}
