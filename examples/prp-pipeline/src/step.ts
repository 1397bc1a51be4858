import { stripVTControlCharacters } from "node:util";
import type { CheckpointData } from "waymark/prp";
import { colours, type Paint } from "./screen.js";

/** A checkpoint in words. */
export interface Step {
  readonly symbol: string;
  readonly paint: Paint;
  readonly text: string;
  readonly details?: readonly string[];
}

/** The number of failures shown for a gate. */
const FAILURES_SHOWN = 2;

/** Returns the work that a checkpoint reports as done. */
export function stepOf(checkpoint: CheckpointData): Step {
  const { stage, fixAttempt, coderResult, validationResults } = checkpoint.state;
  const { cyan, green, magenta, red, yellow } = colours;
  if (isResumed(checkpoint)) return { symbol: "↻", paint: yellow, text: "resumes from here" };
  if (stage === "complete") return { symbol: "■", paint: green, text: `${validationResults.length} gates passed` };
  if (stage === "failed") return { symbol: "■", paint: red, text: checkpoint.error?.message ?? checkpoint.label };
  if (isPaused(checkpoint)) return { symbol: "‖", paint: yellow, text: "paused" };
  if (stage === "pre-execution") return { symbol: "●", paint: cyan, text: "before the coder" };
  if (stage === "coder-response") {
    const details = coderResult === undefined ? [] : [coderResult.message];
    return { symbol: "✎", paint: magenta, text: fixAttempt === undefined ? "first try" : `fix ${fixAttempt}`, details };
  }
  const gate = validationResults.at(-1);
  if (gate?.success === true) return { symbol: "✓", paint: green, text: gate.description };
  const text = `${gate?.description}: failed`;
  return { symbol: "✗", paint: red, text, details: failuresIn(gate?.stdout ?? "") };
}

/** Whether it is the first checkpoint of a resumed run. */
export function isResumed({ label }: CheckpointData): boolean {
  return label.startsWith("Resumed: ");
}

/** Whether a run was paused at this checkpoint. */
function isPaused({ label }: CheckpointData): boolean {
  return label.startsWith("Paused: ");
}

/** Whether the checkpoint only records an event of the run. If so, the time before it wasn't spent on work. */
export function isEvent(checkpoint: CheckpointData): boolean {
  return isResumed(checkpoint) || isPaused(checkpoint);
}

/** Returns the failed tests, as Node's reporter marks them. */
function failuresIn(output: string): string[] {
  const failed = stripVTControlCharacters(output).matchAll(/^✖ (.+) \([\d.]+ms\)$/gm);
  return [...new Set([...failed].map(([, name]) => name ?? ""))].slice(0, FAILURES_SHOWN);
}
