import { retryTasks } from "../actions/runs.js";
import type { CommandFile } from "../cli.js";
import { jsonText } from "../printable.js";
import { taskChoice } from "../task-choice.js";
import { counted } from "../words.js";

export const retry: CommandFile = {
  example: "waymark retry build-42",
  group: "workers",
  register(program, cli) {
    program
      .command("retry")
      .summary("put failed tasks back")
      .description(
        "Puts failed tasks back, so that a worker, or the next run, goes on with them. The step that failed is tried again. " +
          "Cancelled tasks stay as they are.",
      )
      .argument("[task]")
      .option("--prefix <text>", "all failed tasks whose id begins with this")
      .option("--json", "for programs: how many were put back")
      .action((task, { prefix, json }) =>
        cli.withStore(async (session) => {
          const retried = await retryTasks(session, taskChoice(task, prefix, "waymark retry build-42"));
          await session.output.line(json ? jsonText({ retried }) : `Put back ${counted(retried, "task")}.`);
        }),
      );
  },
};
