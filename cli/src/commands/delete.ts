import { findCheckpoint, requireTask, titleOf } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { jsonText } from "../printable.js";
import { bytesText, counted } from "../words.js";

export const deleteCommand: CommandFile = {
  example: "waymark delete build-42 @3 --yes",
  register(program, cli) {
    program
      .command("delete")
      .summary("remove checkpoints")
      .description(
        "Removes a task with all its checkpoints, or one of them: ID is an id, @7 or @latest. It can't be undone.",
      )
      .argument("<task>")
      .argument("[id]")
      .option("--yes", "don't ask")
      .option("--json", "for programs: how many were removed")
      .action((taskId, id, options) =>
        cli.withStore(async (session) => {
          const { output, manager, name } = session;
          await requireTask(session, taskId);
          let removed: number;
          if (id === undefined) {
            const { count, bytes } = await sizeOf(session, taskId);
            const what = `task ${JSON.stringify(taskId)} with ${counted(count, "checkpoint")} (${bytesText(bytes)})`;
            await confirm(`Remove ${what} from ${name}?`, options.yes === true);
            removed = await manager.removeTask(taskId);
          } else {
            const checkpoint = await findCheckpoint(session, taskId, id);
            const what = `checkpoint ${titleOf(checkpoint)} of task ${JSON.stringify(taskId)}`;
            await confirm(`Remove ${what} from ${name}?`, options.yes === true);
            removed = (await manager.remove(taskId, checkpoint.id)) ? 1 : 0;
          }
          await output.line(options.json ? jsonText({ removed }) : `Removed ${counted(removed, "checkpoint")}.`);
        }),
      );
  },
};

/** What goes with a task: what can't be read is counted too. */
async function sizeOf(
  { storage }: Session,
  taskId: string,
): Promise<{ readonly count: number; readonly bytes: number }> {
  let count = 0;
  let bytes = 0;
  for await (const checkpoint of storage.list({ taskId, order: "newest" })) {
    count += 1;
    if ("sizeBytes" in checkpoint) bytes += checkpoint.sizeBytes;
  }
  return { count, bytes };
}
