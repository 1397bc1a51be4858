import { setMaxListeners } from "node:events";
import { isError, LeaseHeldError, LeaseLostError, RunPausedError, StorageError } from "../contract/errors.js";
import { processState } from "../contract/process-state.js";
import { onAbort } from "../manager/abort-signals.js";
import { onTermination } from "../manager/termination.js";
import { currentSignal } from "./nesting.js";
import type { RunOptions } from "./run.js";

/** Stops a run or a worker. The signal aborts with the first reason to stop. */
export class StopSignal {
  readonly #pauseError: (why: string, cause?: unknown) => Error;
  readonly #controller = new AbortController();
  readonly signal: AbortSignal = this.#controller.signal;
  readonly #atEnd: (() => void)[] = [];
  /** Whether the process got a signal that will end it once the outermost run has paused. */
  #isFinal = false;

  /** @param pauseError - Makes the error with which the signal aborts when the run pauses. */
  constructor(
    pauseError: (why: string, cause?: unknown) => Error,
    closing: AbortSignal,
    { signal, pauseOnSignal = false }: Pick<RunOptions, "signal" | "pauseOnSignal">,
  ) {
    this.#pauseError = pauseError;
    // Each step under way may add a listener, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.signal);
    const outer = currentSignal();
    this.#pauseOn(closing, "the manager is closing");
    this.#pauseOn(signal, "its signal was aborted");
    this.#pauseOn(outer, "its parent run is stopping");
    if (!pauseOnSignal) return;
    const ended = new Promise<void>((resolve) => this.#atEnd.push(resolve));
    const unsubscribe = onTermination((name, isFinal) => {
      this.#isFinal = isFinal && outer === undefined;
      this.stop(pauseError(`the process received ${name}`));
      return ended;
    });
    this.#atEnd.push(unsubscribe);
  }

  stop(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Stops when the signal aborts. Returns a function that ends this. */
  follow(signal: AbortSignal): () => void {
    return onAbort(signal, (reason) => this.stop(reason));
  }

  /**
   * Call this once the run is over and its lease released. If the process is about to end, never resolves: a rejection
   * of the caller could end the process before other runs have paused.
   */
  async end(): Promise<void> {
    for (const call of this.#atEnd) call();
    if (this.#isFinal) await new Promise(() => undefined);
  }

  #pauseOn(signal: AbortSignal | undefined, why: string): void {
    if (signal === undefined) return;
    this.#atEnd.push(onAbort(signal, (cause) => this.stop(this.#pauseError(why, cause))));
  }
}

/** Shared, because a stopped run and its parent may belong to different copies of this package. */
const STOPS = processState("stops.1", () => new WeakSet<object>());

/**
 * Marks an error that stopped a run without ending the run, so that the parent run is paused and not failed.
 *
 * @returns The error.
 */
export function markStop(error: unknown): unknown {
  if (error instanceof LeaseHeldError || error instanceof LeaseLostError || error instanceof StorageError) {
    STOPS.add(error);
  }
  return error;
}

/** Marks and throws the error of an attempt that can't begin. Such an attempt records no end. */
export function throwStop(error: unknown): never {
  throw markStop(error);
}

/** Makes the error that pauses a run because a child run couldn't continue. */
export function pausedBy(taskId: string, cause: unknown): RunPausedError {
  const why = isError(cause) ? cause.message : String(cause);
  return new RunPausedError(taskId, `a child run couldn't continue (${why})`, { cause });
}

/** Whether a run stopped with this error, so that it may be continued. */
export function isStop(error: unknown): boolean {
  return error instanceof RunPausedError || (isError(error) && STOPS.has(error));
}
