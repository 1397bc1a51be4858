import { type CheckpointStatus, type CheckpointSummary, toSummary } from "../contract/checkpoint.js";
import { isOfRun, isTransient } from "../contract/transient.js";
import { formatBytes, formatDuration } from "./amounts.js";
import { checkOptions, type OptionChecks, wholeFrom } from "./check-options.js";
import { checkTimeZone, formatWeek, type LocalTime, localTimes } from "./local-times.js";
import {
  bytesOwnedBy,
  type ChunkPolicy,
  checkChunkPolicy,
  findRunNeeds,
  type GroupedRecords,
  groupRecords,
  type PlanRecord,
  type RecordRange,
  rangesOwnedBy,
} from "./record-plan.js";

/**
 * Decides which of a task's checkpoints are kept. A checkpoint stays if any keep rule claims it. A policy without keep
 * rules claims all checkpoints. Keep rules claim and count only milestones, which a caller asked for. A transient
 * checkpoint, such as an auto-save, stays while it is the task's newest. Afterwards the limits (`maxAgeMs`, `maxBytes`)
 * remove checkpoints, claimed or not. A policy needs at least one part.
 *
 * No policy changes whether a task looks complete. The newest checkpoint of an incomplete task always stays. The newest
 * checkpoint of a completed task stays as long as an older, unfinished checkpoint stays. Otherwise the task would be
 * offered for resuming.
 *
 * The records of a task's log are removed with the checkpoint that they belong to: the checkpoint whose id is their
 * name, otherwise the milestone that follows them. Records above the newest milestone stay, and so do events that no
 * run has received. Of a received event, only the value is removed. Chunks may be removed earlier. If a policy removes
 * a task's last checkpoint, the whole task is removed, with its run's result. A later `run`, `enqueue` or `send` with
 * the same ids then counts as new.
 *
 * Hours, days, weeks (ISO 8601) and months are those of `createdAt` in `timeZone`. Only sequences decide which
 * checkpoint is newer. So a wrong clock can put a checkpoint into the wrong day, but can't change the order.
 */
export interface RetentionPolicy {
  /** Claims this many of the newest checkpoints, from 1. To keep none, use `maxBytes: 0`. */
  readonly keepLast?: number | undefined;
  /**
   * Claims checkpoints that are at most this many milliseconds old, from 1. The age is counted back from now, or from
   * the newest checkpoint's time if that is earlier. So if the clock is ahead once, nothing is removed.
   */
  readonly keepWithinMs?: number | undefined;
  /** Claims the newest checkpoint of each hour, for this many of the latest hours that have one; from 1. */
  readonly keepHourly?: number | undefined;
  /** Like `keepHourly`, for days. */
  readonly keepDaily?: number | undefined;
  /** Like `keepHourly`, for weeks. */
  readonly keepWeekly?: number | undefined;
  /** Like `keepHourly`, for months. */
  readonly keepMonthly?: number | undefined;
  /** Claims every checkpoint of these stages. */
  readonly keepStages?: readonly string[] | undefined;
  /**
   * The time zone of hours, days, weeks and months: an IANA name such as `Europe/Berlin`. Default `UTC`. When daylight
   * saving time ends, the repeated hour counts as one.
   */
  readonly timeZone?: string | undefined;
  /**
   * Removes checkpoints older than this many milliseconds, claimed or not; from 0. The age is counted back from now, so
   * old checkpoints go even if nothing new is saved. If the clock is ahead by more than `maxAgeMs`, every checkpoint
   * counts as too old. Then only the newest checkpoint of an incomplete task stays. A completed run's result is kept no
   * longer than this.
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * Removes checkpoints until the payloads of the task's checkpoints and of the records that belong to them have at
   * most this many bytes; from 0. `completed` checkpoints go first, then the oldest. The task's newest checkpoint goes
   * last. So 0 removes each completed task as a whole, with its run's result.
   */
  readonly maxBytes?: number | undefined;
  /** How long the chunks that belong to a checkpoint stay. Default: as long as the checkpoint. */
  readonly chunks?: ChunkPolicy | undefined;
}

/** One checkpoint of a plan. */
export interface PlannedCheckpoint {
  readonly checkpoint: CheckpointSummary;
  /** The bytes of the checkpoint's records, if it has any. */
  readonly recordBytes?: number;
  /** Why the checkpoint stays or goes, for people; at least one reason. */
  readonly reasons: readonly string[];
}

/**
 * The checkpoints of one task that a policy keeps and removes. Plain JSON: it can be written to a file and read back.
 */
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
  /** The records to remove, if there are any. */
  readonly removeRecords?: readonly RecordRange[];
  /** The size of the kept checkpoints and their records. */
  readonly keepBytes: number;
  /** The size of the checkpoints, records and old chunks to remove. */
  readonly removeBytes: number;
}

/**
 * Plans which checkpoints `policy` keeps and removes at `nowMs`, each with its reasons. A pure function that reads and
 * removes nothing, and doesn't change its arguments. A second plan for the kept checkpoints removes nothing more. (With
 * `keepWithinMs`, this is only guaranteed if the plan keeps the newest checkpoint.)
 *
 * @param taskId - The task that the plan is for, even if it has no checkpoint.
 * @param summaries - All checkpoints of that task, in any order. If a checkpoint has an invalid `createdAt`, only
 *   `keepLast`, `keepStages` and `maxBytes` apply to it.
 * @param records - The records of the task's log, newest first, for example their headers. Default: none.
 * @throws {TypeError} A checkpoint belongs to another task, or the policy is empty or has an unknown part.
 * @throws {RangeError} `nowMs` isn't a time, or a part of the policy is out of range.
 */
export function planRetention(
  taskId: string,
  summaries: readonly CheckpointSummary[],
  policy: RetentionPolicy,
  nowMs: number,
  records: Iterable<PlanRecord> = [],
): RetentionPlan {
  checkRetentionPolicy(policy);
  if (!Number.isFinite(nowMs)) throw new RangeError(`nowMs must be a time in milliseconds; it is ${nowMs}.`);
  const foreign = summaries.find((summary) => summary.taskId !== taskId);
  if (foreign !== undefined) {
    throw new TypeError(
      `A plan is for one task: checkpoint ${foreign.id} belongs to task ${JSON.stringify(foreign.taskId)}, not ${JSON.stringify(taskId)}.`,
    );
  }

  const newestFirst = summaries.map(toSummary).sort((a, b) => b.sequence - a.sequence);
  // Ages are counted back from the earlier of two times: the newest checkpoint's and now. If the clock was ahead at one
  // of them, the earlier time is the right one. An invalid time is ignored.
  const newestMs = Date.parse(newestFirst[0]?.createdAt ?? "");
  const untilMs = newestMs < nowMs ? newestMs : nowMs;
  const grouped = groupRecords(newestFirst, records, policy.chunks, untilMs);
  const verdicts = judge(newestFirst, policy, nowMs, untilMs, grouped);
  settle(verdicts, findRunNeeds(newestFirst)?.checkpoints ?? [], policy.maxBytes);

  const keep = verdicts.filter(({ stays }) => stays);
  const remove = verdicts.filter(({ stays }) => !stays);
  const removeRecords = [
    ...rangesOwnedBy(new Set(remove.map(({ checkpoint }) => checkpoint.id)), grouped),
    ...grouped.oldChunks,
  ];
  return {
    taskId,
    // Parts that are `undefined` are left out, since JSON would drop them, and a plan must survive a file unchanged.
    policy: Object.fromEntries(
      Object.entries({ ...policy, keepStages: policy.keepStages && [...policy.keepStages] }).filter(
        ([, part]) => part !== undefined,
      ),
    ),
    plannedAt: new Date(nowMs).toISOString(),
    keep: keep.map((verdict) => describeVerdict(verdict, verdict.claims)),
    remove: remove.map((verdict) => describeVerdict(verdict, verdict.objections)),
    ...(removeRecords.length > 0 && { removeRecords }),
    keepBytes: totalBytes(keep),
    removeBytes: totalBytes(remove) + grouped.oldChunkBytes,
  };
}

function describeVerdict({ checkpoint, recordBytes }: Verdict, reasons: readonly string[]): PlannedCheckpoint {
  return { checkpoint, ...(recordBytes > 0 && { recordBytes }), reasons };
}

/**
 * Returns why a plan no longer fits its task: a checkpoint that it keeps is gone, or one that it removes has another
 * status now. Returns `undefined` if the plan fits. New saves don't matter, and checkpoints to remove may be gone
 * already.
 *
 * @param now - The statuses of all checkpoints of the task, by id.
 */
export function explainOutdated(plan: RetentionPlan, now: ReadonlyMap<string, CheckpointStatus>): string | undefined {
  const gone = plan.keep.find(({ checkpoint }) => !now.has(checkpoint.id));
  if (gone !== undefined) return `checkpoint ${gone.checkpoint.id}, which it keeps, is gone`;
  const changed = plan.remove.find(({ checkpoint: { id, status } }) => (now.get(id) ?? status) !== status)?.checkpoint;
  return changed && `checkpoint ${changed.id}, which it removes, is ${now.get(changed.id)} now`;
}

/**
 * Refuses a policy that is empty, has an unknown part, or has a number out of range.
 *
 * Keep rules start at 1, because `keepLast: 0` could mean "no such rule" or "keep nothing", which can't be undone. To
 * switch a rule off, leave it out. Limits start at 0, which is unambiguous.
 *
 * @throws {TypeError} The policy is empty, or a part is unknown or has a wrong type.
 * @throws {RangeError} A number isn't whole or is too small, `keepStages` is empty or has an empty stage, or the time
 *   zone is unknown.
 */
export function checkRetentionPolicy(policy: RetentionPolicy): void {
  checkOptions("A retention policy", policy, POLICY_CHECKS, undefined, (key) => `${key} of a retention policy`);
  // A time zone alone isn't a policy.
  if (Object.values({ ...policy, timeZone: undefined }).every((part) => part === undefined)) {
    throw new TypeError(
      "A retention policy must have at least one rule or limit. To keep everything, pass no policy; to keep nothing, use removeTask.",
    );
  }
}

const BUCKETS = [
  ["keepHourly", "hourly", (time: LocalTime) => time.toISOString().slice(0, "2026-11-21T10".length)],
  ["keepDaily", "daily", (time: LocalTime) => time.toISOString().slice(0, "2026-11-21".length)],
  ["keepWeekly", "weekly", formatWeek],
  ["keepMonthly", "monthly", (time: LocalTime) => time.toISOString().slice(0, "2026-11".length)],
] as const;
const POLICY_CHECKS: OptionChecks<RetentionPolicy> = {
  keepLast: wholeFrom(1),
  keepWithinMs: wholeFrom(1),
  keepHourly: wholeFrom(1),
  keepDaily: wholeFrom(1),
  keepWeekly: wholeFrom(1),
  keepMonthly: wholeFrom(1),
  keepStages: checkStages,
  timeZone: checkTimeZone,
  maxAgeMs: wholeFrom(0),
  maxBytes: wholeFrom(0),
  chunks: checkChunkPolicy,
};

interface Verdict {
  readonly checkpoint: CheckpointSummary;
  readonly recordBytes: number;
  readonly claims: string[];
  readonly objections: string[];
  stays: boolean;
}

/** If the rule claims the milestone, returns the reason. Called once for each milestone, newest first. */
type KeepRule = (candidate: Candidate) => string | undefined;

interface Candidate {
  readonly checkpoint: CheckpointSummary;
  readonly newer: number;
  /** NaN if `createdAt` is invalid; every comparison with NaN is false. */
  readonly createdAtMs: number;
}

/**
 * Applies the rules for single checkpoints: keep rules and age. Returns the verdicts, newest first.
 *
 * @param untilMs - The time from which `keepWithinMs` counts back.
 */
function judge(
  newestFirst: readonly CheckpointSummary[],
  policy: RetentionPolicy,
  nowMs: number,
  untilMs: number,
  grouped: GroupedRecords,
): Verdict[] {
  const rules = makeKeepRules(policy, untilMs);
  const oldestMs = nowMs - (policy.maxAgeMs ?? Number.POSITIVE_INFINITY);
  let milestones = 0;
  return newestFirst.map((checkpoint) => {
    const candidate = { checkpoint, newer: milestones, createdAtMs: Date.parse(checkpoint.createdAt) };
    const isReplaceable = isTransient(checkpoint);
    if (!isReplaceable) milestones += 1;
    // A transient checkpoint is never completed. So if it is the newest, its task is incomplete, and `settle` lets it
    // stay.
    const claims = isReplaceable ? [] : rules.map((rule) => rule(candidate)).filter((claim) => claim !== undefined);
    const objections: string[] = [];
    if (isReplaceable) objections.push("a transient checkpoint that is no longer the newest");
    else if (claims.length === 0 && rules.length > 0) objections.push("no rule keeps it");
    if (candidate.createdAtMs < oldestMs) objections.push(`older than ${formatDuration(policy.maxAgeMs ?? 0)}`);
    if (rules.length === 0 && objections.length === 0) claims.push("no keep rule, and within the limits");
    const recordBytes = bytesOwnedBy(checkpoint.id, grouped);
    return { checkpoint, recordBytes, claims, objections, stays: objections.length === 0 };
  });
}

/**
 * Applies the rules for the whole task, which concern its newest checkpoint, its run and its size.
 *
 * @param needed - The sequences of the checkpoints that the task's run needs to resume.
 */
function settle(verdicts: readonly Verdict[], needed: readonly number[], maxBytes = Number.POSITIVE_INFINITY): void {
  const [newest, ...older] = verdicts;
  if (newest === undefined) return;
  const incomplete = newest.checkpoint.status !== "completed";
  const keepsUnfinished = () => older.some(({ checkpoint, stays }) => stays && checkpoint.status !== "completed");

  if (incomplete) newest.claims.push("newest of an incomplete task");
  else if (!newest.stays && keepsUnfinished()) newest.claims.push("newest of a completed task with unfinished parts");
  newest.stays ||= incomplete || keepsUnfinished();

  const isNeeded = ({ checkpoint }: Verdict) => needed.includes(checkpoint.sequence);
  for (const verdict of older.filter(isNeeded)) {
    verdict.claims.push("its run resumes from here");
    verdict.stays = true;
  }

  const tooMany = `over ${formatBytes(maxBytes)} in all`;
  let bytes = totalBytes(verdicts.filter(({ stays }) => stays));
  const isCompleted = ({ checkpoint }: Verdict) => checkpoint.status === "completed";
  // Completed checkpoints go first, then the oldest.
  const removable = older
    .filter((verdict) => !isNeeded(verdict))
    .reverse()
    .sort((a, b) => Number(isCompleted(b)) - Number(isCompleted(a)));
  for (const verdict of removable.filter(({ stays }) => stays)) {
    if (bytes <= maxBytes) break;
    verdict.stays = false;
    verdict.objections.push(tooMany);
    bytes -= totalBytes([verdict]);
  }
  if (incomplete || keepsUnfinished()) return;
  // From here on, no unfinished checkpoint needs the newest one, so the rules also apply to the newest one.
  if (newest.stays && bytes > maxBytes) newest.objections.push(tooMany);
  newest.stays = newest.objections.length === 0;
  if (!newest.stays && isOfRun(newest.checkpoint)) newest.objections.push("its run's result goes too");
}

function makeKeepRules(policy: RetentionPolicy, untilMs: number): KeepRule[] {
  const { keepLast, keepWithinMs, keepStages } = policy;
  const rules: KeepRule[] = [];
  if (keepLast !== undefined) {
    rules.push(({ newer }) => (newer < keepLast ? `last ${newer + 1} of ${keepLast}` : undefined));
  }
  if (keepWithinMs !== undefined) {
    const reason = `within ${formatDuration(keepWithinMs)}`;
    rules.push(({ createdAtMs }) => (untilMs - createdAtMs <= keepWithinMs ? reason : undefined));
  }
  const localTime = localTimes(policy.timeZone);
  for (const [key, name, formatBucket] of BUCKETS) {
    const limit = policy[key];
    if (limit !== undefined) rules.push(newestOfEach(name, limit, (ms) => formatBucket(localTime(ms))));
  }
  if (keepStages !== undefined) {
    rules.push(({ checkpoint: { stage = "" } }) => (keepStages.includes(stage) ? `stage ${stage}` : undefined));
  }
  return rules;
}

/**
 * Claims the first checkpoint of each bucket. Since the newest checkpoints come first, this is the bucket's newest
 * checkpoint.
 */
function newestOfEach(name: string, limit: number, formatBucket: (ms: number) => string): KeepRule {
  const seen = new Set<string>();
  return ({ createdAtMs }) => {
    if (Number.isNaN(createdAtMs) || seen.size === limit) return undefined;
    const bucket = formatBucket(createdAtMs);
    const isNewest = !seen.has(bucket);
    seen.add(bucket);
    return isNewest ? `${name} ${bucket}` : undefined;
  };
}

function totalBytes(verdicts: readonly Verdict[]): number {
  return verdicts.reduce((sum, { checkpoint, recordBytes }) => sum + checkpoint.sizeBytes + recordBytes, 0);
}

function checkStages(what: string, stages: readonly string[]): void {
  if (!Array.isArray(stages) || stages.some((stage) => typeof stage !== "string")) {
    throw new TypeError(`${what} must be an array of strings.`);
  }
  if (stages.length === 0 || stages.includes("")) {
    throw new RangeError(`${what} must have at least one stage, and no empty one.`);
  }
}
