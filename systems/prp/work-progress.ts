import type { CommandOutput } from "../processes/command-output.js";
import type { Work, WorkProgress } from "./schema.js";

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

export interface ProgressSaverOptions {
  /** 0: never. */
  readonly intervalMs: number;
  readonly save: () => Promise<void>;
  /** Called when a save failed; the next interval tries again. */
  readonly failed: (error: unknown) => void;
}

/**
 * Saves at intervals what a command has written, if there is something new. Never two saves at once; the timer never
 * keeps the process alive. The core's AutoSave would not do: each of these saves takes the place of the last one.
 */
export class ProgressSaver {
  readonly #output: CommandOutput;
  readonly #options: ProgressSaverOptions;
  readonly #timer: NodeJS.Timeout | undefined;
  #savedBytes = 0;
  #underWay: Promise<void> | undefined;

  constructor(output: CommandOutput, options: ProgressSaverOptions) {
    this.#output = output;
    this.#options = options;
    if (options.intervalMs > 0) this.#timer = setInterval(() => this.#tick(), options.intervalMs).unref();
  }

  /** Resolves when nothing is being saved, and nothing will be. Never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#underWay;
  }

  #tick(): void {
    if (this.#underWay !== undefined || this.#output.bytes === this.#savedBytes) return;
    this.#underWay = this.#save().finally(() => {
      this.#underWay = undefined;
    });
  }

  async #save(): Promise<void> {
    const { bytes } = this.#output;
    try {
      await this.#options.save();
      this.#savedBytes = bytes;
    } catch (error) {
      this.#options.failed(error);
    }
  }
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
