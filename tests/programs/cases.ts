// A random program, and what happens in its lives.
import fc from "fast-check";
import type { Fault } from "./disturbed.js";
import { type Change, changeable, changes, type Program, programs } from "./program.js";

/** An event that is sent before the write with this number, or before the one that pauses the run. */
export interface Sending {
  readonly before: number | "pause";
  readonly name: number;
  readonly isBad: boolean;
  readonly copies: number;
}

/** What happens to one life. */
export interface Life {
  readonly fault: Fault | undefined;
  readonly sendings: readonly Sending[];
  /** What was done before, if the task has begun. */
  readonly first: "rewind" | "restart" | "retry" | "fork" | "refuse" | undefined;
  /** Chooses a record for it. */
  readonly at: number;
  readonly change: Change | undefined;
  /** Whether the steps that have an input get another one. */
  readonly changesInput: boolean;
  /** At which write of the next life this one continues, if it is frozen. */
  readonly thawsAt: number;
  /** Whether a worker runs the task, where that is allowed. Otherwise `manager.run` does. */
  readonly isWorked: boolean;
}

export interface Case {
  readonly program: Program;
  readonly hasInput: boolean;
  /** Whether the storage tells of its changes. Otherwise waits poll. */
  readonly isWatched: boolean;
  /** Whether another process follows the task. */
  readonly isFollowed: boolean;
  /** Whether a fork is made of the completed run. */
  readonly forksEnd: boolean;
  readonly lives: readonly Life[];
}

const fault: fc.Arbitrary<Fault> = fc.record({
  after: fc.integer({ min: 1, max: 12 }),
  how: fc.constantFrom(
    "killed",
    "killed",
    "stored",
    "stored",
    "frozen",
    "frozen",
    "failed",
    "unsure",
    "unread",
    "paused",
    "cancelled",
    "robbed",
    "contested",
  ),
});
const sending = fc.record({
  before: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 10 }) }, fc.constant("pause" as const)),
  name: fc.nat(20),
  isBad: fc.constantFrom(false, false, true),
  copies: fc.constantFrom(1, 1, 2),
});
const life: fc.Arbitrary<Life> = fc.record({
  fault: fc.option(fault, { nil: undefined, freq: 5 }),
  sendings: fc.array(sending, { maxLength: 2 }),
  first: fc.constantFrom(...Array.from({ length: 8 }, () => undefined), "rewind", "restart", "retry", "fork", "refuse"),
  at: fc.nat(100),
  change: fc.option(changes, { nil: undefined, freq: 8 }),
  changesInput: fc.constantFrom(false, false, false, true),
  thawsAt: fc.integer({ min: 1, max: 6 }),
  isWorked: fc.constantFrom(false, false, true),
});
export const cases: fc.Arbitrary<Case> = fc
  .record({
    program: programs,
    hasInput: fc.boolean(),
    isWatched: fc.boolean(),
    isFollowed: fc.boolean(),
    forksEnd: fc.constantFrom(false, false, false, true),
    lives: fc.array(life, { maxLength: 6 }),
  })
  .map((one) => (one.forksEnd || one.lives.some(isOther) ? { ...one, program: changeable(one.program) } : one));

/** Whether the notes of a life don't tell all that is recorded, or what its function calls. */
function isOther({ first, change }: Life): boolean {
  return first === "rewind" || first === "fork" || change !== undefined;
}
