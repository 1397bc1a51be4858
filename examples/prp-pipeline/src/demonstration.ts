import { CheckpointFollower } from "./checkpoint-follower.js";
import { boxesOf, collectEvidence } from "./evidence.js";
import { hasEnded } from "./left-behind.js";
import * as narration from "./narration.js";
import type { RunFolder } from "./run-folder.js";
import { type Run, RunnerProcess } from "./runner-process.js";
import { judge } from "./verdict.js";

/**
 * Matches the line that the fourth gate prints at the end of each of its five chapters. After two lines, it is in the
 * middle of the third chapter.
 */
const PROGRESS = /^(\d) of 5 {2}/;
const KILLED_AFTER = "2";
/** Matches the line with the gate's process id, which the gate prints first. */
const PROCESS = /^process (\d+)$/;

/**
 * Executes the PRP in two runs, kills the first one, and shows the outcome. Everything that it prints about the runs is
 * read from the files that the runs leave.
 *
 * @returns The checks that failed.
 * @throws The signal's reason, once everything that was started has ended.
 */
export async function demonstrate(folder: RunFolder, signal: AbortSignal): Promise<string[]> {
  narration.introduce(folder);
  const follower = await CheckpointFollower.start(folder, narration.showStep);
  try {
    narration.showStart("Run 1", folder);
    const first = await run(folder, follower, signal, (chapter, runner) => {
      if (chapter === KILLED_AFTER) runner.signal("SIGKILL");
    });
    if (first.signal !== "SIGKILL") return [`Run 1 was over before it could be killed. ${first.stderr.trim()}`];
    const atKill = follower.checkpoints;
    narration.showKill(first, atKill);
    const { gatePid } = first;
    const gateHasEnded = gatePid === undefined ? undefined : await hasEnded(gatePid);
    narration.showLeftBehind(gatePid, gateHasEnded);
    const boxes = await boxesOf(folder);
    narration.showBoxes(boxes);

    narration.showStart("Run 2, the same command", folder);
    const second = await run(folder, follower, signal);

    const { checkpoints } = follower;
    const evidence = await collectEvidence(folder, checkpoints);
    narration.showWork(evidence.work, checkpoints, first);
    narration.showTimeline(checkpoints, first, folder);
    return judge({ folder, first, second, atKill, checkpoints, evidence, gateHasEnded, boxes });
  } finally {
    await follower.stop();
  }
}

/** @throws The signal's reason, once the run has been paused and has ended. */
async function run(
  folder: RunFolder,
  follower: CheckpointFollower,
  signal: AbortSignal,
  onProgress?: (chapter: string, runner: RunnerProcess) => void,
): Promise<Run & { readonly gatePid: number | undefined }> {
  signal.throwIfAborted();
  let gatePid: number | undefined;
  const runner = await RunnerProcess.start(folder);
  const pause = () => runner.signal("SIGTERM");
  signal.addEventListener("abort", pause);
  try {
    for await (const text of runner.lines) {
      const [, pid] = PROCESS.exec(text) ?? [];
      if (pid !== undefined) gatePid = Number(pid);
      const [, chapter] = PROGRESS.exec(text) ?? [];
      if (chapter === undefined) continue;
      onProgress?.(chapter, runner);
      await follower.refresh();
      narration.showDetail(text);
    }
    const ended = await runner.ended;
    await follower.refresh();
    signal.throwIfAborted();
    return { ...ended, gatePid };
  } finally {
    signal.removeEventListener("abort", pause);
    // After an error here, the run may still be active, and nothing else would end it.
    runner.signal("SIGTERM");
  }
}
