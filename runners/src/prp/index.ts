export { type CheckPrpOptions, checkPrp, type GateCheck, type PrpCheck } from "./check-prp.js";
export type { Coder, CoderAnswer, CoderRequest } from "./coder.js";
export { PrpError, type PrpErrorCode } from "./errors.js";
export type { GateFinding } from "./gates/gate-findings.js";
export type { OutputSource, PrpOutput } from "./output.js";
export { type PrpDocument, PrpDocumentSchema, type PrpGate, PrpGateSchema } from "./prp-document.js";
export { type ExecuteOptions, PrpExecutor, type PrpExecutorOptions } from "./prp-executor.js";
export type { ExecutionResult } from "./prp-run.js";
export type { LeftBlock } from "./reading/commands.js";
