export { PlanError, type PlanErrorCode } from "./errors.js";
export { findPlans } from "./find-plans.js";
export { findScript, scriptGates } from "./item-gates.js";
export { type Spent, spentText } from "./item-work.js";
export type { ItemStatus, Mark, Plan, PlanItem } from "./plan.js";
export { type ReadPlanOptions, readPlan } from "./read-plan.js";
export {
  gatesFor,
  type ItemRecord,
  type PlanResult,
  type PlanState,
  planTask,
  type RunPlanOptions,
  readScripts,
  runPlan,
} from "./run-plan.js";
