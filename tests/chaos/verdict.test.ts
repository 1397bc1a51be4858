// Tests that the verdict of a chaos run finds each kind of violation.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { type Fact, factsIn, openLedger } from "./ledger.js";
import { childTaskId, type Kind, MAX_ATTEMPTS, PLANNED_FAILURE, type Plan, planOf, STEPS } from "./plan.js";
import type { StorageName } from "./store.js";
import { missingFaults, type Stored, violationsOf } from "./verdict.js";

interface Run {
  readonly plan: Plan;
  readonly facts: Fact[];
  readonly stored: Stored;
}

const task = "chaos/0";
const at = { atMs: 20, task };
/** The values of steps whose functions don't make them. */
const GIVEN = new Map([
  [1, "a"],
  [6, "slept"],
  [7, "nobody"],
]);

/**
 * Returns a completed task that was enqueued with a later start, twice, by two senders. Its step 1 received an event,
 * step 6 slept, step 7 waited in vain, and milestones were saved after steps 2 and 3.
 */
function intact(): Run {
  const plain = planOf(1, 0, 1000);
  const kinds: Record<number, Kind> = { 0: "quick", 1: "wait", 6: "sleep", 7: "timeout" };
  const steps = plain.steps.map((step, n) => ({
    ...step,
    kind: kinds[n] ?? ("once" as const),
    withNext: false,
    savesAfter: n === 2,
    endsTurn: n === 3,
  }));
  const events = [{ id: "a", atMs: 0, copies: 1 }];
  const plan: Plan = { ...plain, steps, delayMs: 5, ends: "completed", events };
  const values = Array.from({ length: STEPS }, (_, n) => GIVEN.get(n) ?? `value ${n}`);
  const facts: Fact[] = [
    { atMs: 0, task, is: "delayed", dueAtMs: 0 },
    { atMs: 0, task, is: "delayed", dueAtMs: 1 },
    { atMs: 1, task, is: "claimed", token: 1 },
    { atMs: 1, task, is: "started", attempt: 1, nowMs: 0 },
    { atMs: 6, task, is: "asked", step: 6, untilMs: 6 },
    // The first attempt had recorded the wait, so the second attempt's time doesn't count.
    { atMs: 7, task, is: "asked", step: 7, untilMs: 7 },
    { atMs: 7, task, is: "asked", step: 7, untilMs: 90 },
    { atMs: 8, task, is: "followed", sequence: 1, kind: "event" },
    { atMs: 9, task, is: "followed", sequence: 2, kind: "checkpoint" },
    { atMs: 10, task, is: "followed", sequence: 3, kind: "step" },
    { atMs: 11, task, is: "followedAll" },
    { atMs: 11, task, is: "awaited", outcome: values },
    ...values.flatMap((value, step): Fact[] => [
      ...(GIVEN.has(step) ? [] : [{ atMs: step + 2, task, is: "ran", step, key: `key ${step}`, value } as const]),
      { atMs: step + 2, task, is: "saved", token: 1, sequence: step + 1, sentAtMs: step + 2 },
      { atMs: step + 3, task, is: "got", step, value, nowMs: step },
    ]),
  ];
  const stored: Stored = {
    taskId: task,
    status: "completed",
    result: values,
    saves: [
      { sequence: 3, token: 1, label: "Saved after 2" },
      { sequence: 4, token: 1, label: "Passed after 3" },
      { sequence: STEPS, token: 1, label: "Run completed" },
    ],
    events: [{ id: "a", status: "received" }],
    records: [
      { sequence: 1, kind: "event" },
      { sequence: 3, kind: "step" },
    ],
  };
  return { plan, facts, stored };
}

function verdictOf({ plan, facts, stored }: Run, storage: StorageName = "json-file"): string[] {
  return violationsOf({ storage, plans: [plan], facts, stored: new Map([[stored.taskId, stored]]) });
}

function withFacts(run: Run, ...facts: Fact[]): Run {
  return { ...run, facts: [...run.facts, ...facts] };
}

/** Returns the run with another value of a step, in the ledger and in the result. */
function withValue({ plan, facts, stored }: Run, step: number, value: string): Run {
  const got = facts.map((fact) => (fact.is === "got" && fact.step === step ? { ...fact, value } : fact));
  const result = (stored.result as readonly string[]).map((one, n) => (n === step ? value : one));
  return { plan, facts: withOutcome(got, result), stored: { ...stored, result } };
}

/** Returns the facts with this outcome of a wait for the run's result. */
function withOutcome(facts: readonly Fact[], outcome: unknown): Fact[] {
  return facts.map((fact) => (fact.is === "awaited" ? { ...fact, outcome } : fact));
}

/** Returns the task, failed in its last step. */
function failed(ends: "failed" | "poison", error: Stored["error"], { plan, facts, stored }: Run = intact()): Run {
  const before = facts.filter((fact) => !("step" in fact && fact.step === STEPS - 1));
  return {
    plan: { ...plan, ends },
    facts: withOutcome(before, "failed"),
    stored: { ...stored, status: "failed", error },
  };
}

/** Returns a task that killed its worker in `deaths` attempts, after the first attempt had saved the step before. */
function poisonous(deaths: number, name = "AttemptsError"): Run {
  const run = failed("poison", { name, message: "" });
  const attempts = Array.from({ length: deaths }, (_, n) => n + 1);
  const facts = attempts.flatMap((token): Fact[] => [
    ...(token === 1 ? [] : [{ atMs: 100 * token, task, is: "claimed", token } as const]),
    { atMs: 100 * token + 1, task, is: "died" },
  ]);
  const end = { sequence: STEPS + 1, token: deaths + 1, label: "Run failed" };
  return { ...withFacts(run, ...facts), stored: { ...run.stored, saves: [...run.stored.saves, end] } };
}

/** Returns the facts, with a first fact that the last attempt got the step's recorded value again. */
function againAtLast({ facts }: Run): Fact[] {
  const again = { atMs: 600, task, is: "got", step: STEPS - 2, value: `value ${STEPS - 2}`, nowMs: 600 } as const;
  return [again, ...facts];
}

function errorOf(code: string, message: string): Fact {
  return { ...at, is: "error", code, message };
}

it("finds nothing in a run that went well", () => {
  expect(verdictOf(intact())).toEqual([]);
});

const well: readonly (readonly [string, Run] | readonly [string, Run, StorageName])[] = [
  [
    "whose sleep lasted until the first attempt's time",
    withFacts(intact(), { ...at, is: "asked", step: 6, untilMs: 99 }),
  ],
  ["whose atMostOnce step was interrupted", withValue(intact(), 4, "interrupted")],
  [
    "that failed as planned",
    withFacts(failed("failed", { message: PLANNED_FAILURE }), errorOf("Error", PLANNED_FAILURE)),
  ],
  [
    "that killed as many workers as it may",
    withFacts(poisonous(MAX_ATTEMPTS + 1), errorOf("AttemptsError", "Too many attempts.")),
  ],
  [
    "whose last attempt comes first in the ledgers",
    { ...poisonous(MAX_ATTEMPTS + 1), facts: againAtLast(poisonous(MAX_ATTEMPTS + 1)) },
  ],
  [
    "that was also killed elsewhere before it killed its own workers",
    { ...poisonous(MAX_ATTEMPTS + 1), facts: poisonous(MAX_ATTEMPTS + 1).facts.filter(({ atMs }) => atMs !== 301) },
  ],
  [
    "that paused between two of its kills",
    withFacts(poisonous(MAX_ATTEMPTS + 3), { atMs: 250, task, is: "released", token: 2 }),
  ],
  ["that met other holders", withFacts(intact(), errorOf("LEASE_LOST", ""), errorOf("LEASE_HELD", ""))],
  ["whose server was killed", withFacts(intact(), errorOf("STORAGE_FAILED", "The connection broke.")), "postgres"],
  [
    "that a stopped process locked out",
    withFacts(intact(), errorOf("STORAGE_FAILED", "The database was locked by another process for all 5000 ms.")),
    "sqlite",
  ],
];

it.each(well)("finds nothing in a run %s", (...[, run, storage]) => {
  expect(verdictOf(run, storage)).toEqual([]);
});

const spoilt: readonly (readonly [string, (run: Run) => Run, string])[] = [
  [
    "a follower that never saw the end",
    (run) => ({ ...run, facts: run.facts.filter(({ is }) => is !== "followedAll") }),
    "chaos/0 wasn't followed to its end",
  ],
  [
    "a record that a follower got twice",
    (run) => withFacts(run, { ...at, is: "followed", sequence: 3, kind: "step" }),
    "chaos/0: a follower got 3 after 3",
  ],
  [
    "a record that no follower got",
    (run) => ({ ...run, facts: run.facts.filter((fact) => fact.is !== "followed" || fact.sequence !== 3) }),
    "chaos/0: no follower got the step with the sequence 3",
  ],
  [
    "a record that a follower got and that a power cut has lost",
    (run) => withFacts(run, { ...at, is: "followed", sequence: 4, kind: "event" }),
    "chaos/0: a follower got the event with the sequence 4, which isn't stored",
  ],
  [
    "a wait for a result that never ended",
    (run) => ({ ...run, facts: run.facts.filter(({ is }) => is !== "awaited") }),
    "chaos/0 had 0 ends of waits for its result",
  ],
  [
    "a wait that got another result",
    (run) => ({ ...run, facts: withOutcome(run.facts, "failed") }),
    'a wait for the result of chaos/0 got "failed"',
  ],
  ["a lost task", (run) => ({ ...run, plan: { ...run.plan, taskId: "other" } }), "other is not stored"],
  [
    "a planned failure with another error",
    (run) => failed("failed", { name: "Error", message: "Other." }, run),
    "chaos/0 is failed (Error: Other.), and should be failed",
  ],
  [
    "a poisonous task with another error",
    () => poisonous(MAX_ATTEMPTS + 1, "Error"),
    "chaos/0 is failed (Error: ), and should be poison",
  ],
  [
    "a poisonous task that was given up early",
    () => poisonous(MAX_ATTEMPTS - 1),
    `chaos/0 was tried ${MAX_ATTEMPTS - 1} times, and should be ${MAX_ATTEMPTS}`,
  ],
  [
    "a poisonous task that was tried too many times",
    () => poisonous(MAX_ATTEMPTS + 2),
    `chaos/0 killed its worker more than ${MAX_ATTEMPTS + 1} times`,
  ],
  [
    "a task that began too early",
    (run) => withFacts(run, { ...at, is: "started", attempt: 2, nowMs: -3 }),
    "chaos/0 began 3 ms before it was due",
  ],
  ["a task that failed", (run) => ({ ...run, stored: { ...run.stored, status: "failed" } }), "should be completed"],
  ["a task that didn't fail", (run) => ({ ...run, plan: { ...run.plan, ends: "failed" } }), "should be failed"],
  [
    "a step with two results",
    (run) => ({ ...run, facts: [...run.facts, { ...at, is: "got", step: 3, value: "other", nowMs: 9 }] }),
    "step 3 of chaos/0 has several results: value 3, other",
  ],
  [
    "a result that no call made",
    (run) => ({ ...run, facts: run.facts.map((fact) => (fact.is === "ran" ? { ...fact, value: "other" } : fact)) }),
    "step 0 of chaos/0 has the result value 0, which no call of it made",
  ],
  [
    "a result that nobody made",
    (run) => ({ ...run, facts: run.facts.filter((fact) => !(fact.is === "ran" && fact.step === 0)) }),
    "step 0 of chaos/0 has the result value 0, which no call of it made",
  ],
  [
    "an interrupted step without atMostOnce",
    (run) => withValue(run, 0, "interrupted"),
    "step 0 of chaos/0 has the result interrupted, which no call of it made",
  ],
  [
    "another value of a sleep",
    (run) => withValue(run, 6, "nobody"),
    "step 6 of chaos/0 has the result nobody, which no call of it made",
  ],
  [
    "a wait that was ended by an event which nobody sent",
    (run) => withValue(run, 7, "somebody"),
    "step 7 of chaos/0 has the result somebody, which no call of it made",
  ],
  [
    "a step that is missing in the ledger",
    (run) => ({ ...run, facts: run.facts.filter((fact) => !(fact.is === "got" && fact.step === 5)) }),
    "chaos/0 has 10 results; missing: 5",
  ],
  [
    "a step that is missing in the record",
    (run) => ({ ...run, stored: { ...run.stored, result: [...(run.stored.result as string[]), "more"] } }),
    "chaos/0 has 11 results; missing: ",
  ],
  [
    "a milestone that is missing",
    (run) => ({ ...run, stored: { ...run.stored, saves: run.stored.saves.slice(1) } }),
    'chaos/0 has the milestone "Saved after 2" 0 times',
  ],
  [
    "a milestone that was saved twice",
    ({ stored, ...run }) => ({
      ...run,
      stored: { ...stored, saves: [...stored.saves, { sequence: 5, token: 1, label: "Passed after 3" }] },
    }),
    'chaos/0 has the milestone "Passed after 3" 2 times',
  ],
  [
    "a milestone that isn't planned",
    ({ stored, ...run }) => ({
      ...run,
      stored: { ...stored, saves: [...stored.saves, { sequence: 5, token: 1, label: "Passed after 4" }] },
    }),
    'chaos/0 has the milestone "Passed after 4", which isn\'t planned',
  ],
  [
    "another result in the record",
    (run) => ({ ...run, stored: { ...run.stored, result: ["other"] } }),
    "step 0 of chaos/0 gave value 0, and other is recorded",
  ],
  [
    "a step that ran twice with atMostOnce",
    (run) => ({ ...run, facts: [...run.facts, { ...at, is: "ran", step: 4, key: "key 4", value: "again" }] }),
    "step 4 of chaos/0 ran 2 times, and has atMostOnce",
  ],
  [
    "a save under an old token, in the order of the sequences",
    (run) => ({ ...run, stored: { ...run.stored, saves: [{ sequence: 2, token: 5 }] } }),
    "chaos/0: sequence 3 has token 1 after 5",
  ],
  [
    "a save that was sent after another claim",
    (run) => ({ ...run, facts: [...run.facts, { atMs: 4, task, is: "claimed", token: 2 }] }),
    "chaos/0: sequence 4 was saved under token 1, sent 1 ms after token 2 was given",
  ],
  [
    "a late save that was sent after another claim",
    (run) => withFacts(run, { atMs: 10, task, is: "claimed", token: 2 }),
    "chaos/0: sequence 10 was saved under token 1, sent 1 ms after token 2 was given",
  ],
  [
    "a token that was given twice",
    (run) => ({ ...run, facts: [...run.facts, { ...at, is: "claimed", token: 1 }] }),
    "chaos/0: token 1 was given twice",
  ],
  [
    "an event that was received twice",
    (run) => {
      const steps = run.plan.steps.map((step, n) => (n === 2 ? { ...step, kind: "wait" as const } : step));
      const facts = run.facts.map((fact) => (fact.is === "got" && fact.step === 2 ? { ...fact, value: "a" } : fact));
      return { ...run, plan: { ...run.plan, steps }, facts };
    },
    "chaos/0: event a was received by steps 1, 2",
  ],
  ["an event that nobody sent", (run) => withValue(run, 1, "z"), "chaos/0: event z was received, and never sent"],
  [
    "an event that is stored twice",
    ({ stored, ...run }) => ({ ...run, stored: { ...stored, events: [...stored.events, ...stored.events] } }),
    "chaos/0: events are stored twice: a, a",
  ],
  [
    "an event that wasn't marked",
    (run) => ({ ...run, stored: { ...run.stored, events: [{ id: "a", status: "pending" }] } }),
    "chaos/0: event a was received, and is stored as pending",
  ],
  [
    "an event that was lost",
    (run) => ({ ...run, plan: { ...run.plan, events: [...run.plan.events, { id: "b", atMs: 0, copies: 1 }] } }),
    "chaos/0: event b was never received",
  ],
  [
    "a sleep that was too short",
    ({ facts, ...run }) => ({
      ...run,
      facts: facts.map((fact) => (fact.is === "asked" && fact.step === 6 ? { ...fact, untilMs: 100 } : fact)),
    }),
    "step 6 of chaos/0 slept 94 ms too little",
  ],
  [
    "a wait with a time limit that was too short",
    ({ facts, ...run }) => ({
      ...run,
      facts: facts.map((fact) => (fact.is === "asked" && fact.step === 7 ? { ...fact, untilMs: 17 } : fact)),
    }),
    "step 7 of chaos/0 slept 10 ms too little",
  ],
  [
    "a key that changed",
    (run) => ({ ...run, facts: [...run.facts, { ...at, is: "ran", step: 4, key: "other", value: "again" }] }),
    "step 4 of chaos/0 has several keys",
  ],
  [
    "a key of two steps",
    (run) => ({ ...run, facts: [...run.facts, { ...at, is: "ran", step: 4, key: "key 5", value: "again" }] }),
    "key key 5 belongs to step 5 of chaos/0 and step 4 of chaos/0",
  ],
  [
    "an error that no fault explains",
    (run) => ({
      ...run,
      facts: [...run.facts, { ...at, is: "error", code: "CHECKPOINT_CONFLICT", message: "Taken." }],
    }),
    "chaos/0 had the error CHECKPOINT_CONFLICT: Taken.",
  ],
  [
    "an error of a task that fails otherwise",
    (run) => withFacts(failed("failed", { message: PLANNED_FAILURE }, run), errorOf("Error", "Other.")),
    "chaos/0 had the error Error: Other.",
  ],
  [
    "an error of a task that kills its workers",
    () => withFacts(poisonous(MAX_ATTEMPTS + 1), errorOf("Error", "Other.")),
    "chaos/0 had the error Error: Other.",
  ],
  [
    "a storage that fails without a fault",
    (run) => withFacts(run, errorOf("STORAGE_FAILED", "No space is left.")),
    "chaos/0 had the error STORAGE_FAILED: No space is left.",
  ],
];

it.each(spoilt)("finds %s", (_, spoil, violation) => {
  expect(verdictOf(spoil(intact()))).toContainEqual(expect.stringContaining(violation));
});

it.each([
  ["sqlite", "No space is left."],
  ["json-file", "The database was locked by another process for all 5000 ms."],
] as const)("finds a failure of %s that no fault explains: %s", (storage, message) => {
  const run = withFacts(intact(), errorOf("STORAGE_FAILED", message));
  expect(verdictOf(run, storage)).toEqual([`chaos/0 had the error STORAGE_FAILED: ${message}`]);
});

/** Returns the task with a child run in step 8. */
function withChild(): { readonly run: Run; readonly child: Stored; readonly facts: readonly Fact[] } {
  const plain = intact();
  const made = "first, second";
  const steps = plain.plan.steps.map((step, n) => (n === 8 ? { ...step, kind: "child" as const } : step));
  const outer = withValue({ ...plain, plan: { ...plain.plan, steps } }, 8, made);
  const own = outer.facts.map((fact) => (fact.is === "ran" && fact.step === 8 ? { ...fact, value: made } : fact));
  const childId = childTaskId(task, 8);
  const facts = ["first", "second"].flatMap((value, step): Fact[] => [
    { atMs: 10, task: childId, is: "ran", step, key: `child ${step}`, value },
    { atMs: 10, task: childId, is: "got", step, value, nowMs: 10 },
  ]);
  const called: Fact = { atMs: 2, task, is: "called" };
  const stored = { status: "completed", result: ["first", "second"], saves: [], events: [], records: [] };
  return { run: { ...outer, facts: [...own, called] }, child: { taskId: childId, ...stored }, facts };
}

function childVerdict({ run, child, facts }: ReturnType<typeof withChild>): string[] {
  const stored = new Map([run.stored, child].map((one) => [one.taskId, one]));
  return violationsOf({ storage: "json-file", plans: [run.plan], facts: [...run.facts, ...facts], stored });
}

it("finds nothing in a child run that went well", () => {
  expect(childVerdict(withChild())).toEqual([]);
});

it("finds what a child run did wrong", () => {
  const intact = withChild();
  const childId = intact.child.taskId;
  const of = (more: Fact) => childVerdict({ ...intact, facts: [...intact.facts, more] });
  expect(childVerdict({ ...intact, child: { ...intact.child, status: "paused" } })).toEqual([
    `${childId} is paused, and should be completed`,
  ]);
  expect(of({ atMs: 12, task: childId, is: "called" })).toEqual([`a worker's function was called for ${childId}`]);
  expect(of({ atMs: 12, task: childId, is: "got", step: 1, value: "other", nowMs: 12 })).toEqual([
    `step 1 of ${childId} has several results: second, other`,
  ]);
  expect(childVerdict({ ...intact, child: { ...intact.child, result: ["first"] } })).toContain(
    `step 8 of ${task} gave first, second, and its child run gave first`,
  );
});

it("finds a fault that never happened in a long run", () => {
  expect(missingFaults({ kills: 3, cuts: 0, drains: 0 }, 60)).toEqual(["there were no cuts", "there were no drains"]);
  expect(missingFaults({ kills: 3, cuts: 0 }, 59)).toEqual([]);
});

it("reads only the ledgers of senders for a sender, because a worker may be writing its own", async () => {
  const folder = await tempFolder();
  openLedger(folder, "sender-1")({ is: "enqueued", task: "chaos/1" });
  writeFileSync(join(folder, "worker-2.jsonl"), '{"atMs":1,"is":"sa');
  expect(factsIn(folder, "sender-")).toMatchObject([{ is: "enqueued", task: "chaos/1" }]);
});
