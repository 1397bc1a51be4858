import type { Checkpoint } from "waymark";
import { describeCheckpoint } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { plainJson } from "../plain-json.js";
import { jsonText } from "../printable.js";
import { type Bisection, bisectTask } from "../queries/bisect.js";
import { judge } from "../state-command.js";

export const bisect: CommandFile = {
  example: "waymark bisect build-42 --command ./ok",
  register(program, cli) {
    program
      .command("bisect")
      .summary("when it began to fail")
      .description(
        "Finds the first checkpoint whose state makes a command fail. The command gets the state as JSON on stdin. " +
          "Like git bisect, it searches by halves. It assumes that states are good up to some checkpoint and bad from there on, " +
          "and tries both ends first. The command exits with 0 for good, 125 to skip a checkpoint, 1 to 124 for bad. " +
          "WAYMARK_SEQUENCE and WAYMARK_CHECKPOINT name the checkpoint.",
      )
      .argument("<task>")
      .requiredOption("--command <cmd>", "run in the shell")
      .option("--good <id>", "a good checkpoint, an id or @7; default: the oldest")
      .option("--bad <id>", "a bad checkpoint; default: the newest")
      .option("--json", "for programs: the checkpoint found, and the last good one or null")
      .action((task, { command, good, bad, json }) =>
        cli.withStore(async (session) => {
          const judgeState = async (checkpoint: Checkpoint) => {
            const { taskId, sequence, state } = checkpoint;
            const showCommand = session.commandText("show", [taskId, `@${sequence}`], ["--state"]);
            const verdict = await judge(command, jsonText(plainJson(state)), checkpoint, showCommand);
            await session.errors.line(`${describeCheckpoint(checkpoint)}: ${verdict}`);
            return verdict;
          };
          const found = await bisectTask(session, { task, good, bad, judge: judgeState });
          if (json) await session.output.line(jsonText(found));
          else await print(session, found);
        }),
      );
  },
};

async function print({ output, commandText }: Session, { firstBad, lastGood }: Bisection): Promise<void> {
  await output.line(output.colors.bold(`The first bad checkpoint is ${describeCheckpoint(firstBad)}`));
  if (lastGood === null) {
    await output.line("No good one is known: the oldest readable checkpoint already fails.");
    return;
  }
  await output.line(`The last good one is ${describeCheckpoint(lastGood)}`);
  const see = commandText("diff", [firstBad.taskId, `@${lastGood.sequence}`, `@${firstBad.sequence}`]);
  await output.line(`See: ${see}`);
}
