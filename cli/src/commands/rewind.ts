import { findWhole, requireTaskToChange, titleOf } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { refuseThread } from "../langgraph/find-tasks.js";
import { underLease } from "../leases.js";
import { jsonText, printable } from "../printable.js";

export const rewind: CommandFile = {
  example: "waymark rewind build-42 @3",
  register(program, cli) {
    program
      .command("rewind")
      .summary("go on from an old state")
      .description(
        "Goes back to a checkpoint: saves a new one with its state, stage, label and metadata, from which the task goes " +
          "on. ID is an id or @7. Nothing is removed. If a program runs the task without a lease, stop it first: its next save would follow the rewind.",
      )
      .argument("<task>")
      .argument("<id>")
      .option("--force", "change it even while somebody runs it")
      .option("--json", "for programs: the new checkpoint")
      .action((task, id, options) =>
        cli.withStore(async (session) => {
          const taskId = await requireTaskToChange(session, task);
          refuseThread(taskId, "Invoke its graph with the config of that checkpoint, or call updateState with it.");
          const source = await findWhole(session, taskId, id);
          const manager = await session.configured();
          const saved = await underLease(session, taskId, options.force === true, (under) =>
            manager.rewind(taskId, source.id, under),
          );
          const line = options.json
            ? jsonText(saved)
            : printable(
                `Task ${JSON.stringify(taskId)} goes on at ${titleOf(saved)} with the state of @${source.sequence}.`,
              );
          await session.output.line(line);
        }),
      );
  },
};
