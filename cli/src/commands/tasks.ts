import { Option } from "@commander-js/extra-typings";
import type { CheckpointStatus } from "waymark";
import type { HeldLease } from "waymark/adapter";
import type { CommandFile, Session } from "../cli.js";
import { JsonArrayPrinter } from "../json-array.js";
import { describedTasks, type FoundTask, nameOf } from "../langgraph/find-tasks.js";
import { questionsText } from "../langgraph/standing.js";
import { shownStatus } from "../langgraph/thread-state.js";
import { leaseReader } from "../leases.js";
import { printable } from "../printable.js";
import { statusCell } from "../status-cell.js";
import { SCREEN_ROWS, TablePrinter } from "../table.js";
import { agoText, countArgument } from "../words.js";

export const tasks: CommandFile = {
  example: "waymark tasks --incomplete",
  register(program, cli) {
    program
      .command("tasks")
      .summary("the tasks there are")
      .description(
        "The tasks that have checkpoints, by id, each with its newest one. A thread of LangGraph is one task: with its " +
          "status, its subgraphs, and what it asks before it goes on.",
      )
      .option("--incomplete", "only tasks whose newest checkpoint isn't completed")
      .addOption(statusOption("only tasks whose newest checkpoint is"))
      .option("--stage <stage>", "only tasks whose newest checkpoint is of this stage")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--recent", "the most recent first")
      .option("--limit <n>", "at most n; without it a terminal gets 20", countArgument(1))
      .option("--json", "for programs: a JSON array, one task per line")
      .action((options) =>
        cli.withStore(async (session) => {
          const printer = options.json ? jsonOf(session) : tableOf(session, options.limit);
          const leaseOf = leaseReader(session);
          let printed = 0;
          let page: FoundTask[] = [];
          // Who holds them is asked for all at once.
          const printPage = async () => {
            const leases = await Promise.all(page.map(({ taskId }) => leaseOf(taskId)));
            for (const [index, task] of page.entries()) {
              const lease = leases[index];
              await printer.add(lease === undefined ? task : { ...task, lease });
            }
            page = [];
          };
          for await (const task of describedTasks(session, {
            order: options.recent ? "recent" : "taskId",
            prefix: options.prefix,
            status: statusesOf(options),
            limit: options.stage === undefined ? options.limit : undefined,
          })) {
            if (session.output.isClosed) break;
            if (options.stage !== undefined && task.newest.stage !== options.stage) continue;
            page.push(task);
            printed += 1;
            if (printed === options.limit) break;
            if (page.length === PAGE) await printPage();
          }
          await printPage();
          await printer.end();
          if (printed === 0 && !options.json) await session.errors.line(printable(`No such task in ${session.name}.`));
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

/** How many tasks are looked up together. */
const PAGE = 64;

interface TaskPrinter {
  add(task: FoundTask & { readonly lease?: HeldLease }): Promise<void>;
  end(): Promise<void>;
}

function jsonOf({ output }: Session): TaskPrinter {
  return new JsonArrayPrinter(output);
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
        statusCell(shownStatus(task.newest, task.thread ? task.thread.interrupts : []), output.colors),
        newestText(task),
        agoText(task.newest.createdAt, nowMs),
      ),
    end: () => table.end(),
  };
}

function newestText({ newest, thread, lease }: FoundTask & { readonly lease?: HeldLease }): string {
  const runner = lease === undefined ? "" : ` (run by ${lease.holder})`;
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
