import type { CheckpointExecutionState, CoderResult, PrpStage, ValidationGateResult } from "waymark/prp";
import type { CoderOutcome } from "./coder.js";
import type { LoadedGate } from "./load-prp.js";

/** How far the work on a PRP has come: all that a checkpoint must hold to resume from it. */
export interface Position {
  readonly stage: PrpStage;
  readonly coderResponse?: string | undefined;
  readonly coderResult?: CoderResult | undefined;
  /** The gates' results for the last usable response. */
  readonly validationResults: readonly ValidationGateResult[];
  /** How many fix attempts this round has seen. A new round begins when a failed PRP is executed again. */
  readonly fixAttempt: number;
  readonly artifacts: readonly string[];
}

export const START: Position = { stage: "pre-execution", validationResults: [], fixAttempt: 0, artifacts: [] };

/** The next step of an execution. */
export type Step =
  /** The coder works: on the PRP (attempt 0), or on the failures that the gates found. */
  | { readonly kind: "coder"; readonly fixAttempt: number; readonly failedGates: readonly ValidationGateResult[] }
  | { readonly kind: "gate"; readonly gate: RunnableGate }
  /** Nothing is left to run, or the work can't go on. */
  | { readonly kind: "finish"; readonly position: Position; readonly error?: string }
  /** It is finished. */
  | { readonly kind: "return" };

/** The step that comes after `position`. Gates are in the order of their levels. */
export function nextStep(position: Position, gates: readonly LoadedGate[], maxFixAttempts: number): Step {
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
export function afterGate(
  position: Position,
  gate: LoadedGate,
  result: ValidationGateResult,
  gates: readonly LoadedGate[],
): Position {
  const before = withSkipped(position.validationResults, gates.slice(0, gates.indexOf(gate)));
  return { ...position, stage: gate.stage, validationResults: [...before, result] };
}

/**
 * Where the work stands by a checkpoint's state. After `failed` a new round of fix attempts begins: with the gate that
 * failed if there is a usable response (what passed on it is not run again), else with the coder.
 *
 * The PRP may have changed since. A result counts as long as its gate is the same: a gate that changed or was added is
 * run, also after `complete`, and the result of one that was removed is dropped.
 *
 * @param isForeign - Another program wrote it, which writes no `failed` after a coder's error.
 */
export function positionOf(
  state: CheckpointExecutionState,
  gates: readonly LoadedGate[],
  isForeign: boolean,
): Position {
  const { coderResponse, coderResult, fixAttempt = 0, waymark } = state;
  const artifacts = waymark?.artifacts ?? [];
  const outdated = outdatedResults(state, gates);
  const validationResults = state.validationResults.filter((result) => !outdated.includes(result));
  const isReopened = !isForeign && state.stage === "complete" && missingGate(gates, validationResults) !== undefined;
  const stage = isReopened ? lastStage(validationResults, gates) : state.stage;
  const position = { stage, coderResponse, coderResult, validationResults, fixAttempt, artifacts };
  // A response without a verdict is still one.
  const usable = coderResult === undefined ? coderResponse !== undefined : coderResult.result === "success";
  if (stage === "failed" || (isForeign && stage === "coder-response" && !usable))
    return reopened(position, gates, usable);
  return position;
}

/** The results whose gate has changed since, or was removed. */
export function outdatedResults(
  { validationResults }: CheckpointExecutionState,
  gates: readonly LoadedGate[],
): ValidationGateResult[] {
  const current = new Set(resultsByGate(validationResults, gates).values());
  return validationResults.filter((result) => !current.has(result));
}

/** The results, and one for each gate that is skipped. */
function withSkipped(results: readonly ValidationGateResult[], gates: readonly LoadedGate[]): ValidationGateResult[] {
  const known = resultsByGate(results, gates);
  const missing = gates.filter((gate) => gate.skipped !== undefined && !known.has(gate));
  return [...results, ...missing.map(skippedResult)].sort((a, b) => a.level - b.level);
}

function nextGate(position: Position, gates: readonly LoadedGate[]): Step {
  const gate = missingGate(gates, position.validationResults);
  if (gate !== undefined) return { kind: "gate", gate };
  const validationResults = withSkipped(position.validationResults, gates);
  return { kind: "finish", position: { ...position, stage: "complete", validationResults } };
}

/** The first gate that has to be run, and has no result. */
function missingGate(gates: readonly LoadedGate[], results: readonly ValidationGateResult[]): RunnableGate | undefined {
  const known = resultsByGate(results, gates);
  return gates.find(
    (gate): gate is RunnableGate => gate.skipped === undefined && gate.command !== null && !known.has(gate),
  );
}

type RunnableGate = LoadedGate & { readonly command: string };

/**
 * The gates as they are now that have results. White space at the ends of lines changes nothing. Gates that are the same,
 * of one level and with one command, have the results in their order.
 */
function resultsByGate(
  results: readonly ValidationGateResult[],
  gates: readonly LoadedGate[],
): ReadonlyMap<LoadedGate, ValidationGateResult> {
  const found = new Map<LoadedGate, ValidationGateResult>();
  for (const result of results) {
    const gate = gates.find((each) => isOf(result, each) && !found.has(each));
    if (gate !== undefined) found.set(gate, result);
  }
  return found;
}

function isOf(result: ValidationGateResult, { level, command }: LoadedGate): boolean {
  return result.level === level && trimmed(result.command) === trimmed(command);
}

function trimmed(command: string | null): string | undefined {
  return command?.replace(/\s+$/gm, "").trim();
}

/** The stage of the last gate that has run. */
function lastStage(results: readonly ValidationGateResult[], gates: readonly LoadedGate[]): PrpStage {
  const last = results.findLast(({ skipped }) => !skipped);
  const found = [...resultsByGate(results, gates)].find(([, result]) => result === last);
  return found?.[0].stage ?? "coder-response";
}

function reopened(position: Position, gates: readonly LoadedGate[], usable: boolean): Position {
  const { validationResults, artifacts } = position;
  if (usable) {
    const passed = validationResults.filter((result) => !hasFailed(result));
    return { ...position, stage: lastStage(passed, gates), validationResults: passed, fixAttempt: 0 };
  }
  const failed = validationResults.find(hasFailed);
  if (failed === undefined) return { ...START, artifacts };
  const upToIt = validationResults.slice(0, validationResults.indexOf(failed) + 1);
  return { stage: lastStage(upToIt, gates), validationResults, fixAttempt: 0, artifacts };
}

function skippedResult({ level, description, command }: LoadedGate): ValidationGateResult {
  return { level, description, success: true, command, stdout: "", stderr: "", exitCode: null, skipped: true };
}

function hasFailed({ success, skipped }: ValidationGateResult): boolean {
  return !success && !skipped;
}

function nameOf({ level, description }: ValidationGateResult): string {
  return `level ${level} (${description})`;
}
