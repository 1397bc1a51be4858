import { completeTask, newestToComplete } from "../actions/change-task.js";
import { describeCheckpoint } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { confirm } from "../confirm.js";
import { printable } from "../printable.js";

export const complete: CommandFile = {
  example: "waymark complete build-42",
  register(program, cli) {
    program
      .command("complete")
      .summary("mark a task as done")
      .description("Marks a task's newest checkpoint as completed, so that waymark resume no longer lists the task.")
      .argument("<task>")
      .option("--yes", "don't ask")
      .option("--force", "change it even while a process runs it")
      .action((task, { yes, force }) =>
        cli.withStore(async (session) => {
          const { output } = session;
          const newest = await newestToComplete(session, task);
          const what = `Task ${JSON.stringify(newest.taskId)}`;
          if (newest.status === "completed") return output.line(printable(`${what} is completed already.`));
          const loses = newest.error === undefined ? "" : ` Its error is removed: ${newest.error.message}.`;
          const question = `${what} is ${newest.status} at ${describeCheckpoint(newest)}.${loses} Mark it as completed?`;
          await confirm(session, question, yes === true);
          await completeTask(session, newest, { force });
          await output.line(printable(`${what} is completed.`));
        }),
      );
  },
};
