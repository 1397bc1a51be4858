import { findCancellation } from "../actions/runs.js";
import type { CommandFile } from "../cli.js";
import { confirm } from "../confirm.js";
import { jsonText, printable } from "../printable.js";
import { taskChoice } from "../task-choice.js";
import { counted } from "../words.js";

export const cancel: CommandFile = {
  example: "waymark cancel build-42 --reason 'too old'",
  group: "workers",
  register(program, cli) {
    program
      .command("cancel")
      .summary("end a run for good")
      .description(
        "Takes tasks from their runners, refuses these runners' later writes, and records the tasks as failed. " +
          "Checkpoints are kept. To run a cancelled task again, run it with restart: true, or delete it (waymark delete, --prefix for many) and enqueue it again.",
      )
      .argument("[task]")
      .option("--prefix <text>", "all incomplete tasks whose id begins with this")
      .requiredOption("--reason <text>", "who cancels it and why, for people")
      .option("--yes", "don't ask")
      .option("--json", "for programs: how many were cancelled")
      .action((task, { prefix, reason, yes, json }) =>
        cli.withStore(async (session) => {
          const { output, name } = session;
          const choice = taskChoice(task, prefix, "waymark cancel build-42 --reason 'too old'");
          const { what, tasks, cancel } = await findCancellation(session, choice);
          if (tasks > 0) await confirm(session, `Cancel ${what} in ${name}?`, yes === true);
          const cancelled = tasks === 0 ? 0 : await cancel(reason);
          if (json) return output.line(jsonText({ cancelled }));
          const nothing = "task" in choice ? "It is cancelled already." : "There is nothing to cancel.";
          await output.line(printable(cancelled === 0 ? nothing : `Cancelled ${counted(cancelled, "task")}.`));
        }),
      );
  },
};
