import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { CheckpointStatus, CheckpointSummary } from "../../../src/contract/checkpoint.js";
import { transientMetadata } from "../../../src/contract/transient.js";
import {
  checkRetentionPolicy,
  planRetention,
  type RetentionPlan,
  type RetentionPolicy,
} from "../../../src/manager/retention-plan.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOW = Date.parse("2026-11-21T12:00:00.000Z");

interface Given {
  readonly at?: string | number;
  readonly status?: CheckpointStatus;
  readonly stage?: string;
  readonly bytes?: number;
  readonly transient?: true;
}

/** Makes checkpoints of task `t` with the sequences 1, 2, 3 …; `at` is a date or an age before NOW. */
function task(...given: readonly Given[]): CheckpointSummary[] {
  return given.map(({ at = 0, status = "running", stage, bytes = 100, transient }, index) => ({
    taskId: "t",
    id: `c${index + 1}`,
    sequence: index + 1,
    createdAt: typeof at === "string" ? at : new Date(NOW - at).toISOString(),
    ...(stage === undefined ? undefined : { stage }),
    ...(transient && { metadata: transientMetadata(undefined) }),
    status,
    stateVersion: 1,
    sizeBytes: bytes,
  }));
}

const plan = (summaries: readonly CheckpointSummary[], policy: RetentionPolicy) =>
  planRetention("t", summaries, policy, NOW);

const sequences = (list: RetentionPlan["keep"]) => list.map(({ checkpoint }) => checkpoint.sequence);

/** Returns `{ sequence: reasons }`, so that a plan reads like a table. */
const reasons = (list: RetentionPlan["keep"]) =>
  Object.fromEntries(list.map(({ checkpoint, reasons }) => [checkpoint.sequence, reasons]));

describe("keep rules", () => {
  it("keepLast claims the highest sequences, and shows the position of each", () => {
    const { keep, remove } = plan(task({}, {}, {}, { status: "completed" }), { keepLast: 3 });

    expect(reasons(keep)).toEqual({ 4: ["last 1 of 3"], 3: ["last 2 of 3"], 2: ["last 3 of 3"] });
    expect(reasons(remove)).toEqual({ 1: ["no rule keeps it"] });
  });

  it("count milestones, and a transient checkpoint stays only while it is the newest", () => {
    const policy = { keepLast: 2, keepDaily: 1, keepStages: ["gate"] };
    const { keep, remove } = plan(task({}, {}, { transient: true, stage: "gate" }, {}, { transient: true }), policy);

    expect(reasons(keep)).toEqual({
      5: ["newest of an incomplete task"],
      4: ["last 1 of 2", "daily 2026-11-21"],
      2: ["last 2 of 2"],
    });
    expect(reasons(remove)).toEqual({
      3: ["a transient checkpoint that is no longer the newest"],
      1: ["no rule keeps it"],
    });
  });

  it("count a completed checkpoint as a milestone, however it was saved", () => {
    const { keep } = plan(task({}, { transient: true, status: "completed" }), { keepLast: 1 });
    expect(reasons(keep)).toMatchObject({ 2: ["last 1 of 1"] });
  });

  it("lists both sides newest first, whatever the order of the summaries", () => {
    const summaries = task({}, {}, {}, {}, {});
    const shuffled = [2, 0, 4, 1, 3].map((index) => summaries[index]!);

    const { keep, remove } = plan(shuffled, { keepLast: 2 });

    expect(sequences(keep)).toEqual([5, 4]);
    expect(sequences(remove)).toEqual([3, 2, 1]);
  });

  it("keepWithinMs claims checkpoints exactly as old as the limit, and none older", () => {
    const { keep, remove } = plan(task({ at: 2 * HOUR + 1 }, { at: 2 * HOUR }, { at: HOUR }, { status: "completed" }), {
      keepWithinMs: 2 * HOUR,
    });

    expect(sequences(keep)).toEqual([4, 3, 2]);
    expect(reasons(keep)[2]).toEqual(["within 2 hours"]);
    expect(sequences(remove)).toEqual([1]);
  });

  it("keepWithinMs loses nothing if the clock is once a year ahead", () => {
    const ages = [6, 5, 4, 3, 2, 1, 0].map((hours) => ({ at: hours * HOUR }));
    const policy = { keepWithinMs: 5 * HOUR };
    const intact = sequences(plan(task(...ages), policy).keep);
    expect(intact).toEqual([7, 6, 5, 4, 3, 2]);

    // The clock is ahead when the plan is made. The clock's reading at the save is unknown, or it was right.
    expect(sequences(planRetention("t", task(...ages), policy, NOW + 365 * DAY).keep)).toEqual(intact);
    // The clock was ahead when the newest checkpoint was saved.
    const aheadAtSave = task(...ages.slice(0, -1), { at: -365 * DAY });
    expect(sequences(plan(aheadAtSave, policy).keep)).toEqual(intact);
    // If the newest checkpoint has no valid time, the clock decides.
    expect(sequences(plan(task(...ages.slice(0, -1), { at: "not a date" }), policy).keep)).toEqual(intact);
  });

  it.each<[keyof RetentionPolicy, string[], Record<number, string[]>]>([
    [
      "keepHourly",
      ["2026-11-21T08:59:59.999Z", "2026-11-21T09:00:00.000Z", "2026-11-21T09:59:59.999Z", "2026-11-21T10:00:00.000Z"],
      { 4: ["hourly 2026-11-21T10"], 3: ["hourly 2026-11-21T09"] },
    ],
    [
      "keepDaily",
      ["2026-11-19T23:00:00.000Z", "2026-11-20T00:00:00.000Z", "2026-11-20T23:59:59.999Z", "2026-11-21T00:00:00.000Z"],
      { 4: ["daily 2026-11-21"], 3: ["daily 2026-11-20"] },
    ],
    [
      "keepWeekly",
      ["2026-11-08T12:00:00.000Z", "2026-11-09T00:00:00.000Z", "2026-11-15T23:59:59.999Z", "2026-11-16T00:00:00.000Z"],
      { 4: ["weekly 2026-W47"], 3: ["weekly 2026-W46"] },
    ],
    [
      "keepMonthly",
      ["2026-09-30T12:00:00.000Z", "2026-10-01T00:00:00.000Z", "2026-10-31T23:59:59.999Z", "2026-11-01T00:00:00.000Z"],
      { 4: ["monthly 2026-11"], 3: ["monthly 2026-10"] },
    ],
  ])("%s claims the newest of each of the two most recent, in UTC", (rule, dates, expected) => {
    const { keep } = plan(task(...dates.map((at): Given => ({ at, status: "completed" }))), { [rule]: 2 });

    expect(reasons(keep)).toEqual(expected);
  });

  it.each<[RetentionPolicy, string[], Record<number, string[]>]>([
    // In Apia, UTC+13, a day begins at 11:00 UTC.
    [
      { keepDaily: 2, timeZone: "Pacific/Apia" },
      ["2026-11-20T10:59:59.999Z", "2026-11-20T11:00:00.000Z", "2026-11-21T10:59:59.999Z", "2026-11-21T11:00:00.000Z"],
      { 4: ["daily 2026-11-22"], 3: ["daily 2026-11-21"] },
    ],
    // In Kathmandu, Monday 2026-11-23 begins on Sunday at 18:15 UTC.
    [
      { keepWeekly: 2, keepHourly: 1, timeZone: "Asia/Kathmandu" },
      ["2026-11-22T18:14:59.999Z", "2026-11-22T18:15:00.000Z"],
      { 2: ["hourly 2026-11-23T00", "weekly 2026-W48"], 1: ["weekly 2026-W47"] },
    ],
    // New York is behind UTC, by four hours in summer and by five in winter.
    [
      { keepMonthly: 3, timeZone: "America/New_York" },
      ["2026-11-01T03:59:59.999Z", "2026-11-01T04:00:00.000Z", "2026-12-01T04:59:59.999Z", "2026-12-01T05:00:00.000Z"],
      { 4: ["monthly 2026-12", "newest of an incomplete task"], 3: ["monthly 2026-11"], 1: ["monthly 2026-10"] },
    ],
    // The hour that comes twice when summer time ends counts as one.
    [
      { keepHourly: 3, timeZone: "Europe/Berlin" },
      ["2026-10-24T23:30:00.000Z", "2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"],
      { 3: ["hourly 2026-10-25T02"], 1: ["hourly 2026-10-25T01"] },
    ],
  ])("puts checkpoints into the hours, days, weeks and months of %o", (policy, dates, kept) => {
    const { keep } = plan(task(...dates.map((at) => ({ at }))), policy);
    const named = Object.entries(reasons(keep)).map(([sequence, why]) => [
      sequence,
      why.filter((reason) => kept[Number(sequence)]?.includes(reason)),
    ]);
    expect(Object.fromEntries(named)).toEqual(kept);
  });

  it("makes a plan in another time zone with one formatter", () => {
    let made = 0;
    class CountedFormat extends Intl.DateTimeFormat {
      constructor(...options: ConstructorParameters<typeof Intl.DateTimeFormat>) {
        super(...options);
        made += 1;
      }
    }
    vi.stubGlobal("Intl", { DateTimeFormat: CountedFormat });
    onTestFinished(() => void vi.unstubAllGlobals());
    const summaries = task(...Array.from({ length: 10_000 }, (_, index) => ({ at: index * MINUTE })));
    const policy = { keepHourly: 2_000, keepDaily: 100, keepWeekly: 100, timeZone: "Asia/Kolkata" };
    expect(plan(summaries, policy).keep.length).toBeGreaterThan(160);
    expect(made).toBe(1);
  });

  it("skips hours without a save", () => {
    const { keep } = plan(task({ at: 90 * DAY }, { at: 60 * DAY }, { at: 30 * DAY }, { at: 0 }), { keepHourly: 3 });

    expect(sequences(keep)).toEqual([4, 3, 2]);
  });

  it.each([
    ["2024-12-29T12:00:00.000Z", "2024-W52"],
    ["2024-12-30T00:00:00.000Z", "2025-W01"],
    ["2020-12-31T23:59:59.999Z", "2020-W53"],
    ["2021-01-03T23:59:59.999Z", "2020-W53"],
    ["2021-01-04T00:00:00.000Z", "2021-W01"],
    ["2025-12-28T23:59:59.999Z", "2025-W52"],
    ["2025-12-29T00:00:00.000Z", "2026-W01"],
    ["2026-01-01T00:00:00.000Z", "2026-W01"],
    ["2026-12-31T12:00:00.000Z", "2026-W53"],
    ["2027-01-01T00:00:00.000Z", "2026-W53"],
    ["2027-01-03T23:59:59.999Z", "2026-W53"],
    ["2027-01-04T00:00:00.000Z", "2027-W01"],
    ["2024-02-29T12:00:00.000Z", "2024-W09"],
    ["0099-01-01T00:00:00.000Z", "0099-W01"],
  ])("puts %s into the ISO week %s", (at, week) => {
    const { keep } = plan(task({ at, status: "completed" }), { keepWeekly: 1 });

    expect(reasons(keep)).toEqual({ 1: [`weekly ${week}`] });
  });

  it("keepStages claims every checkpoint of a stage", () => {
    const { keep, remove } = plan(
      task({ stage: "validation-gate-2" }, {}, { stage: "validation-gate-2" }, { stage: "other" }, { stage: "coder" }),
      { keepStages: ["validation-gate-2", "coder"] },
    );

    expect(reasons(keep)).toEqual({
      5: ["stage coder", "newest of an incomplete task"],
      3: ["stage validation-gate-2"],
      1: ["stage validation-gate-2"],
    });
    expect(sequences(remove)).toEqual([4, 2]);
  });

  it("lists every reason why a checkpoint stays", () => {
    const { keep } = plan(task({ stage: "coder", at: "2026-11-21T10:30:00.000Z", status: "paused" }), {
      keepLast: 5,
      keepWithinMs: 90 * MINUTE,
      keepHourly: 1,
      keepDaily: 1,
      keepWeekly: 1,
      keepMonthly: 1,
      keepStages: ["coder"],
    });

    expect(reasons(keep)[1]).toEqual([
      "last 1 of 5",
      "within 90 minutes",
      "hourly 2026-11-21T10",
      "daily 2026-11-21",
      "weekly 2026-W47",
      "monthly 2026-11",
      "stage coder",
      "newest of an incomplete task",
    ]);
  });

  it("goes by sequence if the clock was set back, so that a day in the future doesn't stay forever", () => {
    const { keep } = plan(
      task({ at: "2099-01-01T00:00:00.000Z" }, { at: "2026-11-20T00:00:00.000Z" }, { at: "2026-11-21T00:00:00.000Z" }),
      { keepDaily: 2 },
    );

    expect(sequences(keep)).toEqual([3, 2]);
  });

  it("takes the highest sequence of a day for its newest, not the latest time", () => {
    const { keep } = plan(task({ at: "2026-11-21T11:00:00.000Z" }, { at: "2026-11-21T09:00:00.000Z" }), {
      keepDaily: 1,
    });

    expect(sequences(keep)).toEqual([2]);
  });

  it("assigns no bucket and no age to a checkpoint whose date can't be read", () => {
    const summaries = task({ at: "yesterday" }, { at: "yesterday", stage: "coder" }, { status: "completed" });

    expect(sequences(plan(summaries, { keepDaily: 9, keepWithinMs: DAY }).keep)).toEqual([3]);
    expect(sequences(plan(summaries, { maxAgeMs: 0 }).keep)).toEqual([3, 2, 1]);
    expect(sequences(plan(summaries, { keepStages: ["coder"] }).keep)).toEqual([3, 2]);
  });
});

describe("limits", () => {
  it("maxAgeMs alone shows only the true reason for an old checkpoint that stays", () => {
    const { keep } = plan(task({ at: 30 * DAY, status: "failed" }), { maxAgeMs: DAY });
    expect(reasons(keep)).toEqual({ 1: ["newest of an incomplete task"] });
  });

  it("maxAgeMs alone keeps everything that is not older, and names it as the reason", () => {
    const { keep, remove } = plan(task({ at: 30 * DAY + 1 }, { at: 30 * DAY }, { at: 0, status: "completed" }), {
      maxAgeMs: 30 * DAY,
    });

    expect(reasons(keep)).toEqual({
      3: ["no keep rule, and within the limits"],
      2: ["no keep rule, and within the limits"],
    });
    expect(reasons(remove)).toEqual({ 1: ["older than 30 days"] });
  });

  it("maxAgeMs removes even claimed checkpoints, and adds its reason to unclaimed ones", () => {
    const { remove } = plan(task({ at: 3 * DAY }, { at: 3 * DAY, stage: "coder" }, { at: 0 }), {
      keepStages: ["coder"],
      maxAgeMs: DAY,
    });

    expect(reasons(remove)).toEqual({ 2: ["older than 1 day"], 1: ["no rule keeps it", "older than 1 day"] });
  });

  it("maxBytes takes completed checkpoints first, then the oldest, and stops as soon as the rest fits", () => {
    const { keep, remove, keepBytes, removeBytes } = plan(
      task({ bytes: 10 }, { bytes: 20, status: "completed" }, { bytes: 30 }, { bytes: 40 }),
      { maxBytes: 75 },
    );

    expect(sequences(keep)).toEqual([4, 3]);
    expect(reasons(remove)).toEqual({ 2: ["over 75 bytes in all"], 1: ["over 75 bytes in all"] });
    expect([keepBytes, removeBytes]).toEqual([70, 30]);
  });

  it("maxBytes keeps checkpoints that fit to the byte", () => {
    expect(plan(task({ bytes: 512 }, { bytes: 512 }), { maxBytes: 1024 }).remove).toEqual([]);
  });

  it("maxBytes doesn't count checkpoints that are removed anyway", () => {
    const { keep, remove } = plan(task({ at: 3 * DAY, bytes: 900 }, { bytes: 60 }, { bytes: 40 }), {
      maxAgeMs: DAY,
      maxBytes: 100,
    });

    expect(sequences(keep)).toEqual([3, 2]);
    expect(reasons(remove)).toEqual({ 1: ["older than 1 day"] });
  });

  it("maxBytes doesn't count the newest of a completed task if no rule keeps it", () => {
    const done = { status: "completed", bytes: 60 } as const;
    const { keep, remove } = plan(task({ ...done, stage: "release" }, done), {
      keepStages: ["release"],
      maxBytes: 100,
    });

    expect([sequences(keep), sequences(remove)]).toEqual([[1], [2]]);
  });

  it.each([
    [0, "over 0 bytes in all"],
    [1, "over 1 byte in all"],
    [1023, "over 1023 bytes in all"],
    [1024, "over 1 KiB in all"],
    [1536, "over 1.5 KiB in all"],
    [10 * 2 ** 20, "over 10 MiB in all"],
    [2 ** 30 + 2 ** 28, "over 1.25 GiB in all"],
    [3 * 2 ** 40, "over 3 TiB in all"],
  ])("writes a limit of %d bytes for people", (maxBytes, reason) => {
    const { remove } = plan(task({ status: "completed", bytes: 2 ** 43 }), { maxBytes });

    expect(reasons(remove)).toEqual({ 1: [reason] });
  });

  it.each([
    [0, "older than 0 days"],
    [1, "older than 1 millisecond"],
    [1500, "older than 1500 milliseconds"],
    [45_000, "older than 45 seconds"],
    [MINUTE, "older than 1 minute"],
    [36 * HOUR, "older than 36 hours"],
    [30 * DAY, "older than 30 days"],
  ])("writes an age of %d ms for people", (maxAgeMs, reason) => {
    const { remove } = plan(task({ status: "completed", at: 365 * DAY }), { maxAgeMs });

    expect(reasons(remove)).toEqual({ 1: [reason] });
  });
});

describe("a task's standing", () => {
  it.each<CheckpointStatus>(["running", "paused", "failed"])(
    "the newest of a task that is %s stays, however old and large it is",
    (status) => {
      const { keep, keepBytes } = plan(task({ at: 9 * DAY }, { at: 8 * DAY, status, bytes: 5000 }), {
        keepStages: ["none"],
        maxAgeMs: 0,
        maxBytes: 0,
      });

      expect(reasons(keep)).toEqual({ 2: ["newest of an incomplete task"] });
      expect(keepBytes).toBe(5000);
    },
  );

  it("a completed task may be removed as a whole", () => {
    const { keep, remove } = plan(task({ at: 9 * DAY }, { at: 8 * DAY, status: "completed" }), { maxAgeMs: DAY });

    expect(keep).toEqual([]);
    expect(sequences(remove)).toEqual([2, 1]);
  });

  it("the newest of a completed task is the last that maxBytes removes", () => {
    const completed = task({ bytes: 10 }, { bytes: 10 }, { bytes: 10, status: "completed" });

    expect(sequences(plan(completed, { maxBytes: 20 }).keep)).toEqual([3, 2]);
    expect(sequences(plan(completed, { maxBytes: 10 }).keep)).toEqual([3]);
    expect(sequences(plan(completed, { maxBytes: 9 }).keep)).toEqual([]);
  });

  it("the newest of a completed task stays with an unfinished one, which would otherwise be offered for resuming", () => {
    const { keep } = plan(task({ stage: "coder" }, {}, { status: "completed" }), { keepStages: ["coder"] });

    expect(reasons(keep)).toEqual({ 3: ["newest of a completed task with unfinished parts"], 1: ["stage coder"] });
  });

  it("the newest of a completed task is removed with the last unfinished one", () => {
    const { remove } = plan(task({ stage: "coder", bytes: 10 }, { status: "completed", bytes: 10 }), {
      keepStages: ["coder"],
      maxBytes: 15,
    });

    expect(reasons(remove)).toEqual({ 2: ["no rule keeps it"], 1: ["over 15 bytes in all"] });
  });

  it("the newest of several completed checkpoints stays only as long as a rule keeps it", () => {
    const { keep } = plan(task({ stage: "a", status: "completed" }, { stage: "b", status: "completed" }), {
      keepStages: ["a"],
    });

    expect(sequences(keep)).toEqual([1]);
  });
});

describe("a plan", () => {
  it("of a task without checkpoints is empty and names the task", () => {
    expect(planRetention("t", [], { keepLast: 1, maxBytes: undefined }, NOW)).toStrictEqual({
      taskId: "t",
      policy: { keepLast: 1 },
      plannedAt: "2026-11-21T12:00:00.000Z",
      keep: [],
      remove: [],
      keepBytes: 0,
      removeBytes: 0,
    });
  });

  it("holds only summaries, even if it is made from whole records", () => {
    const [summary] = task({});
    const stored = { ...summary!, payload: { encoding: "json", body: "{}", sha256: "" }, seal: "" };

    expect(plan([stored], { keepLast: 1 }).keep[0]?.checkpoint).toStrictEqual(summary);
  });

  it("keeps its policy as it was when the caller's stages change later", () => {
    const keepStages = ["coder"];
    const made = plan(task({}), { keepStages });
    keepStages.push("other");

    expect(made.policy).toEqual({ keepStages: ["coder"] });
  });

  it("is for one task", () => {
    const [foreign] = task({});

    expect(() => plan([{ ...foreign!, taskId: "u" }], { keepLast: 1 })).toThrow(TypeError);
    expect(() => plan([...task({}), { ...foreign!, taskId: "u" }], { keepLast: 1 })).toThrow(/task "u", not "t"/);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, 8.64e15 + 1])("refuses %d as the current time", (nowMs) => {
    expect(() => planRetention("t", [], { keepLast: 1 }, nowMs)).toThrow(RangeError);
  });

  it("checks its policy", () => {
    expect(() => plan([], {})).toThrow(TypeError);
  });

  it("may have tens of thousands of checkpoints", () => {
    const many = task(...Array.from({ length: 30_000 }, (_, index): Given => ({ at: (30_000 - index) * MINUTE })));

    const { keep, remove } = plan(many, { keepHourly: 1_000_000, maxBytes: 50_000, maxAgeMs: 50 * DAY });

    expect([keep.length, remove.length]).toEqual([500, 29_500]);
  });
});

describe("a policy", () => {
  it.each<[string, RetentionPolicy]>([
    ["is empty", {}],
    ["holds only undefined", { keepLast: undefined, keepStages: undefined, maxAgeMs: undefined }],
  ])("that %s is a TypeError", (_, policy) => {
    expect(() => checkRetentionPolicy(policy)).toThrow(TypeError);
    expect(() => checkRetentionPolicy(policy)).toThrow(/at least one/);
  });

  it.each([
    ["keeplast", "keepLast"],
    ["keepDayly", "keepDaily"],
    ["maxAge", "maxAgeMs"],
    ["keepWithin", "keepWithinMs"],
    ["maxSize", "maxBytes"],
    ["keepStage", "keepStages"],
    ["keepMonthyl", "keepMonthly"],
  ])("with a misspelled %s is a TypeError that names it, and lists %s", (misspelled, suggested) => {
    const policy = { keepLast: 1, [misspelled]: 5 };

    expect(() => checkRetentionPolicy(policy)).toThrow(TypeError);
    expect(() => checkRetentionPolicy(policy)).toThrow(new RegExp(`no "${misspelled}".* ${suggested}\\b`));
  });

  it.each<keyof RetentionPolicy>(["keepLast", "keepWithinMs", "keepHourly", "keepDaily", "keepWeekly", "keepMonthly"])(
    "accepts whole numbers from 1 for %s",
    (key) => {
      for (const value of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
        expect(() => checkRetentionPolicy({ [key]: value }), String(value)).toThrow(RangeError);
      }
      expect(() => checkRetentionPolicy({ [key]: "1" })).toThrow(TypeError);
      expect(() => checkRetentionPolicy({ [key]: 1 })).not.toThrow();
    },
  );

  it.each<keyof RetentionPolicy>(["maxAgeMs", "maxBytes"])("accepts whole numbers from 0 for %s", (key) => {
    for (const value of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => checkRetentionPolicy({ [key]: value }), String(value)).toThrow(RangeError);
    }
    expect(() => checkRetentionPolicy({ [key]: 10n })).toThrow(TypeError);
    expect(() => checkRetentionPolicy({ [key]: 0 })).not.toThrow();
  });

  it("accepts a time zone's name for timeZone, which needs a rule beside it", () => {
    expect(() => checkRetentionPolicy({ keepDaily: 7, timeZone: "Europe/Berlin" })).not.toThrow();
    expect(() => checkRetentionPolicy({ keepDaily: 7, timeZone: "Europe/Atlantis" })).toThrow(RangeError);
    expect(() => checkRetentionPolicy({ keepDaily: 7, timeZone: "Europe/Atlantis" })).toThrow(/"Europe\/Atlantis"/);
    expect(() => checkRetentionPolicy({ keepDaily: 7, timeZone: "" })).toThrow(RangeError);
    expect(() => checkRetentionPolicy(untyped({ keepDaily: 7, timeZone: 13 }))).toThrow(TypeError);
    expect(() => checkRetentionPolicy({ timeZone: "Europe/Berlin" })).toThrow(TypeError);
  });

  it("accepts a non-empty array of names for keepStages", () => {
    expect(() => checkRetentionPolicy({ keepStages: [] })).toThrow(RangeError);
    expect(() => checkRetentionPolicy({ keepStages: ["coder", ""] })).toThrow(RangeError);
    expect(() => checkRetentionPolicy(untyped({ keepStages: "coder" }))).toThrow(TypeError);
    expect(() => checkRetentionPolicy(untyped({ keepStages: [1] }))).toThrow(TypeError);
    expect(() => checkRetentionPolicy({ keepStages: ["coder"] })).not.toThrow();
  });

  it.each([{ value: null }, { value: [] }, { value: 5 }, { value: "keepLast" }])(
    "is an object, not $value",
    ({ value }) => {
      expect(() => checkRetentionPolicy(untyped(value))).toThrow(TypeError);
    },
  );
});

/** For values that a caller without types may pass. */
function untyped(value: unknown): RetentionPolicy {
  return value as RetentionPolicy;
}
