import type { EncodedState } from "../codec/json.js";
import { RunPausedError } from "../contract/errors.js";
import type { AttemptParts, NamedStep } from "./turn-calls.js";

/** Chunks are stored in batches: after `ms` milliseconds, or once `chars` characters aren't stored yet. */
const FLUSH = { ms: 20, chars: 64 * 1024 };

/** Stores the output that one attempt of a step writes while it runs, as records of the kind `chunk`. */
export class ChunkWriter {
  readonly #parts: Pick<AttemptParts, "store" | "journal" | "values" | "stop">;
  readonly #step: NamedStep;
  readonly #attempt: number;
  #waiting: EncodedState[] = [];
  /** The characters of the chunks that aren't stored yet. */
  #unstored = 0;
  #lastFlush: Promise<void> = Promise.resolve();
  #cancelTimer: (() => void) | undefined;
  #isOver = false;

  /** @param attempt - The number of the step's attempt. */
  constructor(parts: AttemptParts, step: NamedStep, attempt: number) {
    this.#parts = parts;
    this.#step = step;
    this.#attempt = attempt;
  }

  /** See `StepCall.write`. */
  readonly write = (chunk: unknown): Promise<void> => {
    const { values, stop, store } = this.#parts;
    if (this.#isOver) {
      return refused(
        new TypeError(
          `write was called after the function of step ${JSON.stringify(this.#step.title)} had ended, so the chunk isn't stored.`,
        ),
      );
    }
    // A run that is pausing still stores the output and the results of its steps.
    if (stop.signal.aborted && !(stop.signal.reason instanceof RunPausedError)) return refused(stop.signal.reason);
    let encoded: EncodedState;
    try {
      encoded = values.encodeChunk(this.#step, chunk);
    } catch (error) {
      return refused(error);
    }
    this.#waiting.push(encoded);
    this.#unstored += encoded.text.length;
    if (this.#unstored >= FLUSH.chars) return this.#flush();
    this.#cancelTimer ??= store.options.runtime.setTimeout(() => void this.#flush(), FLUSH.ms);
    return Promise.resolve();
  };

  /** Call this when the step's function has ended. The remaining chunks share a write with the step's result. */
  end(): void {
    this.#isOver = true;
    void this.#flush();
  }

  /** Resolves once all chunks so far are stored. Never rejects: if a write fails, the run has stopped. */
  #flush(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const { name, occurrence } = this.#step;
    const fields = { attempt: this.#attempt };
    const flushed = this.#waiting.map(async (chunk) => {
      await this.#parts.journal.note({ kind: "chunk", name, occurrence, fields, encoded: ["chunk", chunk] });
      this.#unstored -= chunk.text.length;
    });
    this.#waiting = [];
    if (flushed.length > 0) this.#lastFlush = Promise.all([this.#lastFlush, ...flushed]).then(() => undefined);
    return this.#lastFlush;
  }
}

/**
 * Makes a rejected promise that may stay unhandled. Many callers don't await `write`, and its rejection must not end
 * the process when the run stops.
 */
function refused(reason: unknown): Promise<void> {
  const rejected = Promise.reject<void>(reason);
  rejected.catch(() => undefined);
  return rejected;
}
