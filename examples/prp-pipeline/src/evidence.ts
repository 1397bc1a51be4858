import { readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { CheckpointData } from "waymark/prp";
import { PRP, type RunFolder } from "./run-folder.js";
import { isResumed } from "./step.js";

/** A piece of work, how many times each run started it, and the last trace that it left on disk. */
export interface WorkDone {
  /** Such as `coder, fix 1` or `gate 2`. */
  readonly work: string;
  readonly starts: readonly [first: number, second: number];
  readonly trace: Trace | undefined;
}

export interface Evidence {
  readonly work: readonly WorkDone[];
  /** The number of calls in the coder's own record. */
  readonly coderCalls: number;
}

/** A file, other than the checkpoints, that only one piece of work writes. */
export interface Trace {
  readonly path: string;
  readonly atMs: number;
}

/** The boxes in the run's copy of the PRP. */
export interface Boxes {
  readonly ticked: number;
  readonly all: number;
  /** True if ticked boxes are the only difference from the repository's PRP. */
  readonly isAllThatChanged: boolean;
}

/** The last file that each gate writes. The type check isn't listed, because it only reads. */
const TRACES: Readonly<Record<string, string>> = {
  "gate 2": "dist/src/main.js",
  "gate 3": "dist/november.txt",
  "gate 4": "checks/logs/year.txt",
};

/**
 * Counts the work that the two runs started. Each checkpoint names the work that starts once the checkpoint is on disk;
 * the traces confirm that the work was done.
 */
export async function collectEvidence(folder: RunFolder, checkpoints: readonly CheckpointData[]): Promise<Evidence> {
  const resumedAt = checkpoints.findIndex(isResumed);
  const starts = checkpoints.flatMap((checkpoint, index) => {
    const work = workStartedBy(checkpoint);
    return work === undefined ? [] : [{ work, inSecond: resumedAt !== -1 && index >= resumedAt }];
  });
  const calls = await coderCalls(folder);
  const coderTraces = calls.values();
  const work: WorkDone[] = [];
  for (const name of new Set(starts.map((start) => start.work))) {
    const count = (second: boolean) =>
      starts.filter((start) => start.work === name && start.inSecond === second).length;
    const trace = name.startsWith("coder") ? coderTraces.next().value : await traceOf(folder, TRACES[name]);
    work.push({ work: name, starts: [count(false), count(true)], trace });
  }
  return { work, coderCalls: calls.length };
}

export async function boxesOf({ prp }: RunFolder): Promise<Boxes> {
  const text = await readFile(prp, "utf8");
  const ticked = text.split("- [x] ").length - 1;
  const unticked = text.replaceAll("- [x] ", "- [ ] ");
  const all = unticked.split("- [ ] ").length - 1;
  return { ticked, all, isAllThatChanged: unticked === (await readFile(PRP, "utf8")) };
}

/** Reads the coder's calls from its own record, in order. */
async function coderCalls({ coderLog }: RunFolder): Promise<Trace[]> {
  const lines = (await readFile(coderLog, "utf8")).trimEnd().split("\n");
  return lines.map((line) => ({ path: basename(coderLog), atMs: timeIn(JSON.parse(line)) }));
}

function workStartedBy({ state }: CheckpointData): string | undefined {
  const { work } = state.waymark ?? {};
  if (work === undefined) return undefined;
  if (work.kind === "gate") return `gate ${work.level}`;
  return state.stage === "pre-execution" ? "coder, the PRP" : `coder, fix ${(state.fixAttempt ?? 0) + 1}`;
}

function timeIn(call: unknown): number {
  const at = typeof call === "object" && call !== null && "at" in call ? call.at : undefined;
  return typeof at === "string" ? Date.parse(at) : Number.NaN;
}

async function traceOf({ project }: RunFolder, path: string | undefined): Promise<Trace | undefined> {
  if (path === undefined) return undefined;
  const found = await stat(join(project, path)).catch(() => undefined);
  return found && { path, atMs: found.mtimeMs };
}
