// Generates a random program and the faults of its lives.
import fc from "fast-check";
import type { Fault } from "./disturbed.js";
import { type Change, changeable, changes, type Program, programs } from "./program.js";

/** An event that is sent before the write with this number, or before the write that pauses the run. */
export interface Sending {
  readonly before: number | "pause";
  readonly name: number;
  readonly isBad: boolean;
  readonly copies: number;
}

/** The faults and settings of one life. */
export interface Life {
  readonly fault: Fault | undefined;
  readonly sendings: readonly Sending[];
  /** The change before the life, if the task has begun. */
  readonly first: "rewind" | "restart" | "retry" | "fork" | "refuse" | undefined;
  /** A number that chooses the record for the change. */
  readonly at: number;
  readonly change: Change | undefined;
  /** Whether steps with an input get another input. */
  readonly changesInput: boolean;
  /** If this life is frozen: the write of the next life at which it continues. */
  readonly thawsAt: number;
  /** Whether a worker runs the task if that is allowed. If not, `manager.run` runs it. */
  readonly isWorked: boolean;
}

export interface Case {
  readonly program: Program;
  readonly hasInput: boolean;
  /** Whether the storage reports its changes. If not, waits poll. */
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

/** Whether the notes of a life don't show everything that is recorded or that its function calls. */
function isOther({ first, change }: Life): boolean {
  return first === "rewind" || first === "fork" || change !== undefined;
}
