import type { CheckpointExecutionState, CoderResult, PrpStage, ValidationGateResult } from "waymark/prp";
import type { CoderOutcome } from "./coder.js";
import type { LoadedGate } from "./load-prp.js";

/** The progress of a PRP: everything that a checkpoint needs to resume. */
export interface Position {
  readonly stage: PrpStage;
  readonly coderResponse?: string | undefined;
  readonly coderResult?: CoderResult | undefined;
  /** The results of the gates for the last usable response. */
  readonly validationResults: readonly ValidationGateResult[];
  /** The number of fix attempts in this round. A new round begins when a failed PRP is executed again. */
  readonly fixAttempt: number;
  readonly artifacts: readonly string[];
}

export const START: Position = { stage: "pre-execution", validationResults: [], fixAttempt: 0, artifacts: [] };

/** The next step of an execution. */
export type Step =
  /** The coder works: on the PRP (attempt 0), or on failures of gates. */
  | { readonly kind: "coder"; readonly fixAttempt: number; readonly failedGates: readonly ValidationGateResult[] }
  | { readonly kind: "gate"; readonly gate: RunnableGate }
  /** Nothing is left to run, or the work can't continue. */
  | { readonly kind: "finish"; readonly position: Position; readonly error?: string }
  /** The work is already finished. */
  | { readonly kind: "return" };

/** Returns the step after `position`. Gates are in the order of their levels. */
export function nextStep(position: Position, gates: readonly LoadedGate[], maxFixAttempts: number): Step {
  const { stage, coderResult, validationResults, fixAttempt } = position;
  if (stage === "complete" || stage === "failed") return { kind: "return" };
  if (stage === "pre-execution") return { kind: "coder", fixAttempt: 0, failedGates: [] };
  if (coderResult !== undefined && coderResult.result !== "success") {
    return { kind: "finish", position: { ...position, stage: "failed" }, error: coderResult.message };
  }
  const failedGates = validationResults.filter(hasFailed);
  if (failedGates.length === 0) return nextGate(position, gates);
  const late = failedGates.find(({ timedOut }) => timedOut === true);
  // Nothing tells whether the work is at fault, so a coder would change what needn't be changed.
  if (late !== undefined) {
    const name = formatShortName(late, gates);
    const error = `Gate ${name} timed out, and its output says where. Give it more time (--gate-timeout), or leave it out (--skip ${name})`;
    return { kind: "finish", position: { ...position, stage: "failed" }, error };
  }
  if (fixAttempt < maxFixAttempts) return { kind: "coder", fixAttempt: fixAttempt + 1, failedGates };
  const error = `Validation failed after ${fixAttempt} fix attempts: ${failedGates.map(nameOfGate).join(", ")}`;
  return { kind: "finish", position: { ...position, stage: "failed" }, error };
}

/**
 * Returns the position after the coder's outcome. If the response is unusable, the results for the response before it
 * are kept.
 */
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

/** Returns the position after a gate's result. */
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
 * Returns the position that a checkpoint's state describes. After `failed`, a new round of fix attempts begins. If
 * there is a usable response, the round begins with the failed gate, and passed gates are skipped. Otherwise it begins
 * with the coder.
 *
 * The PRP may have changed since. A result counts as long as its gate is the same. A changed or added gate is run, even
 * after `complete`. The result of a removed gate is dropped.
 *
 * @param isForeign - Another program wrote the checkpoint. It doesn't write `failed` after a coder's error.
 */
export function findPosition(
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
  // A response without a verdict is usable.
  const usable = coderResult === undefined ? coderResponse !== undefined : coderResult.result === "success";
  if (stage === "failed" || (isForeign && stage === "coder-response" && !usable))
    return reopened(position, gates, usable);
  return position;
}

/** Returns the results of the gates that the execution would skip from `position` on. */
export function resultsToSkip(position: Position, gates: readonly LoadedGate[]): readonly ValidationGateResult[] {
  const step = nextStep(position, gates, 0);
  // After a failed gate, the coder's next response makes all results void.
  const skips = step.kind === "gate" || (step.kind === "finish" && step.position.stage === "complete");
  return skips ? position.validationResults.filter(({ skipped }) => !skipped) : [];
}

/** Returns the position without these results, so that their gates run again. */
export function withoutResults(
  position: Position,
  outdated: readonly ValidationGateResult[],
  gates: readonly LoadedGate[],
): Position {
  const validationResults = position.validationResults.filter((result) => !outdated.includes(result));
  return { ...position, stage: lastStage(validationResults, gates), validationResults };
}

/** Names the gate of a result as its stage does: `1`, `1-2`. */
export function formatShortName(result: ValidationGateResult, gates: readonly LoadedGate[]): string {
  const [gate] = [...resultsByGate([result], gates).keys()];
  return gate?.stage.slice("validation-gate-".length) ?? String(result.level);
}

/** Returns the results whose gate was changed or removed, or is skipped now and wasn't then. */
export function outdatedResults(
  { validationResults }: CheckpointExecutionState,
  gates: readonly LoadedGate[],
): ValidationGateResult[] {
  const current = new Set(resultsByGate(validationResults, gates).values());
  return validationResults.filter((result) => !current.has(result));
}

/** Returns the results, with one added for each skipped gate. */
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

/** Returns the first gate that must be run and has no result. */
function missingGate(gates: readonly LoadedGate[], results: readonly ValidationGateResult[]): RunnableGate | undefined {
  const known = resultsByGate(results, gates);
  return gates.find(
    (gate): gate is RunnableGate => gate.skipped === undefined && gate.command !== null && !known.has(gate),
  );
}

type RunnableGate = LoadedGate & { readonly command: string };

/**
 * Maps the current gates to their results. White space at the ends of lines doesn't matter. Gates with the same level
 * and command get their results in order.
 */
function resultsByGate(
  results: readonly ValidationGateResult[],
  gates: readonly LoadedGate[],
): ReadonlyMap<LoadedGate, ValidationGateResult> {
  const found = new Map<LoadedGate, ValidationGateResult>();
  for (const result of results) {
    const gate = gates.find((each) => isResultFor(result, each) && !found.has(each));
    if (gate !== undefined) found.set(gate, result);
  }
  return found;
}

/** A result of a gate that was left out doesn't count once the gate is to run, and the other way round. */
function isResultFor(result: ValidationGateResult, { level, command, skipped }: LoadedGate): boolean {
  return (
    result.level === level && result.skipped === (skipped !== undefined) && trimmed(result.command) === trimmed(command)
  );
}

function trimmed(command: string | null): string | undefined {
  return command
    ?.split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .join("\n")
    .trim();
}

/** Returns the stage of the last gate that has run. */
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

function nameOfGate({ level, description }: ValidationGateResult): string {
  return `level ${level} (${description})`;
}
