import { isDeepStrictEqual } from "node:util";
import type { CheckpointData } from "waymark/prp";
import type { Boxes, Evidence, WorkDone } from "./evidence.js";
import type { RunFolder } from "./run-folder.js";
import type { Run } from "./runner-process.js";
import { isResumed } from "./step.js";

export interface Outcome {
  readonly folder: RunFolder;
  readonly first: Run;
  readonly second: Run;
  readonly atKill: readonly CheckpointData[];
  readonly checkpoints: readonly CheckpointData[];
  readonly evidence: Evidence;
  /** Whether the gate that was running ended with run 1; `undefined` if none was running. */
  readonly gateHasEnded: boolean | undefined;
  /** The boxes of the run's PRP at the time when run 1 was killed. */
  readonly boxes: Boxes;
}

/**
 * How many times each run should start each piece of work. The second run starts only the gate in which run 1 was
 * killed.
 */
const EXPECTED: Readonly<Record<string, WorkDone["starts"]>> = {
  "coder, the PRP": [1, 0],
  "coder, fix 1": [1, 0],
  "gate 1": [2, 0],
  "gate 2": [2, 0],
  "gate 3": [1, 0],
  "gate 4": [1, 1],
};

/** Without git, the second run repeats passed gates, because nothing shows that the work hasn't changed since. */
const EXPECTED_WITHOUT_GIT = { ...EXPECTED, "gate 1": [2, 1], "gate 2": [2, 1], "gate 3": [1, 1] };

const STAGES = [
  "pre-execution",
  "coder-response",
  "validation-gate-1",
  "validation-gate-2",
  "validation-gate-3",
  "validation-gate-4",
  "complete",
];

/** Returns the checks that failed; empty if all passed. */
export function judge(outcome: Outcome): string[] {
  const { folder, first, second, atKill, checkpoints, gateHasEnded, boxes } = outcome;
  const { work, coderCalls } = outcome.evidence;
  const starts = Object.fromEntries(work.map(({ work: name, starts }) => [name, starts]));
  const stages = new Set<string>(checkpoints.map(({ state }) => state.stage));
  const resumed = checkpoints.find(isResumed);
  const gate4 = work.find(({ work: name }) => name === "gate 4");
  const { hasGit } = folder;
  const mayRunAgain = (done: WorkDone) => done === gate4 || (!hasGit && done.work.startsWith("gate "));
  const late = work.filter((done) => !mayRunAgain(done) && (done.trace?.atMs ?? 0) > first.endedAtMs);
  const problems: [wrong: boolean, problem: string][] = [
    [atKill.at(-1)?.state.stage !== "validation-gate-3", "Run 1 was not killed right after gate 3 had passed."],
    [
      atKill.at(-1)?.state.waymark?.work?.level !== 4,
      "The newest checkpoint of run 1 doesn't name gate 4 as its work.",
    ],
    [gateHasEnded !== true, "Gate 4 did not end with run 1."],
    [boxes.ticked === 0, "No box of the PRP was ticked when run 1 was killed."],
    [!boxes.isAllThatChanged, "The run changed more of its PRP than the boxes, or it changed the repository's PRP."],
    [second.exitCode !== 0, `Run 2 failed (exit code ${second.exitCode}): ${second.stderr.trim()}`],
    [hasGit && resumed?.state.stage !== "validation-gate-3", "Run 2 did not resume from gate 3."],
    [
      !isDeepStrictEqual(starts, hasGit ? EXPECTED : EXPECTED_WITHOUT_GIT),
      `The runs started something else: ${JSON.stringify(starts)}.`,
    ],
    [coderCalls !== 2, `The coder itself has recorded ${coderCalls} calls, not 2.`],
    ...late.map(({ work: name }): [boolean, string] => [true, `${name} has left a trace after run 1 was killed.`]),
    [!((gate4?.trace?.atMs ?? 0) > first.endedAtMs), "Gate 4 has left no trace after run 1 was killed."],
    ...STAGES.map((stage): [boolean, string] => [!stages.has(stage), `There is no checkpoint ${stage}.`]),
  ];
  return problems.filter(([wrong]) => wrong).map(([, problem]) => problem);
}
