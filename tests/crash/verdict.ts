import { isDeepStrictEqual } from "node:util";
import { type CheckpointSummary, type CorruptRecord, isCorrupt, type StoredCheckpoint } from "waymark";
import { draft, isWhole } from "../unit/adapters/files/drafts.js";
import type { Answer } from "./crash-process.js";
import { type Call, type Contents, keyOf } from "./operations.js";

type Found = StoredCheckpoint | CorruptRecord;

const TASKS = ["t", "u", "other"];
const EXAMINED = TASKS.length + 4;

/**
 * What is asked of a store after a crash: all there is, to save, and all there is again.
 *
 * @param id - Of what is saved, into task `t`.
 */
export function examination(id: string): readonly Call[] {
  return [
    ...TASKS.map((taskId): Call => ["read", { taskId, order: "oldest" }]),
    ["list", { taskId: "t", order: "oldest" }],
    ["tasks", { order: "taskId" }],
    ["append", draft("t", id)],
    ["read", { taskId: "t", order: "oldest" }],
  ];
}

/**
 * What is wrong with a store after a crash: nothing, as it should be.
 *
 * @param answers - To the {@link examination}.
 * @param before - What it had to hold after all that was acknowledged.
 * @param after - What it had to hold after the call that was interrupted, if one was.
 */
export function wrongs(answers: readonly Answer[], before: Contents, after: Contents): string[] {
  const failed = answers.filter(({ code }) => code !== undefined).map(({ code, message }) => `${code}: ${message}`);
  if (failed.length > 0 || answers.length !== EXAMINED) {
    return [`${answers.length} of ${EXAMINED} calls were answered`, ...failed];
  }
  const [inT = [], inU = [], inOther = [], listed = [], tasks = [], next, inTAfterwards = []] = answers.map(
    ({ value }) => value,
  ) as [Found[], Found[], Found[], CheckpointSummary[], object[], number, Found[]];
  const found = [...inT, ...inU, ...inOther];
  return [
    ...wrongCheckpoints(found, before, after),
    ...wrongOrder(inT),
    ...wrongOrder(inTAfterwards),
    ...(isDeepStrictEqual(listed.map(keyOf), (inT as StoredCheckpoint[]).map(keyOf))
      ? []
      : [`list gives ${JSON.stringify(listed)}, read ${JSON.stringify(inT)}`]),
    ...(tasks.length === new Set(found.map(({ taskId }) => taskId)).size
      ? []
      : [`tasks gives ${JSON.stringify(tasks)}, and there is ${JSON.stringify(found)}`]),
    ...wrongNext(next, inT, before, after),
    ...(inTAfterwards.length === inT.length + 1 ? [] : [`the next save left ${JSON.stringify(inTAfterwards)}`]),
  ];
}

/** Each is as it was before, or as it is after; what is the same in both must be there. */
function wrongCheckpoints(found: readonly Found[], before: Contents, after: Contents): string[] {
  const wrong: string[] = [];
  const seen = new Set<string>();
  for (const one of found) {
    if (isCorrupt(one)) {
      wrong.push(`corrupt: ${JSON.stringify(one)}`);
      continue;
    }
    const key = keyOf(one);
    seen.add(key);
    const allowed = [before, after].map(({ checkpoints }) => checkpoints.get(key));
    if (!isWhole(one) || !allowed.some((other) => isDeepStrictEqual(one, other))) {
      wrong.push(`${key} was never saved like this: ${JSON.stringify(one).slice(0, 500)}`);
    }
  }
  for (const key of before.checkpoints.keys()) {
    if (after.checkpoints.has(key) && !seen.has(key)) wrong.push(`lost: ${key}`);
  }
  return wrong;
}

function wrongOrder(found: readonly Found[]): string[] {
  const sequences = found.map(({ sequence = 0 }) => sequence);
  const ascends = sequences.every((sequence, at) => sequence > (sequences[at - 1] ?? 0));
  return ascends ? [] : [`sequences are ${sequences.join(", ")}`];
}

/** Above all that were given, unless the task was removed. */
function wrongNext(next: number, found: readonly Found[], before: Contents, after: Contents): string[] {
  const least = Math.min(before.next, after.next);
  const most = Math.max(before.next, after.next);
  const newest = found.at(-1)?.sequence ?? 0;
  return next >= least && next <= most && next > newest
    ? []
    : [`the next save got the sequence ${next}, and not one of ${least} to ${most} above ${newest}`];
}
