import { findRemoval, findRemovalOfTasks } from "../actions/change-task.js";
import type { CommandFile } from "../cli.js";
import { confirm } from "../confirm.js";
import { jsonText, printable } from "../printable.js";
import { taskChoice } from "../task-choice.js";
import { counted } from "../words.js";

export const deleteCommand: CommandFile = {
  example: "waymark delete build-42 @3 --yes",
  register(program, cli) {
    program
      .command("delete")
      .summary("remove checkpoints")
      .description(
        "Removes a task with all its checkpoints, all tasks with a prefix, or one checkpoint, even a damaged one. ID is an id, @7 or @latest. " +
          "A LangGraph thread can only be removed as a whole. This can't be undone.",
      )
      .argument("[task]")
      .argument("[id]")
      .option("--prefix <text>", "all tasks whose id begins with this")
      .option("--yes", "don't ask")
      .option("--force", "remove them even while a process runs one")
      .option("--json", "for programs: how many were removed")
      .action((task, id, { prefix, yes, force, json }) =>
        cli.withStore(async (session) => {
          const { output, name } = session;
          const choice = taskChoice(task, prefix, "waymark delete build-42");
          const found =
            "prefix" in choice
              ? await findRemovalOfTasks(session, choice.prefix)
              : await findRemoval(session, choice.task, id);
          if (found === undefined) {
            const nothing = `There is no task that begins with ${JSON.stringify(prefix)} in ${name}.`;
            return output.line(json ? jsonText({ tasks: 0, removed: 0, damaged: 0 }) : printable(nothing));
          }
          const { what, tasks, damaged, remove } = found;
          await confirm(session, `Remove ${what} from ${name}?`, yes === true);
          const removed = await remove({ force });
          if (json) return output.line(jsonText({ tasks, removed, damaged }));
          const of = tasks === undefined ? "" : `${counted(tasks, "task")} with `;
          const which = damaged === 0 ? "" : `, ${damaged} of them damaged`;
          await output.line(`Removed ${of}${counted(removed, "checkpoint")}${which}.`);
        }),
      );
  },
};
