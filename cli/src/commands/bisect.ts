import type { Checkpoint, CheckpointSummary } from "waymark";
import { findCheckpoint, requireTask, titleOf } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { firstOf } from "../first-of.js";
import { wholeIn } from "../langgraph/whole-checkpoints.js";
import { plainJson } from "../plain-json.js";
import { jsonText } from "../printable.js";
import { readableSummaries } from "../read-stored.js";
import { shownStates } from "../shown-states.js";
import { judge, type Verdict } from "../state-command.js";
import { counted } from "../words.js";

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
      .action((task, options) =>
        cli.withStore(async (session) => {
          const taskId = await requireTask(session, task);
          const good = options.good === undefined ? undefined : await findCheckpoint(session, taskId, options.good);
          const bad = options.bad === undefined ? undefined : await findCheckpoint(session, taskId, options.bad);
          const found = await search(session, taskId, options.command, { good, bad });
          if (options.json) await session.output.line(jsonText(found));
          else await print(session, taskId, found);
        }),
      );
  },
};

interface Found {
  readonly firstBad: CheckpointSummary;
  /** Null if the oldest checkpoint already fails. */
  readonly lastGood: CheckpointSummary | null;
}

async function print({ output, commandText }: Session, taskId: string, { firstBad, lastGood }: Found): Promise<void> {
  await output.line(output.colors.bold(`The first bad checkpoint is ${titleOf(firstBad)}`));
  if (lastGood === null) {
    await output.line("No good one is known: the oldest readable checkpoint already fails.");
    return;
  }
  await output.line(`The last good one is ${titleOf(lastGood)}`);
  const see = commandText("diff", [taskId, `@${lastGood.sequence}`, `@${firstBad.sequence}`]);
  await output.line(`See: ${see}`);
}

/** Where to search. Default: from the oldest to the newest. */
interface Ends {
  readonly good: CheckpointSummary | undefined;
  readonly bad: CheckpointSummary | undefined;
}

async function search(session: Session, taskId: string, command: string, { good, bad }: Ends): Promise<Found> {
  if (good !== undefined && bad !== undefined && good.sequence >= bad.sequence) {
    throw new CommandError(
      ExitCode.usage,
      "There is nothing between good and bad: bisect needs a good checkpoint and a later bad one.",
    );
  }
  const afterSequence = good && good.sequence - 1;
  const beforeSequence = bad && bad.sequence + 1;
  let lastGood: CheckpointSummary | undefined;
  const states = await shownStates(session, taskId);
  const firstBad = await states.firstWhere(
    taskId,
    async (checkpoint) => {
      const verdict = await judgeState(session, command, checkpoint);
      if (verdict === "good" && checkpoint.sequence > (lastGood?.sequence ?? 0)) lastGood = checkpoint;
      return verdict === "skip" ? undefined : verdict === "bad";
    },
    { afterSequence, beforeSequence },
  );
  if (firstBad === undefined) {
    throw lastGood === undefined
      ? new CommandError(ExitCode.failed, "No checkpoint could be judged. Name others with --good and --bad.")
      : unexpected(
          lastGood,
          "bad",
          "Either no state fails, or bad states come before good ones. Name a bad checkpoint with --bad.",
        );
  }
  if (firstBad.id === good?.id) throw unexpected(firstBad, "good", "Name an older good checkpoint with --good.");
  return between(session, lastGood ?? good, firstBad);
}

async function judgeState(session: Session, command: string, checkpoint: Checkpoint): Promise<Verdict> {
  const { taskId, sequence, state } = checkpoint;
  const showCommand = session.commandText("show", [taskId, `@${sequence}`], ["--state"]);
  const verdict = await judge(command, jsonText(plainJson(state)), checkpoint, showCommand);
  await session.errors.line(`${titleOf(checkpoint)}: ${verdict}`);
  return verdict;
}

function unexpected({ sequence }: CheckpointSummary, expected: "good" | "bad", advice: string): CommandError {
  const found = expected === "good" ? "bad" : "good";
  return new CommandError(ExitCode.failed, `Checkpoint @${sequence} should be ${expected}, and is ${found}. ${advice}`);
}

/**
 * Returns the two stored checkpoints if no checkpoint lies between them.
 *
 * @throws {CommandError} The checkpoints between them were skipped, so one of those may be the first bad one.
 */
async function between(session: Session, good: CheckpointSummary | undefined, bad: CheckpointSummary): Promise<Found> {
  const { taskId, sequence } = bad;
  const query = {
    taskId,
    order: "oldest",
    afterSequence: good && good.sequence - 1,
    beforeSequence: sequence + 1,
  } as const;
  const found = (await firstOf(readableSummaries(session, query))).filter(await wholeIn(session, taskId));
  const skipped = found.filter((one) => one.sequence !== good?.sequence && one.sequence !== sequence);
  const [first] = skipped;
  if (first === undefined) {
    const stored = (one: CheckpointSummary) => found.find(({ id }) => id === one.id) ?? one;
    return { firstBad: stored(bad), lastGood: good === undefined ? null : stored(good) };
  }
  throw new CommandError(
    ExitCode.failed,
    `The first bad one is among the ${counted(skipped.length + 1, "checkpoint")} from @${first.sequence} to @${sequence}: ` +
      "the command skipped all but the last of them.",
  );
}
