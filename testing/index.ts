// `waymark/testing`: runs that are tried out before they are killed in earnest.
export type { InterruptedStep, Rehearsal, RehearsalProblem, StepThatRanTwice } from "./rehearsal.js";
export { type RehearsedFunction, type RehearseOptions, rehearse } from "./rehearse.js";
