// The tasks of a chaos run. Each process computes them from the seed, so they needn't be sent.

export type Kind = "quick" | "slow" | "flaky" | "caught" | "once" | "sleep" | "wait" | "race" | "timeout" | "child";

export interface PlannedStep {
  readonly kind: Kind;
  /** The duration of a slow step, a sleep, a tick in a race, or a wait without an answer. */
  readonly ms: number;
  /** The number of failing tries of a flaky step. */
  readonly failures: number;
  /** Whether the step runs at the same time as the next one. */
  readonly withNext: boolean;
  readonly savesAfter: boolean;
  readonly endsTurn: boolean;
}

export interface PlannedEvent {
  readonly id: string;
  readonly atMs: number;
  /** How many times the event is sent, with the same id. */
  readonly copies: number;
}

export interface Plan {
  readonly taskId: string;
  readonly number: number;
  readonly atMs: number;
  readonly delayMs: number;
  /** A `failed` task throws in its last step, a `poison` task kills its worker in its last step. */
  readonly ends: "completed" | "failed" | "poison";
  readonly steps: readonly PlannedStep[];
  readonly events: readonly PlannedEvent[];
}

/** Matches the labels of milestones, and no other labels. */
export const MILESTONE = /^(Saved|Passed) after \d+$/;

/** Steps that run at the same time (usually only one), and the milestones after them. */
export interface Group {
  readonly first: number;
  readonly last: number;
  /** The label of the save after the steps. */
  readonly save: string | undefined;
  /** The label of the turn's end after the steps. */
  readonly next: string | undefined;
}

/** One in this many tasks is followed. */
export const FOLLOWED = 12;
export const PREFIX = "chaos/";
export const EVENT = "approve";
export const STEPS = 10;
/** A task fails after this many attempts in a row without a save. */
export const MAX_ATTEMPTS = 5;
export const PLANNED_FAILURE = "This failure is planned.";

const CHILD_STEP = { ms: 300, failures: 0, withNext: false, savesAfter: false, endsTurn: false } as const;

/** The steps of a child run. */
export const CHILD_STEPS: readonly PlannedStep[] = [
  { ...CHILD_STEP, kind: "slow" },
  { ...CHILD_STEP, kind: "quick" },
];

/** One in this many tasks kills its workers. */
const POISON_EVERY = 400;

const KINDS: readonly Kind[] = [
  ...(["quick", "quick", "quick", "quick", "quick", "quick", "slow", "slow"] as const),
  ...(["flaky", "flaky", "wait", "race", "caught", "once", "sleep", "timeout", "child"] as const),
];

/** The longest durations of some kinds of steps. */
const MOST_MS: Partial<Record<Kind, number>> = { slow: 400, timeout: 1000, race: 600 };

/** @param number - The task's number, from 0. @param spreadMs - The time during which the tasks are enqueued. */
export function planOf(seed: number, number: number, spreadMs: number): Plan {
  const random = randomOf(seed * 1_000_003 + number);
  const below = (limit: number) => Math.floor(random() * limit);
  const atMs = below(spreadMs);
  const steps = Array.from({ length: STEPS }, (): PlannedStep => {
    const kind = KINDS[below(KINDS.length)] ?? "quick";
    return {
      kind,
      ms: MOST_MS[kind] === undefined ? below(3000) : 10 + below(MOST_MS[kind]),
      failures: 1 + below(2),
      withNext: random() < 0.1,
      savesAfter: random() < 0.1,
      endsTurn: random() < 0.05,
    };
  });
  // Some events are sent before their task is enqueued.
  const events = steps
    .filter(({ kind }) => isForEvent(kind))
    .map((_, wait) => ({
      id: `${number}-${wait}`,
      atMs: Math.max(0, atMs - 1000 + below(6000)),
      copies: random() < 0.3 ? 2 : 1,
    }));
  const ends = number % POISON_EVERY === 1 ? "poison" : random() < 0.05 ? "failed" : "completed";
  const delayMs = random() < 0.2 ? below(2000) : 0;
  return { taskId: `${PREFIX}${number}`, number, atMs, delayMs, ends, steps, events };
}

/** Whether a step of this kind receives an event. */
export function isForEvent(kind: Kind | undefined): boolean {
  return kind === "wait" || kind === "race";
}

/** Returns the task of a step's child run. */
export function childTaskId(taskId: string, step: number): string {
  return `${taskId}/child-${step}`;
}

/** Returns the plans of a task's child runs. */
export function childPlansOf(plan: Plan): Plan[] {
  // The last step of a task that fails is replaced, so it has no child run.
  const steps = plan.ends === "completed" ? plan.steps : plan.steps.slice(0, -1);
  return [...steps.entries()].flatMap(([step, { kind }]) =>
    kind === "child"
      ? [
          {
            ...plan,
            taskId: childTaskId(plan.taskId, step),
            delayMs: 0,
            ends: "completed",
            steps: CHILD_STEPS,
            events: [],
          },
        ]
      : [],
  );
}

export function groupsOf(steps: readonly PlannedStep[]): Group[] {
  const groups: Group[] = [];
  for (const [first, step] of steps.entries()) {
    if (first <= (groups.at(-1)?.last ?? -1)) continue;
    const next = steps[first + 1];
    // Two waits for the same event name can't overlap, a lost race ends its turn, and the last step may be replaced.
    const isApart = step.kind === "race" || next?.kind === "race" || (step.kind === "wait" && next?.kind === "wait");
    const isPair = step.withNext && first + 2 < steps.length && !isApart;
    const last = isPair ? first + 1 : first;
    groups.push({
      first,
      last,
      save: step.savesAfter ? `Saved after ${last}` : undefined,
      next: step.endsTurn && last + 1 < steps.length ? `Passed after ${last}` : undefined,
    });
  }
  return groups;
}

/** Returns a generator of numbers from 0 to 1 that depend only on the seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
