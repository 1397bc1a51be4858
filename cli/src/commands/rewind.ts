import { rewindTask } from "../actions/change-task.js";
import { describeCheckpoint } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { jsonText, printable } from "../printable.js";

export const rewind: CommandFile = {
  example: "waymark rewind build-42 @3",
  register(program, cli) {
    program
      .command("rewind")
      .summary("return to an old state")
      .description(
        "Goes back to a checkpoint: saves a new one with its state, stage, label and metadata, from which the task " +
          "continues. ID is an id or @7. If @7 is a step, its turn begins again with the results up to that step. Nothing is removed. If a program runs the task without a lease, stop it first, or its next save replaces the old state again. " +
          "If a worker's prefix covers the task, the worker continues it at once; a rewind to a completed run runs every " +
          "step again, with new keys.",
      )
      .argument("<task>")
      .argument("<id>")
      .option("--force", "change it even while a process runs it")
      .option("--json", "for programs: the new checkpoint")
      .action((task, id, { force, json }) =>
        cli.withStore(async (session) => {
          const { source, saved } = await rewindTask(session, { task, id }, { force });
          const text = `Task ${JSON.stringify(saved.taskId)} continues at ${describeCheckpoint(saved)} with the state of @${source.sequence}.`;
          await session.output.line(json ? jsonText(saved) : printable(text));
        }),
      );
  },
};
