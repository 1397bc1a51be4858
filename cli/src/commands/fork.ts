import { forkTask } from "../actions/change-task.js";
import { describeCheckpoint } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { jsonText, printable } from "../printable.js";
import { counted } from "../words.js";

export const fork: CommandFile = {
  example: "waymark fork build-42 @3 build-43",
  register(program, cli) {
    program
      .command("fork")
      .summary("a new task, old state")
      .description(
        "Begins a new task with a checkpoint's state, stage, label and metadata. ID is an id, @7 or @latest. " +
          "If @7 is a step (list --timeline shows the numbers), the new task has the turn's state and the results up to that step. " +
          "The new task must have no checkpoint yet. A fork of a LangGraph thread has the history up to that " +
          "checkpoint; a fork of its newest checkpoint also has the open questions. If a worker's " +
          "prefix covers the new task, the worker begins it at once; a fork of a completed run runs every step again, " +
          "with new keys.",
      )
      .argument("<task>")
      .argument("<id>")
      .argument("<new-task>")
      .option("--force", "begin it even while a process runs the new task")
      .option("--json", "for programs: the new task's first checkpoint")
      .action((task, id, newTask, { force, json }) =>
        cli.withStore(async (session) => {
          const forked = await forkTask(session, { task, id, newTask }, { force });
          const { output } = session;
          const begins = `${JSON.stringify(newTask)} begins at`;
          if ("saved" in forked) {
            const { saved, source } = forked;
            const text = `Task ${begins} ${describeCheckpoint(saved)} with the state of @${source.sequence} of task ${JSON.stringify(source.taskId)}.`;
            return output.line(json ? jsonText(saved) : printable(text));
          }
          const { source, taskId, from, checkpoints } = forked;
          if (json) return output.line(jsonText({ taskId, thread: newTask, checkpoint: source.id, checkpoints }));
          const at = `${describeCheckpoint(source)} of thread ${JSON.stringify(from)}`;
          await output.line(printable(`Thread ${begins} ${at}, with ${counted(checkpoints, "checkpoint")}.`));
        }),
      );
  },
};
