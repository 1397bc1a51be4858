import { checkKeys } from "../contract/adapter.js";
import { type CheckpointSummary, summaryOf } from "../contract/checkpoint.js";
import { checkInteger } from "./arguments.js";

/**
 * What of a task is kept. A checkpoint stays if any keep rule claims it; a policy without keep rules claims all of
 * them. Then the limits take away. At least one part must be given.
 *
 * Whatever the policy says, a task doesn't change its standing: the newest checkpoint of an incomplete task always
 * stays, and that of a completed task stays as long as an unfinished one does, since without it the task would be
 * offered for resuming.
 *
 * Hours, days, weeks (ISO 8601) and months are those of `createdAt` in UTC. Which checkpoint is newer is told by
 * sequence alone: a clock that was set wrong can put a checkpoint into the wrong day, but never before its elders.
 */
export interface RetentionPolicy {
  /** Claims the newest so many, from 1. "None at all" is `maxBytes: 0`, not `keepLast: 0`. */
  readonly keepLast?: number | undefined;
  /** Claims what is at most so many milliseconds old, from 1. */
  readonly keepWithinMs?: number | undefined;
  /** Claims the newest of each hour, for the so many most recent hours that have any; from 1, as all of these. */
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  /** Claims every checkpoint of these stages. */
  readonly keepStages?: readonly string[] | undefined;
  /** Takes away what is older, claimed or not; from 0. */
  readonly maxAgeMs?: number | undefined;
  /**
   * Takes away until the task's payloads fit, from 0: checkpoints that are `completed` first, then the oldest first,
   * and the task's newest last of all.
   */
  readonly maxBytes?: number | undefined;
}

/** One checkpoint of a plan. */
export interface PlannedCheckpoint {
  readonly checkpoint: CheckpointSummary;
  /** Why it stays, or why it goes, in words for people; at least one. */
  readonly reasons: readonly string[];
}

/** What a policy would keep and remove of one task. Plain JSON: it can be written to a file and read back. */
export interface RetentionPlan {
  readonly taskId: string;
  /** The policy, without the parts that were `undefined`. */
  readonly policy: RetentionPolicy;
  /** ISO 8601 in UTC. */
  readonly plannedAt: string;
  /** Newest first. */
  readonly keep: readonly PlannedCheckpoint[];
  /** Newest first. */
  readonly remove: readonly PlannedCheckpoint[];
  readonly keepBytes: number;
  readonly removeBytes: number;
}

/**
 * What `policy` would keep and remove at `nowMs`, each with its reasons. Reads nothing, removes nothing, and leaves its
 * arguments as they are. A plan of what a plan keeps, made at the same time with the same policy, removes nothing more.
 *
 * @param taskId - Stands in the plan, for tasks too that have no checkpoint.
 * @param summaries - All checkpoints of that task, in any order. One whose `createdAt` is no date is in no bucket and
 *   has no age: only `keepLast`, `keepStages` and `maxBytes` concern it.
 * @throws {TypeError} A checkpoint of another task; or the policy is refused, see {@link checkRetentionPolicy}.
 * @throws {RangeError} `nowMs` is no time, or a part of the policy is out of range.
 */
export function planRetention(
  taskId: string,
  summaries: readonly CheckpointSummary[],
  policy: RetentionPolicy,
  nowMs: number,
): RetentionPlan {
  checkRetentionPolicy(policy);
  if (!Number.isFinite(nowMs)) throw new RangeError(`nowMs must be a time in milliseconds; it is ${nowMs}.`);
  const foreign = summaries.find((summary) => summary.taskId !== taskId);
  if (foreign !== undefined) {
    throw new TypeError(
      `A plan is for one task: checkpoint ${foreign.id} is of task ${JSON.stringify(foreign.taskId)}, not ${JSON.stringify(taskId)}.`,
    );
  }

  const verdicts = judge(summaries, policy, nowMs);
  settle(verdicts, policy.maxBytes);

  const keep = verdicts.filter(({ stays }) => stays);
  const remove = verdicts.filter(({ stays }) => !stays);
  return {
    taskId,
    policy: givenParts(policy),
    plannedAt: new Date(nowMs).toISOString(),
    keep: keep.map(({ checkpoint, claims }) => ({ checkpoint, reasons: claims })),
    remove: remove.map(({ checkpoint, objections }) => ({ checkpoint, reasons: objections })),
    keepBytes: bytesOf(keep),
    removeBytes: bytesOf(remove),
  };
}

/**
 * Why a plan no longer fits what is stored of its task: something it keeps is gone, or something it removes has another
 * status now. `undefined` where it fits: new checkpoints don't outdate a plan, nor does what is gone of those it removes.
 *
 * @param summaries - All checkpoints of the task now, in any order.
 */
export function whyOutdated(plan: RetentionPlan, summaries: Iterable<CheckpointSummary>): string | undefined {
  const now = new Map<string, CheckpointSummary>();
  for (const summary of summaries) now.set(summary.id, summary);
  const gone = plan.keep.find(({ checkpoint }) => !now.has(checkpoint.id));
  if (gone !== undefined) return `checkpoint ${gone.checkpoint.id}, which it keeps, is gone`;
  for (const { checkpoint } of plan.remove) {
    const status = now.get(checkpoint.id)?.status ?? checkpoint.status;
    if (status !== checkpoint.status) return `checkpoint ${checkpoint.id}, which it removes, is ${status} now`;
  }
  return undefined;
}

/**
 * Refuses a policy that says nothing, says it in words that don't exist, or in numbers that mean nothing.
 *
 * Keep rules are from 1: `keepLast: 0` could mean "no such rule" as well as "keep nothing", and the second can't be
 * undone. Leave a rule out to have it off. Limits are from 0, which can mean only one thing.
 *
 * @throws {TypeError} Empty or with `undefined` alone, an unknown part, a wrong type.
 * @throws {RangeError} A number that isn't whole or is too small; no stages, or an empty one.
 */
export function checkRetentionPolicy(policy: RetentionPolicy): void {
  checkKeys("A retention policy", policy, POLICY_KEYS);
  if (Object.keys(givenParts(policy)).length === 0) {
    throw new TypeError(
      'A retention policy must have at least one part. "Keep everything" is no policy; "keep nothing" is removeTask.',
    );
  }
  for (const key of KEEP_NUMBERS) checkInteger(`${key} of a retention policy`, policy[key], 1);
  for (const key of LIMITS) checkInteger(`${key} of a retention policy`, policy[key], 0);
  checkStages(policy.keepStages);
}

const KEEP_NUMBERS = ["keepLast", "keepWithinMs", "keepHourly", "keepDaily", "keepWeekly", "keepMonthly"] as const;
const LIMITS = ["maxAgeMs", "maxBytes"] as const;
const POLICY_KEYS: readonly string[] = [...KEEP_NUMBERS, "keepStages", ...LIMITS];

/** A checkpoint on its way into the plan. */
interface Verdict {
  readonly checkpoint: CheckpointSummary;
  /** Why it would stay. */
  readonly claims: string[];
  /** Why it would go. */
  readonly objections: string[];
  stays: boolean;
}

/** Whether a rule claims a checkpoint, and in which words. Rules are asked once per checkpoint, newest first. */
type KeepRule = (candidate: Candidate) => string | undefined;

interface Candidate {
  readonly checkpoint: CheckpointSummary;
  /** How many are newer. */
  readonly newer: number;
  /** NaN where `createdAt` is no date; every comparison with it is false then. */
  readonly createdAtMs: number;
}

/** Each checkpoint by itself: keep rules and age. Newest first. */
function judge(summaries: readonly CheckpointSummary[], policy: RetentionPolicy, nowMs: number): Verdict[] {
  const rules = keepRules(policy, nowMs);
  const oldestMs = nowMs - (policy.maxAgeMs ?? Number.POSITIVE_INFINITY);
  return summaries
    .map(summaryOf)
    .sort((a, b) => b.sequence - a.sequence)
    .map((checkpoint, newer) => {
      const candidate = { checkpoint, newer, createdAtMs: Date.parse(checkpoint.createdAt) };
      const claims = rules.map((rule) => rule(candidate)).filter((claim) => claim !== undefined);
      const objections = claims.length === 0 ? ["no rule keeps it"] : [];
      if (candidate.createdAtMs < oldestMs) objections.push(`older than ${durationText(policy.maxAgeMs ?? 0)}`);
      return { checkpoint, claims, objections, stays: objections.length === 0 };
    });
}

/** What concerns a task as a whole: its newest checkpoint, and its size. */
function settle(verdicts: readonly Verdict[], maxBytes = Number.POSITIVE_INFINITY): void {
  const [newest, ...older] = verdicts;
  if (newest === undefined) return;
  const incomplete = newest.checkpoint.status !== "completed";
  const unfinishedStays = () => older.some(({ checkpoint, stays }) => stays && checkpoint.status !== "completed");

  if (incomplete) newest.claims.push("newest of an incomplete task");
  else if (!newest.stays && unfinishedStays()) newest.claims.push("newest of a completed task with unfinished parts");
  newest.stays ||= incomplete || unfinishedStays();

  const tooMany = `over ${bytesText(maxBytes)} in all`;
  let bytes = bytesOf(verdicts.filter(({ stays }) => stays));
  for (const verdict of inOrderOfLoss(older)) {
    if (bytes <= maxBytes) break;
    if (!verdict.stays) continue;
    verdict.stays = false;
    verdict.objections.push(tooMany);
    bytes -= verdict.checkpoint.sizeBytes;
  }
  if (incomplete || unfinishedStays()) return;
  // Nothing depends on the newest any more, so it stands on its own merits.
  if (newest.stays && bytes > maxBytes) newest.objections.push(tooMany);
  newest.stays = newest.objections.length === 0;
}

function inOrderOfLoss(newestFirst: readonly Verdict[]): Verdict[] {
  const oldestFirst = newestFirst.toReversed();
  const isCompleted = ({ checkpoint }: Verdict) => checkpoint.status === "completed";
  return [...oldestFirst.filter(isCompleted), ...oldestFirst.filter((verdict) => !isCompleted(verdict))];
}

function keepRules(policy: RetentionPolicy, nowMs: number): KeepRule[] {
  const { keepLast, keepWithinMs, keepHourly, keepDaily, keepWeekly, keepMonthly, keepStages } = policy;
  const rules: KeepRule[] = [];
  if (keepLast !== undefined) {
    rules.push(({ newer }) => (newer < keepLast ? `last ${newer + 1} of ${keepLast}` : undefined));
  }
  if (keepWithinMs !== undefined) {
    const reason = `within ${durationText(keepWithinMs)}`;
    rules.push(({ createdAtMs }) => (nowMs - createdAtMs <= keepWithinMs ? reason : undefined));
  }
  if (keepHourly !== undefined) rules.push(newestOfEach("hourly", keepHourly, hourOf));
  if (keepDaily !== undefined) rules.push(newestOfEach("daily", keepDaily, dayOf));
  if (keepWeekly !== undefined) rules.push(newestOfEach("weekly", keepWeekly, isoWeekOf));
  if (keepMonthly !== undefined) rules.push(newestOfEach("monthly", keepMonthly, monthOf));
  if (keepStages !== undefined) {
    const stages = new Set(keepStages);
    rules.push(({ checkpoint: { stage } }) =>
      stage !== undefined && stages.has(stage) ? `stage ${stage}` : undefined,
    );
  }
  return rules.length > 0 ? rules : [() => "no keep rule: everything is kept"];
}

/** The first one seen of each bucket is its newest, and the first buckets seen are the most recent: by sequence. */
function newestOfEach(name: string, limit: number, bucketOf: (date: Date) => string): KeepRule {
  const seen = new Set<string>();
  return ({ createdAtMs }) => {
    if (Number.isNaN(createdAtMs) || seen.size === limit) return undefined;
    const bucket = bucketOf(new Date(createdAtMs));
    if (seen.has(bucket)) return undefined;
    seen.add(bucket);
    return `${name} ${bucket}`;
  };
}

/** `2026-11-21T10` */
function hourOf(date: Date): string {
  return `${dayOf(date)}T${String(date.getUTCHours()).padStart(2, "0")}`;
}

/** `2026-11-21` */
function dayOf(date: Date): string {
  return `${monthOf(date)}-${String(date.getUTCDate()).padStart(2, "0")}`;
}

/** `2026-11` */
function monthOf(date: Date): string {
  return `${yearText(date.getUTCFullYear())}-${String(date.getUTCMonth() + 1).padStart(2, "0")}`;
}

/** `2026-W47`. A week belongs to the year that has its Thursday: 2027-01-01 is in 2026-W53. */
function isoWeekOf(date: Date): string {
  const daysSinceMonday = (date.getUTCDay() + 6) % 7;
  const thursday = new Date(date.getTime() + (3 - daysSinceMonday) * DAY);
  const newYear = new Date(thursday);
  newYear.setUTCMonth(0, 1);
  const week = 1 + Math.floor((thursday.getTime() - newYear.getTime()) / (7 * DAY));
  return `${yearText(thursday.getUTCFullYear())}-W${String(week).padStart(2, "0")}`;
}

function yearText(year: number): string {
  return String(year).padStart(4, "0");
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** In the largest unit that is exact: `30 days`, `36 hours`, `1 minute`. */
function durationText(ms: number): string {
  if (ms % DAY === 0) return counted(ms / DAY, "day");
  if (ms % HOUR === 0) return counted(ms / HOUR, "hour");
  if (ms % MINUTE === 0) return counted(ms / MINUTE, "minute");
  if (ms % SECOND === 0) return counted(ms / SECOND, "second");
  return counted(ms, "millisecond");
}

/** In the largest unit that it fills, to two decimals: `10 MiB`, `1.5 KiB`, `999 bytes`. */
function bytesText(bytes: number): string {
  for (const [unit, size] of BYTE_UNITS) if (bytes >= size) return `${Number((bytes / size).toFixed(2))} ${unit}`;
  return counted(bytes, "byte");
}

const BYTE_UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

function counted(count: number, unit: string): string {
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

function bytesOf(verdicts: readonly Verdict[]): number {
  return verdicts.reduce((sum, { checkpoint }) => sum + checkpoint.sizeBytes, 0);
}

/** A copy of what is not `undefined`: JSON has no word for it, and a plan must come back from a file as it was. */
function givenParts(policy: RetentionPolicy): RetentionPolicy {
  const given = Object.fromEntries(Object.entries(policy).filter(([, value]) => value !== undefined));
  return policy.keepStages === undefined ? given : { ...given, keepStages: [...policy.keepStages] };
}

function checkStages(stages: readonly string[] | undefined): void {
  if (stages === undefined) return;
  if (!Array.isArray(stages) || stages.some((stage) => typeof stage !== "string")) {
    throw new TypeError("keepStages of a retention policy must be an array of strings.");
  }
  if (stages.length === 0 || stages.includes("")) {
    throw new RangeError("keepStages of a retention policy must name at least one stage, and no empty one.");
  }
}
