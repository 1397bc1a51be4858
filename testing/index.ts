// `waymark/testing`: `SimulatedRuntime` simulates time, `rehearse` stops a run in memory at every point and resumes it,
// and `checkHistory` checks the storage calls of real processes.
export type { HistoryAction, HistoryCall, HistoryItem, SeenItem } from "./history/calls.js";
export { checkHistory, type HistoryViolation } from "./history/check.js";
export { parseHistory, type RecordHistoryOptions, recordHistory } from "./history/record.js";
export type { InterruptedStep, Rehearsal, RehearsalProblem, StepThatRanTwice } from "./rehearsal.js";
export { type RehearsedFunction, type RehearseOptions, rehearse } from "./rehearse.js";
export { SimulatedRuntime, type SimulatedRuntimeOptions } from "./simulated-runtime.js";
