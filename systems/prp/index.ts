export { type CheckPrpOptions, checkPrp, type GateCheck, type PrpCheck } from "./check-prp.js";
export { type CheckpointConfig, PrpCheckpointManager } from "./checkpoint-manager.js";
export type { Coder, CoderAnswer, CoderRequest } from "./coder.js";
export { PrpError, type PrpErrorCode } from "./errors.js";
export type { GateFinding } from "./gates/gate-findings.js";
export type { GateShell } from "./gates/gate-script.js";
export type { OutputSource, PrpOutput } from "./output.js";
export { type PrpDocument, PrpDocumentSchema, type PrpGate, PrpGateSchema } from "./prp-document.js";
export { type ExecuteOptions, PrpExecutor, type PrpExecutorOptions } from "./prp-executor.js";
export type { ExecutionResult } from "./prp-run.js";
export type { LeftBlock } from "./reading/commands.js";
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
