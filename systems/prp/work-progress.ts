import { BoundedCapture } from "../processes/bounded-capture.js";
import type { OutputSink } from "../processes/output-sink.js";
import type { OutputSource } from "./output.js";
import type { WorkProgress } from "./schema.js";

/** What a command has written so far, on either of its streams. */
export class OutputSoFar {
  /** Of both streams, kept or not. */
  bytes = 0;
  readonly #source: Pick<OutputSource, "kind" | "level">;
  readonly #stdout: BoundedCapture;
  readonly #stderr: BoundedCapture;
  readonly #startedMs = performance.now();
  #lastOutputAt: Date | undefined;

  /** @param maxBytes - At most so many are kept of each stream. */
  constructor(source: Pick<OutputSource, "kind" | "level">, maxBytes: number) {
    this.#source = source;
    this.#stdout = new BoundedCapture(maxBytes);
    this.#stderr = new BoundedCapture(maxBytes);
  }

  /** A sink that notes what passes through it. */
  through(stream: "stdout" | "stderr", sink: OutputSink): OutputSink {
    const capture = stream === "stdout" ? this.#stdout : this.#stderr;
    return {
      write: (chunk) => {
        capture.push(chunk);
        this.bytes += chunk.length;
        this.#lastOutputAt = new Date();
        return sink.write(chunk);
      },
      end: () => sink.end(),
    };
  }

  progress(): WorkProgress {
    return {
      ...this.#source,
      ranMs: Math.round(performance.now() - this.#startedMs),
      bytes: this.bytes,
      ...(this.#lastOutputAt === undefined ? undefined : { lastOutputAt: this.#lastOutputAt }),
      stdout: this.#stdout.textSoFar(),
      stderr: this.#stderr.textSoFar(),
    };
  }
}

export interface ProgressSaverOptions {
  /** 0: never. */
  readonly intervalMs: number;
  readonly save: (progress: WorkProgress) => Promise<void>;
  /** A save failed; the next interval tries again. */
  readonly failed: (error: unknown) => void;
}

/**
 * Saves at intervals what a command has written, where something new has come. Never two saves at once; the timer
 * never keeps the process alive. The core's AutoSave would not do: each of its saves must follow on the entry before
 * it, and take the place of the last one of its kind.
 */
export class ProgressSaver {
  readonly #output: OutputSoFar;
  readonly #options: ProgressSaverOptions;
  readonly #timer: NodeJS.Timeout | undefined;
  #savedBytes = 0;
  #underWay: Promise<void> | undefined;

  constructor(output: OutputSoFar, options: ProgressSaverOptions) {
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
    try {
      const progress = this.#output.progress();
      await this.#options.save(progress);
      this.#savedBytes = progress.bytes;
    } catch (error) {
      this.#options.failed(error);
    }
  }
}

/** Whose progress, how much, how long: `the coder so far: 12 KB in 3 min`. */
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
