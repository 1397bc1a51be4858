// `waymark/testing`: stops and resumes a run at every point, in memory.
export type { InterruptedStep, Rehearsal, RehearsalProblem, StepThatRanTwice } from "./rehearsal.js";
export { type RehearsedFunction, type RehearseOptions, rehearse } from "./rehearse.js";
