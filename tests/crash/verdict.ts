import { isDeepStrictEqual } from "node:util";
import type { CheckpointSummary, CorruptRecord } from "waymark";
import { isCorrupt, type StoredCheckpoint } from "waymark/adapter";
import type { LogItem } from "../../src/contract/log.js";
import { draft, isWhole } from "../unit/adapters/files/drafts.js";
import type { Answer } from "./crash-process.js";
import { WRONG_DATE } from "./damage.js";
import { type Call, type Contents, keyOf, type Question, RECORD_QUERIES, REPAIR } from "./operations.js";

type Found = StoredCheckpoint | CorruptRecord;

const TASKS = ["t", "u", "other"];

/**
 * Returns the calls that examine a store after a crash: read everything, save, repair, and read everything again.
 *
 * @param id - The id of the new checkpoint in task `t`.
 */
export function examination(id: string): readonly Question[] {
  const all: readonly Question[] = [["read", { taskId: "t", order: "oldest" }], ["quarantined"]];
  return [
    ...all,
    ...TASKS.slice(1).map((taskId): Call => ["read", { taskId, order: "oldest" }]),
    ["list", { taskId: "t", order: "oldest" }],
    ["tasks", { order: "taskId" }],
    ...RECORD_QUERIES.map((query): Call => ["log.read", query]),
    ["append", draft("t", id)],
    REPAIR,
    ...all,
  ];
}

/**
 * Checks a store after a crash. Returns the violations; empty if there are none.
 *
 * @param answers - The answers to the {@link examination}.
 * @param before - The content after all acknowledged calls.
 * @param after - The content after the interrupted call, if there was one.
 */
export function wrongs(answers: readonly Answer[], before: Contents, after: Contents): string[] {
  const asked = examination("").length;
  const failed = answers.filter(({ code }) => code !== undefined).map(({ code, message }) => `${code}: ${message}`);
  if (failed.length > 0 || answers.length !== asked) {
    return [`${answers.length} of ${asked} calls were answered`, ...failed];
  }
  const [
    inT = [],
    moved = [],
    inU = [],
    inOther = [],
    listed = [],
    tasks = [],
    recordsOfT = [],
    recordsOfU = [],
    next,
    ,
    inTAtLast = [],
    movedAtLast = [],
  ] = answers.map(({ value }) => value) as [
    ...[Found[], string[], Found[], Found[], (CheckpointSummary | CorruptRecord)[], { count: number }[]],
    ...[LogItem[], LogItem[], number],
    ...[unknown, Found[], string[]],
  ];
  const found = [...inT, ...inU, ...inOther];
  const intact = inT.filter((one) => !isDamaged(one));
  return [
    ...wrongCheckpoints(found, before, after),
    ...wrongRecords([...recordsOfT, ...recordsOfU], found, before, after),
    ...wrongDamaged(found.filter(isDamaged), moved, before, after),
    ...wrongOrder(inT),
    ...wrongOrder(inTAtLast),
    ...(isDeepStrictEqual(listed.filter((one) => !isCorrupt(one)).map(keyOf), intact.map(keyOf))
      ? []
      : [`list gives ${JSON.stringify(listed)}, read ${JSON.stringify(inT)}`]),
    ...(tasks.filter(({ count }) => count > 0).length === new Set(found.map(({ taskId }) => taskId)).size
      ? []
      : [`tasks gives ${JSON.stringify(tasks)}, and there is ${JSON.stringify(found)}`]),
    ...(isDeepStrictEqual(inTAtLast.slice(0, -1), intact) && inTAtLast.at(-1)?.sequence === next
      ? []
      : [`the next save and a repair left ${JSON.stringify(inTAtLast)}`]),
    ...(movedAtLast.length === before.damaged.keys.length
      ? wrongDamaged([], movedAtLast, after, after)
      : [`${movedAtLast.length} records are in quarantine, and ${before.damaged.keys.join(", ")} were damaged`]),
  ];
}

/** Whether an item is a corrupt record or has the wrong date. The manager returns neither. */
function isDamaged(one: Found): one is CorruptRecord {
  return isCorrupt(one) || !isWhole(one);
}

/**
 * Checks that each damaged checkpoint is either reported by reads of the store or whole in quarantine with its reason.
 */
function wrongDamaged(stored: readonly Found[], moved: readonly string[], before: Contents, after: Contents) {
  const mayBeStored = before.damaged.are === "stored" ? before.damaged.keys : [];
  const told = stored.map(keyOf);
  const wrong = told.filter((key) => !mayBeStored.includes(key)).map((key) => `corrupt: ${key}`);
  const texts = moved.filter((text) => text.includes(WRONG_DATE));
  if (texts.length !== moved.length) wrong.push(`in quarantine: ${moved.join(", ")}`);
  for (const key of after.damaged.keys) {
    const isMoved = texts.some((text) => text.includes(`"id":"${key.slice("t/".length)}"`));
    if (!isMoved && !told.includes(key)) wrong.push(`${key} was damaged, and is neither told of nor in quarantine`);
  }
  return wrong;
}

/**
 * Checks that each checkpoint equals its form before or after the call. A checkpoint in both contents must be stored.
 */
function wrongCheckpoints(found: readonly Found[], before: Contents, after: Contents): string[] {
  const wrong: string[] = [];
  const seen = new Set<string>();
  for (const one of found) {
    if (isDamaged(one)) continue;
    const key = keyOf(one);
    seen.add(key);
    const allowed = [before, after].map(({ checkpoints }) => checkpoints.get(key));
    if (!allowed.some((other) => isDeepStrictEqual(one, other))) {
      wrong.push(`${key} was never saved like this: ${JSON.stringify(one).slice(0, 500)}`);
    }
  }
  // A replaced checkpoint must not be removed before the append.
  const isAppended = [...after.checkpoints.keys()].every((key) => before.checkpoints.has(key) || seen.has(key));
  for (const key of before.checkpoints.keys()) {
    if ((after.checkpoints.has(key) || !isAppended) && !seen.has(key)) wrong.push(`lost: ${key}`);
  }
  return wrong;
}

/** Checks that all or none of a write's records are stored, together with its checkpoint. */
function wrongRecords(items: readonly LogItem[], found: readonly Found[], before: Contents, after: Contents): string[] {
  // A read of records also reports damaged checkpoints.
  const records = items.filter((item) => before.damaged.keys.length === 0 || !isCorrupt(item));
  const stored = [before, after].find((contents) => isDeepStrictEqual(records, contents.records));
  if (stored === undefined) return [`the records are ${JSON.stringify(records)}`];
  // A removal may be interrupted between records and checkpoints.
  return after.records.length <= before.records.length ? [] : wrongCheckpoints(found, stored, stored);
}

function wrongOrder(found: readonly Found[]): string[] {
  // The sequence of a damaged record may be unknown.
  const sequences = found.flatMap(({ sequence }) => sequence ?? []);
  const ascends = sequences.every((sequence, at) => sequence > (sequences[at - 1] ?? 0));
  return ascends ? [] : [`sequences are ${sequences.join(", ")}`];
}
