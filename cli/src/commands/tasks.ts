import { Option } from "@commander-js/extra-typings";
import type { CheckpointStatus } from "waymark";
import type { Cli, CommandFile, Session } from "../cli.js";
import { type Damage, damageText } from "../damage.js";
import type { printFleet } from "../fleet-view.js";
import { jsonOption, jsonPrinter, ndjsonOption, printItems } from "../items.js";
import { describeTask } from "../langgraph/find-tasks.js";
import { countArgument } from "../measure-arguments.js";
import { withUsage } from "../plan/plan-rows.js";
import { printable } from "../printable.js";
import { INCOMPLETE, TASKS_THAT_CONTINUE, whyIncomplete } from "../queries/incomplete.js";
import { type ListedTask, listTasks } from "../queries/tasks.js";
import { whereText } from "../run-steps.js";
import { statusCell } from "../status-cell.js";
import { type Column, SCREEN_ROWS, TablePrinter } from "../table.js";
import { type Usage, usageText } from "../usage.js";
import { Answers } from "../waits.js";
import { agoText } from "../words.js";

export const tasks: CommandFile = {
  example: "waymark tasks --incomplete",
  register(program, cli) {
    program
      .command("tasks")
      .summary("list the tasks")
      .description(
        "The tasks by id, each with its newest checkpoint, then leased tasks that have no checkpoint yet. " +
          "A thread of LangGraph is one task, with its status, its subgraphs, and the question that it asks.",
      )
      .option("--incomplete", "only tasks that can continue: neither completed nor cancelled, nor within another run")
      .addOption(
        new Option("--status <status>", "only those that are now")
          .choices([...TASKS_THAT_CONTINUE, "completed", "cancelled"])
          .conflicts("incomplete"),
      )
      .option("--stage <stage>", "only tasks whose newest checkpoint is of this stage")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--recent", "the most recent first")
      .addOption(
        new Option("--watch", "who runs what, updated each second, and how many tasks wait for a worker").conflicts([
          "recent",
          "json",
          "ndjson",
        ]),
      )
      .option("--limit <n>", "at most n; default: 20 on a terminal, else all", countArgument(1))
      .addOption(jsonOption("task"))
      .addOption(ndjsonOption("task"))
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, errors, name } = session;
          const { recent, prefix, stage, limit } = options;
          const status = options.incomplete ? TASKS_THAT_CONTINUE : options.status && [options.status];
          const query = { prefix, stage, status, canContinue: options.incomplete, limit };
          if (options.watch) return watch(cli, session, query);
          const order = recent ? "recent" : "taskId";
          const found = listTasks(session, { ...query, order });
          const json = jsonPrinter(output, options);
          const table = new TablePrinter<UsingTask>(output, makeColumns(session), limit ?? SCREEN_ROWS);
          const answers = new Answers(session);
          const count = await printItems(output, withUsage(session, answers.from(found)), json ?? table);
          if (!json) await answers.print();
          if (count === 0 && !json) await errors.line(printable(`No task of ${name} matches.`));
        }),
      );
  },
};

/** On a terminal, shows the fleet until Ctrl-C. Elsewhere, prints it once. */
async function watch(cli: Cli, session: Session, query: Parameters<typeof printFleet>[1]): Promise<void> {
  const { FleetView, printFleet } = await import("../fleet-view.js");
  if (!session.output.isTerminal) return printFleet(session, query);
  const view = new FleetView(session, query);
  await view.show(cli.interruptible(() => view.leave()));
}

/** @param description - The text before the list of statuses: `only those that are`. */
export function statusOption(description: string) {
  return new Option("--status <status>", description)
    .choices(["running", "paused", "completed", "failed"] as const)
    .conflicts("incomplete");
}

/** Returns the requested statuses; `undefined` for all. */
export function readStatuses(options: {
  readonly status?: CheckpointStatus | undefined;
  readonly incomplete?: true | undefined;
}): readonly CheckpointStatus[] | undefined {
  if (options.status !== undefined) return [options.status];
  return options.incomplete ? INCOMPLETE : undefined;
}

type UsingTask = ListedTask & { readonly usage?: Usage };

function makeColumns({ output: { colors }, damage }: Session): readonly Column<UsingTask>[] {
  const nowMs = Date.now();
  return [
    { head: "TASK", isWhole: true, cell: describeTask },
    { head: "CHECKPOINTS", align: "right", cell: ({ count }) => String(count) },
    {
      head: "STATUS",
      cell: ({ taskId, status }) => statusCell(damage.of(taskId).length > 0 ? "damaged" : status, colors),
    },
    { head: "NEWEST", flexible: true, cell: newestText },
    { head: "COST", align: "right", isOmittedIfEmpty: true, cell: ({ usage }) => (usage ? usageText(usage) : "") },
    whenColumn(nowMs),
    { head: "WHY", isBelow: true, cell: (task) => whyText(task, damage, nowMs) },
  ];
}

/** Returns why a task isn't completed, after what is damaged in it. */
export function whyText(task: ListedTask, damage: Pick<Damage, "of">, nowMs: number): string {
  const why = task.status === "completed" ? undefined : whyIncomplete(task, nowMs);
  return [damageText(damage.of(task.taskId)), why].filter((text) => text !== undefined).join("; ");
}

/** Shows when a task last recorded something. */
export function whenColumn(nowMs: number): Column<ListedTask> {
  return {
    head: "WHEN",
    isOptional: true,
    cell: (task) => ("newest" in task ? agoText(task.lastAt ?? task.newest.createdAt, nowMs) : ""),
  };
}

function newestText(task: ListedTask): string {
  if (!("newest" in task)) return "";
  const { newest, thread, steps } = task;
  const at = whereText(steps) ?? newest.label ?? newest.stage ?? "";
  if (thread === undefined) return at;
  const subgraphs = subgraphsText(thread.namespaces.map(({ namespace }) => namespace));
  return [`LangGraph, ${at}`, ...(subgraphs === "" ? [] : [`with ${subgraphs}`])].join(", ");
}

/** `mail, research ×40`. LangGraph gives each call of a subgraph its own namespace, `research:<uuid>`. */
function subgraphsText(namespaces: readonly string[]): string {
  const calls = new Map<string, number>();
  for (const namespace of namespaces) {
    const name = namespace.replaceAll(/:[^|]*/g, "");
    if (name !== "") calls.set(name, (calls.get(name) ?? 0) + 1);
  }
  return Array.from(calls, ([name, count]) => (count === 1 ? name : `${name} ×${count}`)).join(", ");
}
