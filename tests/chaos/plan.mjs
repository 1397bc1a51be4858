// @ts-check
// The tasks of a chaos run. Each process computes them from the seed, so none has to be told.

/** @typedef {"quick" | "slow" | "flaky" | "caught" | "once" | "sleep" | "wait" | "timeout"} Kind */

/**
 * A step of a task. `ms` is the time of a slow step, of a sleep, or of a wait that nobody answers; `failures` is the number of
 * tries that fail; `withNext` runs the step at the same time as the next one.
 *
 * @typedef {{ kind: Kind, ms: number, failures: number, withNext: boolean, savesAfter: boolean, endsPass: boolean }} PlannedStep
 */

/**
 * A signal for a task. `copies` are sent with one id.
 *
 * @typedef {{ id: string, atMs: number, copies: number }} PlannedSignal
 */

/**
 * `ends`: `failed` throws in its last step, `poison` kills its worker there.
 *
 * @typedef {{
 *   taskId: string, number: number, atMs: number, delayMs: number, ends: "completed" | "failed" | "poison",
 *   steps: readonly PlannedStep[], signals: readonly PlannedSignal[],
 * }} Plan
 */

export const PREFIX = "chaos/";
export const SIGNAL = "approve";
export const STEPS = 10;
/** An attempt ends a task as failed after so many in a row without a save. */
export const MAX_ATTEMPTS = 5;
export const PLANNED_FAILURE = "This failure is planned.";

/** One task of so many kills its workers. */
const POISON_EVERY = 400;

/** @type {readonly Kind[]} */
const KINDS = [
  ...["quick", "quick", "quick", "quick", "quick", "quick"],
  ...["slow", "slow", "flaky", "flaky", "caught", "once", "sleep", "wait", "wait", "timeout"],
];

/**
 * @param {number} seed
 * @param {number} number - The task's number, from 0.
 * @param {number} spreadMs - The tasks are enqueued during this time.
 * @returns {Plan}
 */
export function planOf(seed, number, spreadMs) {
  const random = randomOf(seed * 1_000_003 + number);
  const below = (/** @type {number} */ limit) => Math.floor(random() * limit);
  const atMs = below(spreadMs);
  const steps = Array.from({ length: STEPS }, () => {
    const kind = KINDS[below(KINDS.length)] ?? "quick";
    const ms = kind === "slow" ? 10 + below(400) : kind === "timeout" ? 10 + below(1000) : below(3000);
    return {
      ...{ kind, ms, failures: 1 + below(2) },
      ...{ withNext: random() < 0.1, savesAfter: random() < 0.1, endsPass: random() < 0.05 },
    };
  });
  const waits = steps.filter(({ kind }) => kind === "wait");
  // Some signals come before the task.
  const signals = waits.map((_, wait) => ({
    id: `${number}-${wait}`,
    atMs: Math.max(0, atMs - 1000 + below(6000)),
    copies: random() < 0.3 ? 2 : 1,
  }));
  const ends = number % POISON_EVERY === 1 ? "poison" : random() < 0.05 ? "failed" : "completed";
  const delayMs = random() < 0.2 ? below(2000) : 0;
  return { taskId: `${PREFIX}${number}`, number, atMs, delayMs, ends, steps, signals };
}

/** Random numbers from 0 to 1, the same ones for the same seed (mulberry32). @param {number} seed */
export function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
