import type { Checkpoint, CheckpointSummary } from "waymark";
import { isCorrupt, toSummary } from "waymark/adapter";
import { findCheckpoint, requireTask } from "../checkpoints.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { shownStates } from "../shown-states.js";
import type { Verdict } from "../state-command.js";
import type { QuerySession } from "../store.js";
import { counted } from "../words.js";

export interface BisectQuery {
  /** A word on the command line that names the task. */
  readonly task: string;
  /** Default: the oldest checkpoint. */
  readonly good?: string | undefined;
  /** Default: the newest checkpoint. */
  readonly bad?: string | undefined;
  readonly judge: (checkpoint: Checkpoint) => Promise<Verdict>;
}

export interface Bisection {
  readonly firstBad: CheckpointSummary;
  /** Null if the oldest checkpoint already fails. */
  readonly lastGood: CheckpointSummary | null;
}

/**
 * Finds the first bad checkpoint by binary search.
 *
 * @throws {CommandError} The ends aren't good and bad, or the first bad checkpoint may be one that was skipped.
 */
export async function bisectTask(session: QuerySession, { task, judge, ...query }: BisectQuery): Promise<Bisection> {
  const taskId = await requireTask(session, task);
  const good = query.good === undefined ? undefined : await findCheckpoint(session, taskId, query.good);
  const bad = query.bad === undefined ? undefined : await findCheckpoint(session, taskId, query.bad);
  if (good !== undefined && bad !== undefined && good.sequence >= bad.sequence) {
    throw new CommandError(
      ExitCode.usage,
      "There is nothing between good and bad: bisect needs a good checkpoint and a later bad one.",
    );
  }
  let lastGood: CheckpointSummary | undefined;
  const skipped: CheckpointSummary[] = [];
  const states = await shownStates(session, taskId);
  const firstBad = await states.firstWhere(
    taskId,
    async (checkpoint) => {
      const verdict = await judge(checkpoint);
      if (verdict === "skip") skipped.push(checkpoint);
      else if (verdict === "good" && checkpoint.sequence > (lastGood?.sequence ?? 0)) lastGood = checkpoint;
      return verdict === "skip" ? undefined : verdict === "bad";
    },
    { afterSequence: good && good.sequence - 1, beforeSequence: bad && bad.sequence + 1 },
  );
  if (firstBad === undefined) {
    const advice = "Either no state fails, or bad states come before good ones. Name a bad checkpoint with --bad.";
    if (lastGood !== undefined) throw unexpected(lastGood, "bad", advice);
    throw new CommandError(ExitCode.failed, "No checkpoint could be judged. Name others with --good and --bad.");
  }
  if (firstBad.id === good?.id) throw unexpected(firstBad, "good", "Name an older good checkpoint with --good.");
  lastGood ??= good;
  const between = skipped
    .map(({ sequence }) => sequence)
    .filter((sequence) => sequence > (lastGood?.sequence ?? 0) && sequence < firstBad.sequence);
  if (between.length > 0) {
    throw new CommandError(
      ExitCode.failed,
      `The first bad one is among the ${counted(between.length + 1, "checkpoint")} from @${Math.min(...between)} to @${firstBad.sequence}: ` +
        "the command skipped all but the last of them.",
    );
  }
  return { firstBad: await asStored(session, firstBad), lastGood: lastGood ? await asStored(session, lastGood) : null };
}

/** Returns the summary as stored. `shown` has the version and size of the converted state. */
async function asStored({ storage }: QuerySession, shown: CheckpointSummary): Promise<CheckpointSummary> {
  const stored = await storage.get(shown.taskId, shown.id);
  return toSummary(stored === undefined || isCorrupt(stored) ? shown : stored);
}

function unexpected({ sequence }: CheckpointSummary, expected: "good" | "bad", advice: string): CommandError {
  const found = expected === "good" ? "bad" : "good";
  return new CommandError(ExitCode.failed, `Checkpoint @${sequence} should be ${expected}, and is ${found}. ${advice}`);
}
