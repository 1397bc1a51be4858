export { type CheckpointConfig, PrpCheckpointManager } from "./checkpoint-manager.js";
export type { Coder, CoderAnswer, CoderRequest } from "./coder.js";
export { PrpError, type PrpErrorCode } from "./errors.js";
export type { OutputSource, PrpOutput } from "./output.js";
export type { PrpDocument, PrpGate } from "./prp-document.js";
export { type ExecuteOptions, PrpExecutor, type PrpExecutorOptions } from "./prp-executor.js";
export type { ExecutionResult } from "./prp-run.js";
export {
  type CheckpointData,
  CheckpointDataSchema,
  type CheckpointExecutionState,
  CheckpointExecutionStateSchema,
  type CheckpointFile,
  CheckpointFileSchema,
  type CoderResult,
  type PrpStage,
  type ValidationGateResult,
} from "./schema.js";
