import { stripVTControlCharacters } from "node:util";
import type { CheckpointData } from "waymark/prp";
import { colours, type Paint } from "./screen.js";

/** A checkpoint, in words for people. */
export interface Step {
  readonly symbol: string;
  readonly paint: Paint;
  readonly text: string;
  readonly details?: readonly string[];
}

/** How many failures of a gate are shown. */
const FAILURES_SHOWN = 2;

/** The work that a checkpoint says is done. */
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

/** Whether a run stopped there before its end, as its options ask. */
function isPaused({ label }: CheckpointData): boolean {
  return label.startsWith("Paused: ");
}

/** Whether the checkpoint only records an event of the run. Then the time before it was no work. */
export function isEvent(checkpoint: CheckpointData): boolean {
  return isResumed(checkpoint) || isPaused(checkpoint);
}

/** The failed tests, as Node's reporter marks them. */
function failuresIn(output: string): string[] {
  const failed = stripVTControlCharacters(output).matchAll(/^✖ (.+) \([\d.]+ms\)$/gm);
  return [...new Set([...failed].map(([, name]) => name ?? ""))].slice(0, FAILURES_SHOWN);
}
