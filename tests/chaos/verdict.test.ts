// The verdict of a chaos run finds each kind of violation.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { type Fact, factsIn, openLedger } from "./ledger.js";
import { type Plan, planOf, STEPS } from "./plan.js";
import { type Stored, violationsOf } from "./verdict.js";

interface Run {
  readonly plan: Plan;
  readonly facts: Fact[];
  readonly stored: Stored;
}

/** A completed task, of which the wait of step 1 received a signal. */
function intact(): Run {
  const plain = planOf(1, 0, 1000);
  const steps = plain.steps.map((step, at) => ({ ...step, kind: at === 1 ? ("wait" as const) : ("once" as const) }));
  const plan: Plan = { ...plain, steps, ends: "completed", signals: [{ id: "a", atMs: 0, copies: 1 }] };
  const [task, values] = [plan.taskId, Array.from({ length: STEPS }, (_, at) => (at === 1 ? "a" : `value ${at}`))];
  const facts: Fact[] = [
    { atMs: 1, task, is: "claimed", token: 1 },
    ...values.flatMap((value, step): Fact[] => [
      ...(step === 1 ? [] : [{ atMs: step + 2, task, is: "ran", step, key: `key ${step}`, value } as const]),
      { atMs: step + 2, task, is: "saved", token: 1, sequence: step + 1, sentAtMs: step + 2 },
      { atMs: step + 3, task, is: "got", step, value, nowMs: step },
    ]),
  ];
  const stored: Stored = {
    taskId: task,
    status: "completed",
    result: values,
    saves: [{ sequence: STEPS, token: 1 }],
    signals: [{ id: "a", status: "received" }],
  };
  return { plan, facts, stored };
}

function verdictOf({ plan, facts, stored }: Run): string[] {
  return violationsOf([plan], facts, new Map([[stored.taskId, stored]]));
}

it("finds nothing in a run that went well", () => {
  expect(verdictOf(intact())).toEqual([]);
});

const task = "chaos/0";
const at = { atMs: 20, task };
const spoilt: readonly (readonly [string, (run: Run) => Run, string])[] = [
  ["a lost task", (run) => ({ ...run, plan: { ...run.plan, taskId: "other" } }), "other is not stored"],
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
    "a token that was given twice",
    (run) => ({ ...run, facts: [...run.facts, { ...at, is: "claimed", token: 1 }] }),
    "chaos/0: token 1 was given twice",
  ],
  [
    "a signal that was received twice",
    (run) => {
      const steps = run.plan.steps.map((step, n) => (n === 2 ? { ...step, kind: "wait" as const } : step));
      const facts = run.facts.map((fact) => (fact.is === "got" && fact.step === 2 ? { ...fact, value: "a" } : fact));
      return { ...run, plan: { ...run.plan, steps }, facts };
    },
    "chaos/0: signal a was received by steps 1, 2",
  ],
  [
    "a signal that wasn't marked",
    (run) => ({ ...run, stored: { ...run.stored, signals: [{ id: "a", status: "pending" }] } }),
    "chaos/0: signal a was received, and is stored as pending",
  ],
  [
    "a signal that was lost",
    (run) => ({ ...run, plan: { ...run.plan, signals: [...run.plan.signals, { id: "b", atMs: 0, copies: 1 }] } }),
    "chaos/0: signal b was never received",
  ],
  [
    "a sleep that was too short",
    (run) => ({ ...run, facts: [...run.facts, { ...at, is: "asked", step: 5, untilMs: 100 }] }),
    "step 5 of chaos/0 slept 95 ms too little",
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
];

it.each(spoilt)("finds %s", (_, spoil, violation) => {
  expect(verdictOf(spoil(intact()))).toContainEqual(expect.stringContaining(violation));
});

it("a sender reads the ledgers of senders alone, since a worker may be writing its own", async () => {
  const folder = await tempFolder();
  openLedger(folder, "sender-1")({ is: "enqueued", task: "chaos/1" });
  writeFileSync(join(folder, "worker-2.jsonl"), '{"atMs":1,"is":"sa');
  expect(factsIn(folder, "sender-")).toMatchObject([{ is: "enqueued", task: "chaos/1" }]);
});
