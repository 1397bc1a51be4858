export { readScripts } from "../prp/gates/servers.js";
export { RunnerError, type RunnerErrorCode } from "../runner-error.js";
export { findPlans } from "./find-plans.js";
export { findScript, gatesFor, scriptGates } from "./item-gates.js";
export { type Spent, spentText } from "./item-work.js";
export type { ItemStatus, Mark, Plan, PlanItem } from "./plan.js";
export { type ItemRecord, type PlanResult, type PlanState, planTask, type RunPlanOptions } from "./plan-options.js";
export { type ReadPlanOptions, readPlan } from "./read-plan.js";
export { runPlan } from "./run-plan.js";
