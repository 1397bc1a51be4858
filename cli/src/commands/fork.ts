import { findWhole, requireTaskToChange, titleOf } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { refuseThread, wholeThread } from "../langgraph/find-tasks.js";
import { underLease } from "../leases.js";
import { jsonText, printable } from "../printable.js";

export const fork: CommandFile = {
  example: "waymark fork build-42 @3 build-43",
  register(program, cli) {
    program
      .command("fork")
      .summary("a new task, old state")
      .description(
        "Begins a new task with a checkpoint's state, stage, label and metadata. ID is an id, @7 or @latest. " +
          "The new task must have no checkpoint yet. For a thread of LangGraph, it begins a new thread with the " +
          "history up to that checkpoint. A fork of the newest checkpoint has its open questions, too.",
      )
      .argument("<task>")
      .argument("<id>")
      .argument("<new-task>")
      .option("--force", "begin it even while somebody runs the new task")
      .option("--json", "for programs: the new task's first checkpoint")
      .action((task, id, newTask, options) =>
        cli.withStore(async (session) => {
          const taskId = await requireTaskToChange(session, task);
          refuseThread(newTask, "Give the new task another name.");
          const isThread = wholeThread(taskId) !== undefined;
          if (!isThread) refuseThread(taskId, "To fork the thread, name it.");
          const source = await findWhole(session, taskId, id);
          if (isThread) {
            const { forkThread } = await import("../langgraph/fork-thread.js");
            await forkThread(session, source, newTask, options);
            return;
          }
          const manager = await session.configured();
          const saved = await underLease(session, newTask, options.force === true, (under) =>
            manager.fork(taskId, source.id, newTask, under),
          );
          const line = options.json
            ? jsonText(saved)
            : printable(
                `Task ${JSON.stringify(newTask)} begins at ${titleOf(saved)} with the state of @${source.sequence} of task ${JSON.stringify(taskId)}.`,
              );
          await session.output.line(line);
        }),
      );
  },
};
