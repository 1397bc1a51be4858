import { stripVTControlCharacters } from "node:util";
import type { CheckpointData } from "waymark/prp";
import { colours, type Paint } from "./screen.js";

/** A checkpoint as a person reads it. */
export interface Step {
  readonly symbol: string;
  readonly paint: Paint;
  readonly text: string;
  readonly details?: readonly string[];
}

/** Of what a failed gate has printed, as much as tells what is wrong. */
const FAILURES_SHOWN = 2;

/** What a checkpoint says has been done. */
export function stepOf(checkpoint: CheckpointData, before: CheckpointData | undefined): Step {
  const { stage, fixAttempt, coderResult, validationResults } = checkpoint.state;
  const { cyan, green, magenta, red, yellow } = colours;
  if (isResumed(checkpoint, before)) return { symbol: "↻", paint: yellow, text: "goes on from here" };
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

/** Whether another run has saved it than the one before it: the first thing that a run does that goes on. */
export function isResumed(checkpoint: CheckpointData, before: CheckpointData | undefined): boolean {
  return before !== undefined && runnerOf(checkpoint) !== undefined && runnerOf(checkpoint) !== runnerOf(before);
}

/** Whether a run has stopped there before its end, because it was told to. */
export function isPaused(checkpoint: CheckpointData): boolean {
  const { stage } = checkpoint.state;
  return stage !== "complete" && stage !== "failed" && runnerOf(checkpoint) === undefined;
}

/** The process that saved the checkpoint and went on working; `undefined` where it stopped there. */
export function runnerOf(checkpoint: CheckpointData): number | undefined {
  return checkpoint.state.waymark?.runner?.pid;
}

/** The tests that failed, as Node's reporter marks them. */
function failuresIn(output: string): string[] {
  const failed = stripVTControlCharacters(output).matchAll(/^✖ (.+) \([\d.]+ms\)$/gm);
  return [...new Set([...failed].map(([, name]) => name ?? ""))].slice(0, FAILURES_SHOWN);
}
