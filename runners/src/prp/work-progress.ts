import type { WorkProgress } from "waymark/prp";
import type { CommandOutput } from "../processes/command-output.js";

/** Who works: the coder, or a gate. */
export type Work = Pick<WorkProgress, "kind" | "level">;

export function progressOf(work: Work, output: CommandOutput): WorkProgress {
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
  /** 0: never. */
  readonly intervalMs: number;
  readonly save: () => Promise<void>;
  /** Called when a save failed; the next interval tries again. */
  readonly failed: (error: unknown) => void;
}

/**
 * Saves at intervals what a command has written, if there is something new. Never two saves at once; the timer never
 * keeps the process alive.
 *
 * @returns Ends it: resolves when nothing is being saved, and nothing will be.
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

/** Who, how much, how long: `the coder so far: 12 KB in 3 min`. */
export function progressText({ kind, level, bytes, ranMs }: WorkProgress, fixAttempt = 0): string {
  const who = kind === "gate" ? `gate ${level}` : fixAttempt === 0 ? "the coder" : `fix attempt ${fixAttempt}`;
  return `${who} so far: ${bytesText(bytes)} in ${durationText(ranMs)}`;
}

function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  if (bytes < 999_500) return `${Math.round(bytes / 1_000)} KB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

function durationText(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
