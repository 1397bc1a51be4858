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
