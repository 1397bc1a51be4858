import type { CheckpointExecutionState, CoderResult, GateStage, PrpStage, ValidationGateResult } from "waymark/prp";
import type { CoderOutcome } from "./coder.js";
import { type GateCheck, gateName } from "./load-prp.js";

/** The results of gates that have run, by the stages of the gates. */
export type GateResults = ReadonlyMap<GateStage, ValidationGateResult>;

/** The progress of a PRP: everything that a checkpoint needs to resume. */
export interface Position {
  readonly stage: PrpStage;
  readonly coderResponse?: string | undefined;
  readonly coderResult?: CoderResult | undefined;
  /** The results for the last usable response. */
  readonly results: GateResults;
  /** The number of fix attempts in this round. A new round begins when a failed PRP is executed again. */
  readonly fixAttempt: number;
  readonly artifacts: readonly string[];
}

export const START: Position = { stage: "pre-execution", results: new Map(), fixAttempt: 0, artifacts: [] };

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
export function nextStep(position: Position, gates: readonly GateCheck[], maxFixAttempts: number): Step {
  const { stage, coderResult, results, fixAttempt } = position;
  if (stage === "complete" || stage === "failed") return { kind: "return" };
  if (stage === "pre-execution") return { kind: "coder", fixAttempt: 0, failedGates: [] };
  const fail = (error: string): Step => ({ kind: "finish", position: { ...position, stage: "failed" }, error });
  if (coderResult !== undefined && coderResult.result !== "success") return fail(coderResult.message);
  const failed = [...results].filter(([, { success }]) => !success);
  if (failed.length === 0) {
    const gate = missingGate(gates, results);
    return gate === undefined
      ? { kind: "finish", position: { ...position, stage: "complete" } }
      : { kind: "gate", gate };
  }
  const late = failed.find(([, { timedOut }]) => timedOut === true);
  // A timeout doesn't show whether the work is at fault, so a coder might change work that is right.
  if (late !== undefined) {
    const name = gateName(late[0]);
    return fail(
      `Gate ${name} timed out; its output shows where. Give it more time (--gate-timeout), or leave it out (--skip ${name})`,
    );
  }
  const failedGates = failed.map(([, result]) => result);
  if (fixAttempt < maxFixAttempts) return { kind: "coder", fixAttempt: fixAttempt + 1, failedGates };
  return fail(`Validation failed after ${fixAttempt} fix attempts: ${failedGates.map(nameOfGate).join(", ")}`);
}

/**
 * Returns the position after the coder's outcome. If the response is unusable, the results for the previous response
 * are kept.
 */
export function afterCoder(position: Position, fixAttempt: number, { response, reply }: CoderOutcome): Position {
  const { result, message, artifacts } = reply;
  return {
    stage: "coder-response",
    coderResponse: response,
    coderResult: { result, message },
    results: result === "success" ? new Map() : position.results,
    fixAttempt,
    artifacts: [...new Set([...position.artifacts, ...artifacts])],
  };
}

/** Returns the position after a gate's result. */
export function afterGate(position: Position, { stage }: GateCheck, result: ValidationGateResult): Position {
  return { ...position, stage, results: new Map([...position.results, [stage, result]]) };
}

/**
 * Returns the position that a checkpoint's state describes. After `failed`, a new round of fix attempts begins. If
 * there is a usable response, the round begins with the failed gate, and passed gates are skipped. Without a usable
 * response, the round begins with the coder.
 *
 * The PRP may have changed since. A result counts as long as its gate is the same. A changed or added gate is run, even
 * after `complete`. The result of a removed gate is dropped.
 *
 * @param isForeign - Another program wrote the checkpoint. Other programs don't write `failed` after a coder's error.
 */
export function findPosition(
  state: CheckpointExecutionState,
  gates: readonly GateCheck[],
  isForeign: boolean,
): Position {
  const { stage, coderResponse, coderResult, fixAttempt = 0, waymark } = state;
  const artifacts = waymark?.artifacts ?? [];
  const results = new Map(
    [...matchResults(state, gates)].flatMap(([gate, result]) => (result.skipped ? [] : [[gate.stage, result]])),
  );
  const position = { stage, coderResponse, coderResult, results, fixAttempt, artifacts };
  // A response without a verdict is usable.
  const usable = coderResult === undefined ? coderResponse !== undefined : coderResult.result === "success";
  const isReopened = !isForeign && stage === "complete" && missingGate(gates, results) !== undefined;
  if (isReopened) return { ...position, stage: lastStage(results, gates) };
  if (stage !== "failed" && !(isForeign && stage === "coder-response" && !usable)) return position;
  const failed = [...results].flatMap(([gate, { success }]) => (success ? [] : [gate]));
  if (usable) return { ...withoutResults(position, failed, gates), fixAttempt: 0 };
  if (failed.length === 0) return { ...START, artifacts };
  return { stage: lastStage(results, gates), results, fixAttempt: 0, artifacts };
}

/** Returns the results of the gates that the execution would skip from `position` on. */
export function resultsToSkip(position: Position, gates: readonly GateCheck[]): GateResults {
  const step = nextStep(position, gates, 0);
  // After a failed gate, the coder's next response invalidates all results.
  const skips = step.kind === "gate" || (step.kind === "finish" && step.position.stage === "complete");
  return skips ? position.results : new Map();
}

/** Returns the position without the results of these gates, so that they run again. */
export function withoutResults(
  position: Position,
  outdated: readonly GateStage[],
  gates: readonly GateCheck[],
): Position {
  const results = new Map([...position.results].filter(([stage]) => !outdated.includes(stage)));
  return { ...position, stage: lastStage(results, gates), results };
}

/** Returns the results whose gate was changed or removed, or is now skipped but was run then. */
export function outdatedResults(state: CheckpointExecutionState, gates: readonly GateCheck[]): ValidationGateResult[] {
  const current = new Set(matchResults(state, gates).values());
  return state.validationResults.filter((result) => !current.has(result));
}

/** Returns the results in the order of the gates, including the gates skipped before the last gate that has run. */
export function listResults({ stage, results }: Position, gates: readonly GateCheck[]): ValidationGateResult[] {
  const end = stage === "complete" ? gates.length : gates.findLastIndex((gate) => results.has(gate.stage)) + 1;
  return gates.slice(0, end).flatMap((gate) => {
    const { level, description, command, skipped } = gate;
    const without = {
      level,
      description,
      success: true,
      command,
      stdout: "",
      stderr: "",
      exitCode: null,
      skipped: true,
    };
    return results.get(gate.stage) ?? (skipped === undefined ? [] : without);
  });
}

/** Returns the first gate that must be run and has no result. */
function missingGate(gates: readonly GateCheck[], results: GateResults): RunnableGate | undefined {
  return gates.find(
    (gate): gate is RunnableGate => gate.skipped === undefined && gate.command !== null && !results.has(gate.stage),
  );
}

type RunnableGate = GateCheck & { readonly command: string };

/**
 * Maps the current gates to the results of a state. White space at the ends of lines doesn't matter. Gates with the
 * same level and command get their results in order.
 */
function matchResults(
  { validationResults }: CheckpointExecutionState,
  gates: readonly GateCheck[],
): ReadonlyMap<GateCheck, ValidationGateResult> {
  const found = new Map<GateCheck, ValidationGateResult>();
  for (const result of validationResults) {
    const gate = gates.find((each) => isResultFor(result, each) && !found.has(each));
    if (gate !== undefined) found.set(gate, result);
  }
  return found;
}

/**
 * Whether a result belongs to a gate. A result from when the gate was skipped doesn't count once it runs, and vice
 * versa.
 */
function isResultFor(result: ValidationGateResult, { level, command, skipped }: GateCheck): boolean {
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
function lastStage(results: GateResults, gates: readonly GateCheck[]): PrpStage {
  return gates.findLast(({ stage }) => results.has(stage))?.stage ?? "coder-response";
}

function nameOfGate({ level, description }: ValidationGateResult): string {
  return `level ${level} (${description})`;
}
