import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CheckpointStatus, CheckpointSummary } from "../../../src/contract/checkpoint.js";
import { planRetention, type RetentionPlan, type RetentionPolicy } from "../../../src/manager/retention-plan.js";
import { casesOf } from "../../support/seeded.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOW = Date.parse("2026-11-21T12:00:00.000Z");

const plan = (summaries: readonly CheckpointSummary[], policy: RetentionPolicy) =>
  planRetention("t", summaries, policy, NOW);

const sequences = (list: RetentionPlan["keep"]) => list.map(({ checkpoint }) => checkpoint.sequence);

describe("for any task and policy", () => {
  it("agrees with the obvious, slow model", () => {
    check((summaries, policy) => {
      expect(sequences(plan(summaries, policy).keep)).toEqual(modelOfKept(summaries, policy));
    });
  });

  it("accounts for every checkpoint once, with its bytes and a reason", () => {
    check((summaries, policy) => {
      const { keep, remove, keepBytes, removeBytes } = plan(summaries, policy);
      const all = [...keep, ...remove].map(({ checkpoint }) => checkpoint);

      expect(bySequence(all)).toStrictEqual(bySequence(summaries));
      expect(keepBytes).toBe(bytes(keep));
      expect(removeBytes).toBe(bytes(remove));
      for (const { reasons } of [...keep, ...remove]) expect(reasons.length).toBeGreaterThan(0);
      for (const list of [keep, remove]) expect(sequences(list)).toEqual(sequences(list).toSorted((a, b) => b - a));
    });
  });

  it("keeps an incomplete task incomplete, with its newest, and a completed one completed or gone", () => {
    check((summaries, policy) => {
      const newest = bySequence(summaries).at(-1);
      const newestKept = plan(summaries, policy).keep[0]?.checkpoint;

      if (newest !== undefined && newest.status !== "completed") expect(newestKept).toStrictEqual(newest);
      else expect(newestKept?.status ?? "completed").toBe("completed");
    });
  });

  it("exceeds maxBytes by nothing but the newest of an incomplete task", () => {
    check((summaries, policy) => {
      const { keep, keepBytes } = plan(summaries, policy);
      if (keepBytes > (policy.maxBytes ?? Number.POSITIVE_INFINITY)) {
        expect(keep).toHaveLength(1);
        expect(keep[0]?.reasons).toContain("newest of an incomplete task");
      }
    });
  });

  it("removes nothing more when planned again over what it has kept", () => {
    check((summaries, policy) => {
      const { keep } = plan(summaries, policy);
      const kept = keep.map(({ checkpoint }) => checkpoint);
      const newest = bySequence(summaries).at(-1);
      // keepWithinMs counts back from the time of the newest checkpoint.
      if (policy.keepWithinMs !== undefined && kept[0]?.sequence !== newest?.sequence) return;

      expect(plan(kept, policy).remove).toEqual([]);
    });
  });

  it("is unchanged after JSON.stringify and JSON.parse", () => {
    check((summaries, policy) => {
      const made = plan(summaries, policy);

      expect(JSON.parse(JSON.stringify(made))).toStrictEqual(made);
    });
  });

  it("changes neither its input nor its result if the input's order changes", () => {
    check((summaries, policy) => {
      const before = structuredClone(summaries);
      const frozen = Object.freeze(summaries.map((summary) => Object.freeze(summary)));

      expect(plan(frozen, Object.freeze(policy))).toEqual(plan(bySequence(summaries), policy));
      expect(frozen).toStrictEqual(before);
    });
  });
});

function check(property: (summaries: CheckpointSummary[], policy: RetentionPolicy) => void): void {
  fc.assert(fc.property(anyTask, anyPolicy, property), { numRuns: casesOf(400) });
}

/**
 * The clocks go forwards, stand still and jump. Ages are close to the borders of buckets and rules, so that small
 * tasks meet them.
 */
const anyAt: fc.Arbitrary<string> = fc.oneof(
  fc.integer({ min: -3, max: 60 }).map((hours) => new Date(NOW - hours * HOUR).toISOString()),
  fc.integer({ min: -2, max: 40 }).map((days) => new Date(NOW - days * DAY).toISOString()),
  fc
    .tuple(fc.integer({ min: 2020, max: 2028 }), fc.integer({ min: -6, max: 6 }))
    .map(([year, days]) => new Date(Date.UTC(year, 0, 1) + days * DAY).toISOString()),
  fc.constant("not a date"),
);

const anyTask: fc.Arbitrary<CheckpointSummary[]> = fc
  .uniqueArray(fc.integer({ min: 1, max: 99 }), { maxLength: 14 })
  .chain((sequences) =>
    fc.tuple(
      ...sequences.map((sequence) =>
        fc
          .record(
            {
              createdAt: anyAt,
              status: fc.constantFrom<CheckpointStatus>("running", "paused", "completed", "completed", "failed"),
              sizeBytes: fc.integer({ min: 0, max: 40 }),
              stage: fc.constantFrom("a", "b", "c"),
            },
            { requiredKeys: ["createdAt", "status", "sizeBytes"] },
          )
          .map(
            (fields): CheckpointSummary => ({ taskId: "t", id: `c${sequence}`, sequence, stateVersion: 1, ...fields }),
          ),
      ),
    ),
  );

const fewOf = fc.integer({ min: 1, max: 4 });
const someTime = fc.integer({ min: 0, max: 50 }).map((hours) => hours * HOUR);
const anyPolicy: fc.Arbitrary<RetentionPolicy> = fc
  .record(
    {
      keepLast: fewOf,
      keepWithinMs: someTime.map((ms) => Math.max(1, ms)),
      keepHourly: fewOf,
      keepDaily: fewOf,
      keepWeekly: fewOf,
      keepMonthly: fewOf,
      keepStages: fc.subarray(["a", "b", "z"], { minLength: 1 }),
      maxAgeMs: fc.oneof(
        someTime,
        someTime.map((ms) => ms * 20),
      ),
      maxBytes: fc.integer({ min: 0, max: 250 }),
    },
    { requiredKeys: [] },
  )
  .filter((policy) => Object.keys(policy).length > 0);

/** Returns the sequences that stay, newest first, by applying the rules directly to all pairs, at any cost. */
function modelOfKept(all: readonly CheckpointSummary[], policy: RetentionPolicy): number[] {
  const time = (c: CheckpointSummary) => new Date(c.createdAt).getTime();
  const isNewest = (c: CheckpointSummary) => all.every((other) => other.sequence <= c.sequence);
  const done = (c: CheckpointSummary) => c.status === "completed";
  const incomplete = all.some((c) => isNewest(c) && !done(c));
  const untilMs = Math.min(NOW, ...all.filter((c) => isNewest(c) && !Number.isNaN(time(c))).map(time));

  // Buckets as numbers, without their names.
  const bucketsOf = {
    keepHourly: (c: CheckpointSummary) => Math.floor(time(c) / HOUR),
    keepDaily: (c: CheckpointSummary) => Math.floor(time(c) / DAY),
    // 1970-01-01 was a Thursday, so its week began three days before.
    keepWeekly: (c: CheckpointSummary) => Math.floor((time(c) / DAY + 3) / 7),
    keepMonthly: (c: CheckpointSummary) => new Date(time(c)).getUTCFullYear() * 12 + new Date(time(c)).getUTCMonth(),
  };
  const claimedByBucket = (c: CheckpointSummary, rule: keyof typeof bucketsOf) => {
    const bucket = bucketsOf[rule];
    const newer = all.filter((other) => other.sequence > c.sequence && !Number.isNaN(time(other)));
    return (
      !Number.isNaN(time(c)) &&
      newer.every((other) => bucket(other) !== bucket(c)) &&
      new Set(newer.map(bucket)).size < (policy[rule] ?? 0)
    );
  };
  const claimed = (c: CheckpointSummary) =>
    Object.keys(policy).every((key) => key.startsWith("max")) ||
    all.filter((other) => other.sequence > c.sequence).length < (policy.keepLast ?? 0) ||
    (policy.keepWithinMs !== undefined && time(c) >= untilMs - policy.keepWithinMs) ||
    (policy.keepStages ?? []).some((stage) => stage === c.stage) ||
    (["keepHourly", "keepDaily", "keepWeekly", "keepMonthly"] as const).some((rule) => claimedByBucket(c, rule));
  const tooOld = (c: CheckpointSummary) => policy.maxAgeMs !== undefined && NOW - time(c) > policy.maxAgeMs;

  // The candidates, and the newest checkpoint if it must stay with them.
  const withNewest = (candidates: readonly CheckpointSummary[]) =>
    all.filter(
      (c) =>
        candidates.includes(c) ||
        (isNewest(c) && (incomplete || candidates.some((other) => !isNewest(other) && !done(other)))),
    );
  const goesBefore = (a: CheckpointSummary, b: CheckpointSummary) =>
    isNewest(b) || (!isNewest(a) && (done(a) === done(b) ? a.sequence < b.sequence : done(a)));

  let candidates = all.filter((c) => claimed(c) && !tooOld(c));
  for (;;) {
    const stay = withNewest(candidates);
    const first = candidates
      .filter((c) => !(incomplete && isNewest(c)))
      .find((c, _, removable) => removable.every((other) => other === c || goesBefore(c, other)));
    if (first === undefined || bytesOfAll(stay) <= (policy.maxBytes ?? Number.POSITIVE_INFINITY)) {
      return stay.map(({ sequence }) => sequence).sort((a, b) => b - a);
    }
    candidates = candidates.filter((c) => c !== first);
  }
}

function bySequence(summaries: readonly CheckpointSummary[]): CheckpointSummary[] {
  return summaries.toSorted((a, b) => a.sequence - b.sequence);
}

function bytes(list: RetentionPlan["keep"]): number {
  return bytesOfAll(list.map(({ checkpoint }) => checkpoint));
}

function bytesOfAll(summaries: readonly CheckpointSummary[]): number {
  return summaries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
