import { isCorrupt } from "waymark/adapter";
import { requireTaskToChange, titleOf } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { confirm } from "../confirm.js";
import { DamagedCheckpointError } from "../damage.js";
import { refuseThread } from "../langgraph/find-tasks.js";
import { underLease } from "../leases.js";
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
      .option("--force", "change it even while somebody runs it")
      .action((task, options) =>
        cli.withStore(async (session) => {
          const { output, manager, storage } = session;
          const taskId = await requireTaskToChange(session, task);
          refuseThread(taskId, "A graph completes its thread itself; waymark delete removes a thread.");
          const quoted = JSON.stringify(taskId);
          let expectedSequence: number | undefined;
          for await (const newest of storage.list({ taskId, order: "newest", limit: 1 })) {
            if (isCorrupt(newest)) {
              throw new DamagedCheckpointError(
                `The newest checkpoint of task ${quoted}`,
                newest,
                "Nothing was changed.",
              );
            }
            if (newest.status === "completed") {
              await output.line(printable(`Task ${quoted} is completed already.`));
              return;
            }
            expectedSequence = newest.sequence;
            await confirm(
              session,
              `Task ${quoted} is ${newest.status} at ${titleOf(newest)}. Mark it as completed?`,
              options.yes === true,
            );
          }
          // Completes only the checkpoint that the question showed: a newer one means that the task goes on.
          await underLease(session, taskId, options.force === true, (under) =>
            manager.complete(taskId, { expectedSequence, ...under }),
          );
          await output.line(printable(`Task ${quoted} is completed.`));
        }),
      );
  },
};
