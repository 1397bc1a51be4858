// The example's output while it runs: one line for each event.
import { dirname } from "node:path";
import type { CheckpointData } from "waymark/prp";
import type { Boxes, WorkDone } from "./evidence.js";
import { PRP, RUNNER, type RunFolder, TASK_ID } from "./run-folder.js";
import type { Run } from "./runner-process.js";
import { colours, fact, fitted, heading, line, seconds, shown } from "./screen.js";
import { isEvent, stepOf } from "./step.js";
import { timelineOf } from "./timeline.js";

const STAGE_WIDTH = 19;
const TEXT_WIDTH = 47;
const TOOK_WIDTH = 10;
const DETAIL_WIDTH = 74;

export function introduce({ hasGit }: RunFolder): void {
  heading("A PRP, executed by a process that is killed in the middle of a gate");
  line();
  fact("the PRP", `${shown(PRP)}: a program that adds up work logs gets a report`);
  fact(
    "the coder",
    "a script in the place of an agent. It edits the program and ticks boxes in the run's copy of the PRP. Any agent's command line can replace it.",
  );
  fact("the gates", "type check, unit tests, the program run, an end-to-end check");
  if (!hasGit) fact("git", "not installed, so nothing can tell whether the work has changed: passed gates run again");
}

export function showStart(name: string, folder: RunFolder): void {
  heading(name);
  line(colours.dim(`$ node ${shown(RUNNER)} ${shown(folder.path)}`));
}

/** Shows the work that a new checkpoint reports as done. */
export function showStep(checkpoint: CheckpointData, before: CheckpointData | undefined): void {
  const { symbol, paint, text, details = [] } = stepOf(checkpoint);
  const took =
    before === undefined || isEvent(checkpoint)
      ? ""
      : seconds(checkpoint.createdAt.getTime() - before.createdAt.getTime());
  const what = `${fitted(checkpoint.state.stage, STAGE_WIDTH)}${fitted(text, TEXT_WIDTH)}`;
  line(`${paint(symbol)} ${what}${colours.dim(took.padStart(TOOK_WIDTH))}`);
  for (const detail of details) showDetail(detail);
}

/** Shows a line of a running gate's output, or another detail of the line above. */
export function showDetail(text: string): void {
  line(colours.dim(`  ┆ ${fitted(text, DETAIL_WIDTH)}`));
}

export function showKill(run: Run, atKill: readonly CheckpointData[]): void {
  line(colours.red(`╳ ${run.signal} for process ${run.pid}, which executes the PRP`));
  line();
  fact("on disk", `${atKill.length} checkpoints; the newest is ${atKill.at(-1)?.state.stage}`);
}

/** Shows whether the gate has ended. Its watchdog ends it as soon as its runner dies. */
export function showLeftBehind(pid: number | undefined, hasEnded: boolean | undefined): void {
  const gate = pid === undefined ? "gate 4" : `gate 4 (process ${pid})`;
  fact("left behind", hasEnded === true ? `nothing: ${gate} has ended with it` : `${gate} is still running`);
}

/** Shows the ticked boxes: the resuming run reads a different text from the killed run. */
export function showBoxes({ ticked, all }: Boxes): void {
  fact("the PRP", `${ticked} of the ${all} boxes in this run's copy are ticked; its gates are the same, so it resumes`);
}

export function showWork(work: readonly WorkDone[], checkpoints: readonly CheckpointData[], first: Run): void {
  heading("Work that was done once, twice, or not again");
  line();
  line(colours.dim(workRow("", "run 1", "run 2", "     at  last trace on disk")));
  const cutOff = work.findLast(({ starts: [inFirst] }) => inFirst > 0);
  for (const done of work) {
    const { work: name, starts, trace } = done;
    const [inFirst, inSecond] = starts;
    const at = trace === undefined ? "" : seconds(trace.atMs - first.startedAtMs);
    const last = `${at.padStart(7)}  ${colours.dim(trace?.path ?? "none, it only reads")}`;
    line(workRow(nameOfWork(name, checkpoints), done === cutOff ? "cut off" : times(inFirst), times(inSecond), last));
  }
  const late = work.filter(({ trace }) => trace !== undefined && trace.atMs > first.endedAtMs);
  const names = late.map(({ work: name }) => name).join(", ");
  line();
  line(`The kill came at ${seconds(first.endedAtMs - first.startedAtMs)}. Traces after the kill: ${names || "none"}.`);
}

export function showTimeline(checkpoints: readonly CheckpointData[], first: Run, folder: RunFolder): void {
  heading(`The checkpoints of ${TASK_ID}`);
  line();
  for (const row of timelineOf(checkpoints, first.startedAtMs, first.endedAtMs)) line(row);
  line();
  line("All files are still there:");
  line(colours.dim(shown(folder.checkpoints)));
  line(colours.dim(`${shown(folder.project)}/src/report.ts`));
  line(colours.dim(shown(folder.prp)));
  line();
  line("To look at the checkpoints in a browser:");
  line(`npx waymark ui --storage tasks:${shown(dirname(dirname(folder.checkpoints)))}`);
}

export function showVerdict(problems: readonly string[], { hasGit }: RunFolder): void {
  line();
  if (problems.length === 0) {
    const finished = hasGit ? "Work that was finished" : "The coder's work that was finished";
    line(colours.green(`✓ The PRP is done. ${finished} before the kill was not done again.`));
    return;
  }
  line(colours.red("✗ Some checks failed:"));
  for (const problem of problems) line(`  ${problem}`);
}

/** Returns the title of a piece of work: `gate 2  Unit Tests` for `gate 2`. */
function nameOfWork(work: string, checkpoints: readonly CheckpointData[]): string {
  const gates = checkpoints.at(-1)?.state.validationResults ?? [];
  const gate = gates.find(({ level }) => work === `gate ${level}`);
  return gate === undefined ? work : `${work}  ${gate.description}`;
}

function workRow(name: string, inFirst: string, inSecond: string, trace: string): string {
  return `${fitted(name, 27)}${fitted(inFirst, 9)}${fitted(inSecond, 10)}${trace}`;
}

function times(count: number): string {
  return ["not again", "once", "twice"][count] ?? `${count} times`;
}
