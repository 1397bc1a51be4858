import { moved } from "../moved.js";

export { type CheckpointConfig, PrpCheckpointManager } from "./checkpoint-manager.js";
export {
  type CheckpointData,
  CheckpointDataSchema,
  type CheckpointExecutionState,
  CheckpointExecutionStateSchema,
  type CheckpointFile,
  CheckpointFileSchema,
  type CoderResult,
  CoderResultSchema,
  type GateStage,
  PrpRunStateSchema,
  type PrpStage,
  PrpStageSchema,
  type ValidationGateResult,
  ValidationGateResultSchema,
  type WorkProgress,
  WorkProgressSchema,
} from "./schema.js";
export {
  type DamagedCheckpoint,
  type PrpSessionStatus,
  type PrpTaskStatus,
  prpStatus,
} from "./status.js";

/** @internal */
export const PrpExecutor = moved("PrpExecutor", "waymark-runners/prp");
/** @internal */
export const PrpError = moved("PrpError", "waymark-runners/prp");
/** @internal */
export const PrpDocumentSchema = moved("PrpDocumentSchema", "waymark-runners/prp");
/** @internal */
export const PrpGateSchema = moved("PrpGateSchema", "waymark-runners/prp");
/** @internal */
export const checkPrp = moved("checkPrp", "waymark-runners/prp");
