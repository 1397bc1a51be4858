import type { CoderOutcome } from "./coder.js";
import { isSkipped, type PrpGate } from "./prp-document.js";
import type { CheckpointExecutionState, CoderResult, PrpStage, ValidationGateResult } from "./schema.js";

/** How far the work on a PRP has come: all that a checkpoint must hold to resume from it. */
export interface Position {
  readonly stage: PrpStage;
  readonly coderResponse?: string | undefined;
  readonly coderResult?: CoderResult | undefined;
  /** Of the last usable response. */
  readonly validationResults: readonly ValidationGateResult[];
  /** How many fix attempts this round has seen. A new round begins when a failed PRP is executed again. */
  readonly fixAttempt: number;
  readonly artifacts: readonly string[];
}

export const START: Position = { stage: "pre-execution", validationResults: [], fixAttempt: 0, artifacts: [] };

/** What comes next. */
export type Step =
  /** The coder works: on the PRP (attempt 0), or on what the gates found. */
  | { readonly kind: "coder"; readonly fixAttempt: number; readonly failedGates: readonly ValidationGateResult[] }
  | { readonly kind: "gate"; readonly gate: PrpGate & { readonly command: string } }
  /** Nothing is left to run, or the work can't go on. */
  | { readonly kind: "finish"; readonly position: Position; readonly error?: string }
  /** It is finished. */
  | { readonly kind: "return" };

/** What comes after `position`. Gates are in the order of their levels. */
export function nextStep(position: Position, gates: readonly PrpGate[], maxFixAttempts: number): Step {
  const { stage, coderResult, validationResults, fixAttempt } = position;
  if (stage === "complete" || stage === "failed") return { kind: "return" };
  if (stage === "pre-execution") return { kind: "coder", fixAttempt: 0, failedGates: [] };
  if (coderResult !== undefined && coderResult.result !== "success") {
    return { kind: "finish", position: { ...position, stage: "failed" }, error: coderResult.message };
  }
  const failedGates = validationResults.filter(hasFailed);
  if (failedGates.length === 0) return nextGate(position, gates);
  if (fixAttempt < maxFixAttempts) return { kind: "coder", fixAttempt: fixAttempt + 1, failedGates };
  const error = `Validation failed after ${fixAttempt} fix attempts: ${failedGates.map(nameOf).join(", ")}`;
  return { kind: "finish", position: { ...position, stage: "failed" }, error };
}

/** The position after the coder's outcome. An unusable response leaves the results of the one before it. */
export function afterCoder(position: Position, fixAttempt: number, { response, reply }: CoderOutcome): Position {
  const { result, message, artifacts } = reply;
  return {
    stage: "coder-response",
    coderResponse: response,
    coderResult: { result, message },
    validationResults: result === "success" ? [] : position.validationResults,
    fixAttempt,
    artifacts: [...new Set([...position.artifacts, ...artifacts])],
  };
}

/** The position after a gate's result. */
export function afterGate(position: Position, result: ValidationGateResult, gates: readonly PrpGate[]): Position {
  const before = withSkipped(
    position.validationResults,
    gates.filter(({ level }) => level < result.level),
  );
  return { ...position, stage: gateStage(result.level), validationResults: [...before, result] };
}

/**
 * Where the work stands by a checkpoint's state. After `failed` a new round of fix attempts begins: with the gate that
 * failed if there is a usable response (what passed on it is not run again), else with the coder.
 *
 * @param isForeign - Another program wrote it, which writes no `failed` after a coder's error.
 */
export function positionOf(state: CheckpointExecutionState, isForeign: boolean): Position {
  const { stage, coderResponse, coderResult, validationResults, fixAttempt = 0, waymark } = state;
  const artifacts = waymark?.artifacts ?? [];
  const position = { stage, coderResponse, coderResult, validationResults, fixAttempt, artifacts };
  // A response without a verdict is still one.
  const usable = coderResult === undefined ? coderResponse !== undefined : coderResult.result === "success";
  if (stage === "failed" || (isForeign && stage === "coder-response" && !usable)) return reopened(position, usable);
  return position;
}

/** The results, and one for each gate that is skipped. */
function withSkipped(results: readonly ValidationGateResult[], gates: readonly PrpGate[]): ValidationGateResult[] {
  const missing = gates.filter((gate) => isSkipped(gate) && !results.some(({ level }) => level === gate.level));
  return [...results, ...missing.map(skippedResult)].sort((a, b) => a.level - b.level);
}

function nextGate(position: Position, gates: readonly PrpGate[]): Step {
  for (const gate of gates) {
    const { command } = gate;
    if (isSkipped(gate) || command === null) continue;
    if (position.validationResults.some(({ level }) => level === gate.level)) continue;
    return { kind: "gate", gate: { ...gate, command } };
  }
  const validationResults = withSkipped(position.validationResults, gates);
  return { kind: "finish", position: { ...position, stage: "complete", validationResults } };
}

function reopened(position: Position, usable: boolean): Position {
  const { validationResults, artifacts } = position;
  if (usable) {
    const passed = validationResults.filter((result) => !hasFailed(result));
    const last = passed.findLast(({ skipped }) => !skipped);
    const stage = last === undefined ? "coder-response" : gateStage(last.level);
    return { ...position, stage, validationResults: passed, fixAttempt: 0 };
  }
  const failed = validationResults.find(hasFailed);
  if (failed === undefined) return { ...START, artifacts };
  return { stage: gateStage(failed.level), validationResults, fixAttempt: 0, artifacts };
}

function skippedResult({ level, description, command }: PrpGate): ValidationGateResult {
  return { level, description, success: true, command, stdout: "", stderr: "", exitCode: null, skipped: true };
}

function hasFailed({ success, skipped }: ValidationGateResult): boolean {
  return !success && !skipped;
}

function gateStage(level: PrpGate["level"]): PrpStage {
  return `validation-gate-${level}`;
}

function nameOf({ level, description }: ValidationGateResult): string {
  return `level ${level} (${description})`;
}
