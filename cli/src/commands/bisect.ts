import type { CheckpointSummary } from "waymark";
import { findCheckpoint, requireTask, titleOf } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { DamagedCheckpointError } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { readState } from "../langgraph/thread-state.js";
import { wholeIn } from "../langgraph/whole-checkpoints.js";
import { plainJson } from "../plain-json.js";
import { jsonText } from "../printable.js";
import { readableSummaries } from "../read-stored.js";
import { judge, type Verdict } from "../state-command.js";
import { counted } from "../words.js";

export const bisect: CommandFile = {
  example: "waymark bisect build-42 --command ./ok",
  register(program, cli) {
    program
      .command("bisect")
      .summary("when it began to fail")
      .description(
        "Finds the first checkpoint whose state, as JSON on its stdin, makes a command fail, by binary search. " +
          "As git bisect does, it assumes that states are good up to some checkpoint and bad from there on; " +
          "it tries both ends first. The command exits with 0 for good, 125 to skip one, 1 to 124 for bad. " +
          "WAYMARK_SEQUENCE and WAYMARK_CHECKPOINT name the checkpoint.",
      )
      .argument("<task>")
      .requiredOption("--command <cmd>", "run in the shell")
      .option("--good <id>", "begin here: an id or @7; default: the oldest")
      .option("--bad <id>", "end here; default: the newest")
      .option("--json", "for programs: the checkpoint found, and the last good one or null")
      .action((task, options) =>
        cli.withStore(async (session) => {
          const taskId = await requireTask(session, task);
          const good = options.good === undefined ? undefined : await findCheckpoint(session, taskId, options.good);
          const bad = options.bad === undefined ? undefined : await findCheckpoint(session, taskId, options.bad);
          const search = new Search(session, options.command, await between(session, taskId, good, bad));
          const found = await search.run(good !== undefined);
          if (options.json) await session.output.line(jsonText(found));
          else await print(session, taskId, found);
        }),
      );
  },
};

/** What was looked for. */
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

/** The summaries of the checkpoints to search, oldest first. */
async function between(
  session: Session,
  taskId: string,
  good: CheckpointSummary | undefined,
  bad: CheckpointSummary | undefined,
): Promise<CheckpointSummary[]> {
  const afterSequence = good && good.sequence - 1;
  const beforeSequence = bad && bad.sequence + 1;
  const isWhole = await wholeIn(session, taskId);
  return (await readableSummaries(session, { taskId, order: "oldest", afterSequence, beforeSequence })).filter(isWhole);
}

/** A binary search over checkpoints, some of which may have no verdict. */
class Search {
  readonly #session: Session;
  readonly #command: string;
  readonly #checkpoints: readonly CheckpointSummary[];
  readonly #skipped = new Set<number>();

  constructor(session: Session, command: string, checkpoints: readonly CheckpointSummary[]) {
    this.#session = session;
    this.#command = command;
    this.#checkpoints = checkpoints;
  }

  /** @param isGoodNamed - `--good` was given. Otherwise the first checkpoint may itself be the first bad one. */
  async run(isGoodNamed: boolean): Promise<Found> {
    let good = 0;
    let bad = this.#checkpoints.length - 1;
    if (bad < (isGoodNamed ? 1 : 0)) {
      throw new CommandError(
        ExitCode.usage,
        "There is nothing between good and bad: bisect needs two checkpoints or more, the good one before the bad one.",
      );
    }
    const first = await this.#judge(good);
    if (first === "bad" && !isGoodNamed) return { firstBad: this.#at(good), lastGood: null };
    this.#expect(good, first, "good", isGoodNamed ? "Name an older one with --good." : "Name one with --good.");
    const last = bad === good ? first : await this.#judge(bad);
    this.#expect(bad, last, "bad", "No state fails, or the order isn't good to bad; name a bad one with --bad.");
    for (let middle = this.#between(good, bad); middle !== undefined; middle = this.#between(good, bad)) {
      const verdict = await this.#judge(middle);
      if (verdict === "good") good = middle;
      else if (verdict === "bad") bad = middle;
      else this.#skipped.add(middle);
    }
    if (bad - good > 1) throw this.#undecided(good, bad);
    return { firstBad: this.#at(bad), lastGood: this.#at(good) };
  }

  #expect(index: number, verdict: Verdict, expected: Verdict, advice: string): void {
    if (verdict === expected) return;
    const { sequence } = this.#at(index);
    const found = verdict === "skip" ? "could not be judged" : `is ${verdict}`;
    throw new CommandError(ExitCode.failed, `Checkpoint @${sequence} should be ${expected}, and ${found}. ${advice}`);
  }

  /** The one nearest to the middle without a verdict. */
  #between(good: number, bad: number): number | undefined {
    const middle = Math.floor((good + bad) / 2);
    for (let distance = 0; distance < bad - good; distance++) {
      for (const index of [middle + distance, middle - distance]) {
        if (index > good && index < bad && !this.#skipped.has(index)) return index;
      }
    }
    return undefined;
  }

  async #judge(index: number): Promise<Verdict> {
    const checkpoint = this.#at(index);
    const verdict = await this.#verdict(checkpoint);
    await this.#session.errors.line(`${titleOf(checkpoint)}: ${verdict}`);
    return verdict;
  }

  async #verdict(checkpoint: CheckpointSummary): Promise<Verdict> {
    let state: unknown;
    try {
      state = await readState(this.#session, checkpoint);
    } catch (error) {
      if (!(error instanceof DamagedCheckpointError)) throw error;
      await this.#session.damage.add(error.record);
      return "skip";
    }
    const { taskId, sequence } = checkpoint;
    const showCommand = this.#session.commandText("show", [taskId, `@${sequence}`], ["--state"]);
    return judge(this.#command, jsonText(plainJson(state)), checkpoint, showCommand);
  }

  #undecided(good: number, bad: number): CommandError {
    const first = this.#at(good + 1).sequence;
    const open = counted(bad - good, "checkpoint");
    return new CommandError(
      ExitCode.failed,
      `The first bad one is among the ${open} from @${first} to @${this.#at(bad).sequence}: all before the last of them were skipped.`,
    );
  }

  #at(index: number): CheckpointSummary {
    const checkpoint = this.#checkpoints[index];
    if (checkpoint === undefined) throw new RangeError(`There is no checkpoint ${index} to look at.`);
    return checkpoint;
  }
}
