import { findRemoval } from "../actions/change-task.js";
import type { CommandFile } from "../cli.js";
import { confirm } from "../confirm.js";
import { jsonText } from "../printable.js";
import { counted } from "../words.js";

export const deleteCommand: CommandFile = {
  example: "waymark delete build-42 @3 --yes",
  register(program, cli) {
    program
      .command("delete")
      .summary("remove checkpoints")
      .description(
        "Removes a task with all its checkpoints, or one checkpoint, damaged or not. ID is an id, @7 or @latest. " +
          "A thread of LangGraph is only removed as a whole. This can't be undone.",
      )
      .argument("<task>")
      .argument("[id]")
      .option("--yes", "don't ask")
      .option("--force", "remove it even while somebody runs the task")
      .option("--json", "for programs: how many were removed")
      .action((task, id, { yes, force, json }) =>
        cli.withStore(async (session) => {
          const { what, damaged, remove } = await findRemoval(session, task, id);
          await confirm(session, `Remove ${what} from ${session.name}?`, yes === true);
          const removed = await remove({ force });
          const which = damaged === 0 ? "" : `, ${damaged} of them damaged`;
          await session.output.line(
            json ? jsonText({ removed, damaged }) : `Removed ${counted(removed, "checkpoint")}${which}.`,
          );
        }),
      );
  },
};
