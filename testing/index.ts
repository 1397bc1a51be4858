// `waymark/testing`: runs that are tried out before they are killed in earnest.
export type { Rehearsal, RehearsalProblem, StepThatRanTwice } from "./rehearsal.js";
export { type RehearseOptions, rehearse } from "./rehearse.js";
