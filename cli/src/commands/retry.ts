import { type PutBack, retryTasks } from "../actions/runs.js";
import type { CommandFile } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText } from "../printable.js";
import { taskChoice } from "../task-choice.js";
import { counted, countText } from "../words.js";

export const retry: CommandFile = {
  example: "waymark retry build-42",
  group: "workers",
  register(program, cli) {
    program
      .command("retry")
      .summary("put failed tasks back")
      .description(
        "Puts failed tasks back, so that a worker, or the next run, continues them. The step that failed is tried again. " +
          "A child run waits until its parent run continues it. " +
          "Cancelled tasks stay cancelled.",
      )
      .argument("[task]")
      .option("--prefix <text>", "all failed tasks whose id begins with this")
      .option("--from <step>", 'run the task\'s steps again from this one on: "model 2"')
      .option("--json", "for programs: how many were put back")
      .action((task, { prefix, from, json }) =>
        cli.withStore(async (session) => {
          const choice = taskChoice(task, prefix, "waymark retry build-42");
          if (from !== undefined && (from === "" || "prefix" in choice)) {
            throw new CommandError(ExitCode.usage, "--from needs one task, and the name of one of its steps.");
          }
          const done = await retryTasks(session, choice, from);
          await session.output.line(json ? jsonText({ retried: done.retried }) : putBackText(done, "task" in choice));
        }),
      );
  },
};

/** @param isOne - One task was named. A prefix may also have put back the parents of child runs. */
function putBackText({ retried, children }: PutBack, isOne: boolean): string {
  const back = `Put back ${counted(retried, "task")}.`;
  if (children === 0) return back;
  const which = retried === 1 ? "It" : children === retried ? "Each of them" : `${countText(children)} of them`;
  const reason = "began within another run: no worker takes a child run, only its parent run continues it.";
  return `${back} ${which} ${reason}${isOne ? " If the parent run also failed, put its task back as well." : ""}`;
}
