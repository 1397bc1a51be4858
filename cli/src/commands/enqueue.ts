import { InvalidArgumentError } from "@commander-js/extra-typings";
import { enqueueTask } from "../actions/runs.js";
import type { CommandFile } from "../cli.js";
import { jsonArgument } from "../json-argument.js";
import type { RunTask } from "../leases.js";
import { jsonText, printable } from "../printable.js";
import { waitsText } from "../waits.js";
import { timeText } from "../words.js";

export const enqueue: CommandFile = {
  example: 'waymark enqueue mail/42 \'{"to":"ada"}\'',
  group: "workers",
  register(program, cli) {
    program
      .command("enqueue")
      .summary("a task for a worker")
      .description(
        "Saves a run that a worker begins. The task's id is the key: enqueueing the same task with the same input again changes " +
          "nothing.",
      )
      .argument("<task>", "its id, which begins with the worker's prefix")
      .argument("[input]", "the run's input, as JSON; default: none", jsonArgument(`waymark enqueue mail/42 '"ada"'`))
      .option("--due-at <time>", "not before: 2026-12-01T09:00Z", timeArgument)
      .option("--json", "for programs: whether the task is new")
      .action((taskId, input, { dueAt, json }) =>
        cli.withStore(async (session) => {
          const known = await enqueueTask(session, { taskId, input, dueAt });
          const isNew = known === undefined;
          const task = `Task ${JSON.stringify(taskId)}`;
          const when = dueAt === undefined ? "" : ` from ${timeText(dueAt.toISOString())} UTC on`;
          const text = isNew
            ? `${task} is enqueued: a worker takes it${when}.`
            : `${task} was enqueued before with this input and ${describeStatus(known)}. Nothing was changed.`;
          await session.output.line(json ? jsonText({ taskId, isNew }) : printable(text));
        }, "write"),
      );
  },
};

/** `is completed`, `waits for "approve"` */
function describeStatus({ status, waits }: RunTask): string {
  const isWait = status === "waiting" || status === "scheduled";
  return isWait && waits !== undefined ? waitsText(waits, Date.now()) : `is ${status}`;
}

/** Without a time zone, a time would differ between machines. */
function timeArgument(text: string): Date {
  const date = new Date(text);
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text);
  if (isTime && !Number.isNaN(date.getTime())) return date;
  throw new InvalidArgumentError("It must be a time in ISO 8601 with its zone: 2026-12-01T09:00Z.");
}
