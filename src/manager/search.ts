import type { CheckpointQuery } from "../contract/adapter.js";
import type { Checkpoint } from "../contract/checkpoint.js";
import type { CheckpointReader } from "./reader.js";

/** Returns whether the condition of a search holds for a checkpoint; `undefined` if it can't decide. */
export type Predicate<State> = (checkpoint: Checkpoint<State>) => boolean | undefined | Promise<boolean | undefined>;

/**
 * Finds the oldest of the query's checkpoints for which the predicate holds. It tests the oldest and the newest, then
 * halves the range between the newest known failure and the oldest known success. If the predicate can't decide for a
 * checkpoint, it tests the next newer one. It tests no checkpoint twice.
 *
 * @throws {TypeError} The predicate isn't a function, or returns a value of another type.
 */
export async function firstWhere<State>(
  reader: CheckpointReader<State>,
  query: CheckpointQuery,
  predicate: Predicate<State>,
): Promise<Checkpoint<State> | undefined> {
  if (typeof predicate !== "function") throw new TypeError("firstWhere needs a function that takes a checkpoint.");
  const firstAnswer = async (part: Partial<CheckpointQuery>) => {
    for await (const checkpoint of reader.all({ ...query, ...part })) {
      const holds = answered(await predicate(checkpoint));
      if (holds !== undefined) return { checkpoint, holds };
    }
    return undefined;
  };
  const oldest = await firstAnswer({ order: "oldest" });
  if (oldest === undefined || oldest.holds) return oldest?.checkpoint;
  let below = oldest.checkpoint.sequence;
  const newest = await firstAnswer({ order: "newest", afterSequence: below });
  if (newest === undefined || !newest.holds) return undefined;
  let found = newest.checkpoint;
  // No checkpoint between `below` and `above` has been tested yet.
  let above = found.sequence;
  while (above - below > 1) {
    const middle = below + Math.floor((above - below) / 2);
    const answer = await firstAnswer({ order: "oldest", afterSequence: middle - 1, beforeSequence: above });
    if (answer?.holds === false) below = answer.checkpoint.sequence;
    // Either the predicate holds for the first checkpoint with an answer, or no checkpoint from the middle up to
    // `above` has an answer.
    else above = middle;
    if (answer?.holds) found = answer.checkpoint;
  }
  return found;
}

function answered(answer: unknown): boolean | undefined {
  if (answer === undefined || typeof answer === "boolean") return answer;
  throw new TypeError(
    `The predicate of firstWhere must return true, false, or undefined if it can't decide; it returned ${typeof answer}.`,
  );
}
