import { Option } from "@commander-js/extra-typings";
import type { CheckpointStatus } from "waymark";
import type { CommandFile } from "../cli.js";
import { jsonOption, jsonPrinter, ndjsonOption, printItems } from "../items.js";
import { nameOf } from "../langgraph/find-tasks.js";
import { questionsText } from "../langgraph/standing.js";
import { runningText } from "../leases.js";
import type { Output } from "../output.js";
import { printable } from "../printable.js";
import { INCOMPLETE } from "../queries/incomplete.js";
import { type ListedTask, listTasks } from "../queries/tasks.js";
import { taskStatusCell } from "../status-cell.js";
import { type Column, SCREEN_ROWS, TablePrinter } from "../table.js";
import { agoText, countArgument } from "../words.js";

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
      .option("--incomplete", "only tasks whose newest checkpoint isn't completed")
      .addOption(statusOption("only tasks whose newest checkpoint is"))
      .option("--stage <stage>", "only tasks whose newest checkpoint is of this stage")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--recent", "the most recent first")
      .option("--limit <n>", "at most n; default: 20 on a terminal, else all", countArgument(1))
      .addOption(jsonOption("task"))
      .addOption(ndjsonOption("task"))
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, errors, name } = session;
          const { recent, prefix, stage, limit } = options;
          const order = recent ? "recent" : "taskId";
          const found = listTasks(session, { order, prefix, stage, status: statusesOf(options), limit });
          const json = jsonPrinter(output, options);
          const table = new TablePrinter(output, columnsOf(output.colors), limit ?? SCREEN_ROWS);
          const count = await printItems(output, found, json ?? table);
          if (count === 0 && !json) await errors.line(printable(`No task of ${name} matches.`));
        }),
      );
  },
};

/** @param description - The text before the list of statuses: `only those that are`. */
export function statusOption(description: string) {
  return new Option("--status <status>", description)
    .choices(["running", "paused", "completed", "failed"] as const)
    .conflicts("incomplete");
}

/** The requested statuses; `undefined` for all. */
export function statusesOf(asked: {
  readonly status?: CheckpointStatus | undefined;
  readonly incomplete?: true | undefined;
}): readonly CheckpointStatus[] | undefined {
  if (asked.status !== undefined) return [asked.status];
  return asked.incomplete ? INCOMPLETE : undefined;
}

function columnsOf(colors: Output["colors"]): readonly Column<ListedTask>[] {
  const nowMs = Date.now();
  return [
    { head: "TASK", flexible: true, cell: nameOf },
    { head: "CHECKPOINTS", align: "right", cell: ({ count }) => String(count) },
    { head: "STATUS", cell: (task) => taskStatusCell(task, colors) },
    { head: "NEWEST", flexible: true, cell: newestText },
    { head: "SAVED", cell: (task) => ("newest" in task ? agoText(task.newest.createdAt, nowMs) : "") },
  ];
}

function newestText(task: ListedTask): string {
  if (!("newest" in task)) return `${runningText(task.lease)}, no checkpoint yet`;
  const { newest, thread, lease } = task;
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

/** `mail, research ×40`. LangGraph gives each call of a subgraph its own namespace, `research:<uuid>`. */
function subgraphsText(namespaces: readonly string[]): string {
  const calls = new Map<string, number>();
  for (const namespace of namespaces) {
    const name = namespace.replaceAll(/:[^|]*/g, "");
    if (name !== "") calls.set(name, (calls.get(name) ?? 0) + 1);
  }
  return Array.from(calls, ([name, count]) => (count === 1 ? name : `${name} ×${count}`)).join(", ");
}
