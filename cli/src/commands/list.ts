import { Option } from "@commander-js/extra-typings";
import { isCorrupt } from "waymark/adapter";
import { requireTask } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { type ItemPrinter, itemPrinter, jsonOption, ndjsonOption } from "../json-array.js";
import { type DescribedCheckpoint, describeCheckpoint, shownStatus } from "../langgraph/thread-state.js";
import { wholeIn } from "../langgraph/whole-checkpoints.js";
import { timelineOf } from "../run-steps.js";
import { statusCell } from "../status-cell.js";
import { SCREEN_ROWS, TablePrinter } from "../table.js";
import { bytesText, countArgument, timeText } from "../words.js";
import { statusesOf, statusOption } from "./tasks.js";

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
      .option("--limit <n>", "at most n; without it a terminal gets 20", countArgument(1))
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
          const taskId = await requireTask(session, task);
          const json = itemPrinter(session.output, options);
          if (options.timeline) return printTimeline(session, taskId, json);
          const isWhole = await wholeIn(session, taskId);
          const printer = json ? jsonOf(json) : tableOf(session, options.limit);
          for await (const checkpoint of session.storage.list({
            taskId,
            order: options.oldest ? "oldest" : "newest",
            stage: options.stage,
            status: statusesOf(options),
            limit: options.limit,
          })) {
            if (session.output.isClosed) break;
            if (isCorrupt(checkpoint)) await session.damage.add(checkpoint);
            else if (isWhole(checkpoint)) await printer.add(await describeCheckpoint(session, checkpoint));
          }
          await printer.end();
        }),
      );
  },
};

async function printTimeline(session: Session, taskId: string, json: ItemPrinter | undefined): Promise<void> {
  const steps = await timelineOf(session, taskId);
  if (json) {
    for (const { bar: _bar, ...step } of steps) await json.add(step);
    return json.end();
  }
  if (steps.length === 0) return session.errors.line(`No run has recorded a step of this task.`);
  const columns = [
    { head: "STARTED" },
    { head: "PASS", align: "right" },
    { head: "TIME" },
    { head: "STEP", flexible: true },
  ] as const;
  const table = new TablePrinter(session.output, columns, Number.POSITIVE_INFINITY);
  for (const { startedAt, pass, bar, step } of steps) await table.add(timeText(startedAt), String(pass), bar, step);
  return table.end();
}

function jsonOf(json: ItemPrinter) {
  return {
    add: ({ checkpoint }: DescribedCheckpoint) => json.add(checkpoint),
    end: () => json.end(),
  };
}

function tableOf({ output }: Session, limit = SCREEN_ROWS) {
  const columns = [
    { head: "SEQ", align: "right" },
    { head: "SAVED" },
    { head: "STATUS" },
    { head: "STAGE", flexible: true },
    { head: "LABEL", flexible: true },
    { head: "SIZE", align: "right" },
    { head: "ID", flexible: true },
  ] as const;
  const table = new TablePrinter(output, columns, limit);
  return {
    add: ({ checkpoint, interrupts }: DescribedCheckpoint) => {
      const { sequence, createdAt, stage, label, sizeBytes, id } = checkpoint;
      return table.add(
        String(sequence),
        timeText(createdAt),
        statusCell(shownStatus(checkpoint, interrupts), output.colors),
        stage ?? "",
        label ?? "",
        bytesText(sizeBytes),
        id,
      );
    },
    end: () => table.end(),
  };
}
