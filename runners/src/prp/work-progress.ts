import { describeAge } from "waymark/kit";
import type { WorkProgress } from "waymark/prp";
import type { CommandOutput } from "../processes/command-output.js";

/** What is running: the coder, or a gate. */
export type Work = Pick<WorkProgress, "kind" | "level">;

export function toProgress(work: Work, output: CommandOutput): WorkProgress {
  return {
    ...work,
    ranMs: Math.round(performance.now() - output.startedMs),
    bytes: output.bytes,
    ...(output.lastAt === undefined ? undefined : { lastOutputAt: output.lastAt }),
    stdout: output.stdout.text(),
    stderr: output.stderr.text(),
  };
}

export interface SavingOptions {
  /** 0 means never. */
  readonly intervalMs: number;
  readonly save: () => Promise<void>;
  /** Called when a save failed. The next interval tries again. */
  readonly failed: (error: unknown) => void;
}

/**
 * Saves a command's output at intervals, if there is new output. There are never two saves at once. The timer doesn't
 * keep the process alive.
 *
 * @returns A function that stops saving. It resolves once no save is in progress.
 */
export function saveProgress(output: CommandOutput, { intervalMs, save, failed }: SavingOptions): () => Promise<void> {
  if (intervalMs === 0) return async () => {};
  let savedBytes = 0;
  let underWay: Promise<void> | undefined;
  const saveNew = async () => {
    const { bytes } = output;
    try {
      await save();
      savedBytes = bytes;
    } catch (error) {
      failed(error);
    }
    underWay = undefined;
  };
  const timer = setInterval(() => {
    if (underWay === undefined && output.bytes !== savedBytes) underWay = saveNew();
  }, intervalMs).unref();
  return async () => {
    clearInterval(timer);
    await underWay;
  };
}

/** Returns a text about the progress: `the coder so far: 12,345 bytes in 3 minutes`. */
export function progressText({ kind, level, bytes, ranMs }: WorkProgress, fixAttempt = 0): string {
  const who = kind === "gate" ? `gate ${level}` : fixAttempt === 0 ? "the coder" : `fix attempt ${fixAttempt}`;
  return `${who} so far: ${bytes.toLocaleString("en-US")} bytes in ${describeAge(ranMs)}`;
}
