import { Option } from "@commander-js/extra-typings";
import { isCorrupt } from "waymark/adapter";
import { isCancelled } from "waymark/kit";
import { parseThread } from "waymark/langgraph/records";
import { requireTask } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { takeFirst } from "../first-of.js";
import { type ItemPrinter, jsonOption, jsonPrinter, ndjsonOption, printItems } from "../items.js";
import { findTask } from "../langgraph/find-tasks.js";
import type { DescribedCheckpoint } from "../langgraph/thread-state.js";
import { LeaseReader, type RunTask } from "../leases.js";
import { countArgument } from "../measure-arguments.js";
import type { Output } from "../output.js";
import { printable } from "../printable.js";
import { listCheckpoints } from "../queries/checkpoints.js";
import { readTimeline, type TimedStep } from "../queries/timeline.js";
import { checkpointCell, statusCell } from "../status-cell.js";
import { type Column, printTable, SCREEN_ROWS, TablePrinter } from "../table.js";
import { Answers, standText, waitsText } from "../waits.js";
import { bytesText, timeText } from "../words.js";
import { readStatuses, statusOption } from "./tasks.js";

export const list: CommandFile = {
  example: "waymark list build-42 --limit 5",
  register(program, cli) {
    program
      .command("list")
      .summary("a task's checkpoints")
      .description("The checkpoints of a task, newest first. SEQ is what @7 refers to; times are UTC.")
      .argument("<task>")
      .option("--incomplete", "only those that aren't completed")
      .addOption(statusOption("only those that are"))
      .option("--stage <stage>", "only those of this stage")
      .option("--limit <n>", "at most n; default: 20 on a terminal, else all", countArgument(1))
      .option("--oldest", "the oldest first")
      .addOption(
        new Option("--timeline", "the steps of its runs instead, each as a bar").conflicts([
          "incomplete",
          "status",
          "stage",
          "limit",
          "oldest",
        ]),
      )
      .addOption(jsonOption("checkpoint"))
      .addOption(ndjsonOption("checkpoint"))
      .action((task, options) =>
        cli.withStore(async (session) => {
          const { output } = session;
          const json = jsonPrinter(output, options);
          if (options.timeline) return printTimeline(session, await readTimeline(session, { task }), json);
          const { oldest, stage, limit } = options;
          const order = oldest ? "oldest" : "newest";
          const found = listCheckpoints(session, { task, order, stage, status: readStatuses(options), limit });
          if (json) {
            const printer = {
              add: ({ checkpoint }: DescribedCheckpoint) => json.add(checkpoint),
              end: () => json.end(),
            };
            return void (await printItems(output, found, printer));
          }
          const newest = await readNewest(session, task);
          await printItems(
            output,
            found,
            new TablePrinter(output, makeColumns(output.colors, newest), limit ?? SCREEN_ROWS),
          );
          if (newest) await printTaskStatus(session, newest);
        }),
      );
  },
};

/** Reads a task with its newest checkpoint; `undefined` if the checkpoint is damaged, or the task is a thread. */
async function readNewest(session: Session, task: string): Promise<RunTask | undefined> {
  const taskId = await requireTask(session, task);
  const [newest] = await takeFirst(session.storage.list({ taskId, order: "newest", limit: 1 }));
  if (newest === undefined || isCorrupt(newest) || parseThread(taskId, newest.metadata)) return undefined;
  const found = await findTask(session.storage, taskId);
  return found && new LeaseReader(session).described(found);
}

/** Prints, below a task's checkpoints, what the task waits for and how to answer, or why it was cancelled. */
async function printTaskStatus(session: Session, { taskId, newest, waits }: RunTask): Promise<void> {
  // Standard error isn't buffered: without this flush, it would appear before the list.
  await session.output.flush();
  if (isCancelled(newest)) await session.errors.line(printable(`It is cancelled: ${newest.error?.message}`));
  if (waits === undefined) return;
  const nowMs = Date.now();
  const text = waits.answered === undefined ? `Its run ${waitsText(waits, nowMs)}` : standText(newest, nowMs, waits);
  await session.errors.line(printable(`${text}.`));
  const answers = new Answers(session);
  answers.add(taskId, waits);
  await answers.print();
}

/** @param task - The task with its newest checkpoint, whose row shows the task's status. */
function makeColumns(colors: Output["colors"], task: RunTask | undefined): readonly Column<DescribedCheckpoint>[] {
  return [
    { head: "SEQ", align: "right", cell: ({ checkpoint }) => String(checkpoint.sequence) },
    { head: "SAVED", cell: ({ checkpoint }) => timeText(checkpoint.createdAt) },
    {
      head: "STATUS",
      cell: (described) =>
        described.checkpoint.id === task?.newest.id
          ? statusCell(task.status, colors)
          : checkpointCell(described, colors),
    },
    { head: "STAGE", flexible: true, cell: ({ checkpoint }) => checkpoint.stage ?? "" },
    { head: "LABEL", flexible: true, cell: ({ checkpoint }) => checkpoint.label ?? "" },
    { head: "SIZE", align: "right", cell: ({ checkpoint }) => bytesText(checkpoint.sizeBytes) },
    { head: "ID", flexible: true, cell: ({ checkpoint }) => checkpoint.id },
  ];
}

/** Prints the steps of a task's runs, each as a bar. */
export async function printTimeline(
  { output, errors }: Session,
  steps: readonly TimedStep[],
  json: ItemPrinter<unknown> | undefined,
): Promise<void> {
  if (json) return void (await printItems(output, steps, json));
  if (steps.length === 0) return errors.line("No run has recorded a step of this task.");
  const from = Math.min(...steps.map(readStart));
  const length = Math.max(...steps.map(readEnd)) - from || 1;
  // The bars take the width that the other columns leave.
  const rest = output.columns - OTHER_COLUMNS - Math.max(...steps.map(({ step }) => step.length));
  const width = output.isTerminal ? Math.max(MIN_BAR_WIDTH, rest) : BAR_WIDTH;
  return printTable(output, steps, [
    { head: "STARTED", isOptional: true, cell: ({ startedAt }) => timeText(startedAt) },
    { head: "SEQ", align: "right", cell: ({ sequence }) => String(sequence) },
    { head: "TURN", align: "right", cell: ({ turn }) => String(turn) },
    {
      head: "TIME",
      cell: (step) => drawBar((readStart(step) - from) / length, (readEnd(step) - from) / length, width),
    },
    { head: "STEP", flexible: true, cell: ({ step }) => step },
    { head: "WHY", isBelow: true, cell: ({ why = "" }) => why },
  ]);
}

function readStart({ startedAt }: TimedStep): number {
  return Date.parse(startedAt);
}

function readEnd(step: TimedStep): number {
  return readStart(step) + (step.durationMs ?? 0);
}

const BAR_WIDTH = 30;
const MIN_BAR_WIDTH = 10;
/** The width of STARTED, SEQ and TURN, with the gaps. */
const OTHER_COLUMNS = 38;

/** Draws the bar of a step: its share of the time that all steps took. */
function drawBar(from: number, to: number, width: number): string {
  const start = Math.min(Math.floor(from * width), width - 1);
  const length = Math.max(1, Math.round(to * width) - start);
  return `${"·".repeat(start)}${"━".repeat(length)}${"·".repeat(width - start - length)}`;
}
