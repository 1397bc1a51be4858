import { type SentEvent, sendEvent } from "../actions/runs.js";
import type { CommandFile } from "../cli.js";
import { jsonArgument } from "../json-argument.js";
import { jsonText, printable } from "../printable.js";
import { sender } from "../sender.js";
import { namesText } from "../waits.js";

export const send: CommandFile = {
  example: "waymark send build-42 approve true",
  group: "workers",
  register(program, cli) {
    program
      .command("send")
      .summary("answer a run that waits")
      .description(
        "Sends an event to a task, for its run.waitFor: a person's approval, for example. If the run doesn't wait for it " +
          "yet, the event is kept. waymark show prints what a run waits for.",
      )
      .argument("<task>")
      .argument("<name>", "the name of the event, as in run.waitFor")
      .argument("[value]", "as JSON; default: none", jsonArgument(`waymark send build-42 approve '"yes"'`))
      .option("--id <id>", "an event sent again with this id counts once; default: a new id")
      .option("--by <name>", "who sends it; default: user@host")
      .option(
        "--wait <key>",
        "answer only the wait with this key, as waymark show prints it; default: the next of the name",
      )
      .option("--force", "send even if the task is completed or cancelled, or the wait is over")
      .option("--json", "for programs: the event's id, and whether the run waited for it")
      .action((task, name, value, { by = sender(), json, ...options }) =>
        cli.withStore(async (session) => {
          const sent = await sendEvent(session, { task, name, value, by, ...options });
          const { otherNames: _names, isLater: _isLater, end: _end, ...answer } = sent;
          await session.output.line(json ? jsonText(answer) : printable(sentText(sent)));
        }),
      );
  },
};

function sentText({ taskId, name, id, isAwaited, isLater, otherNames, end, before }: SentEvent): string {
  const [event, task] = [`event ${JSON.stringify(name)}`, `task ${JSON.stringify(taskId)}`];
  if (before?.status === "received") {
    return `The ${event} of ${task} was received before, as ${id}. Nothing was sent.`;
  }
  if (before?.status === "refused") {
    const why = before.reason === undefined ? "" : `: ${before.reason.replace(/\.$/, "")}`;
    return `The ${event} of ${task} was refused before, as ${id}${why}. Nothing was sent; send it with another id.`;
  }
  const sent =
    before === undefined ? `Sent ${event} to ${task} as ${id}.` : `The ${event} was sent to ${task} before, as ${id}.`;
  if (end === "failed")
    return `${sent} The run has failed: "waymark retry" puts it back, and then it receives the event.`;
  if (end !== undefined) return `${sent} Its task is ${end}, so only a run with restart: true receives it.`;
  if (isAwaited)
    return `${sent} The run waits for it and is due now; "waymark show" tells whether it accepts the value.`;
  if (isLater) {
    return `${sent} Another ${event} is pending already, so this one is kept for the next wait of that name.`;
  }
  const others = namesText(otherNames);
  return `${sent} It is kept until the run waits for it.${others === "" ? "" : ` Its run waits for ${others}.`}`;
}
