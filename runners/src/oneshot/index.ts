export { RunnerError, type RunnerErrorCode } from "../runner-error.js";
export type { ListedWorkstream, OneshotEvent, OneshotListener, WorkstreamFailure } from "./events.js";
export type { OneshotOptions } from "./oneshot-options.js";
export type { CheckedWorkstream, OneshotPlan, Workstream, WorkstreamFolder } from "./plan.js";
export { type LoadedPlan, loadPlan, type PlanSource } from "./plan-file.js";
export { type OneshotResult, runOneshot } from "./run-oneshot.js";
