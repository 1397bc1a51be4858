import { setMaxListeners } from "node:events";
import { isError, LeaseHeldError, LeaseLostError, RunPausedError, StorageError } from "../contract/errors.js";
import { processState } from "../contract/process-state.js";
import { onAbort } from "../manager/abort-signals.js";
import { onTermination } from "../manager/termination.js";
import { enclosingSignal } from "./nesting.js";
import type { RunOptions } from "./run.js";

/** Stops a run. Its signal aborts with the first reason to stop. */
export class StopSignal {
  readonly #taskId: string;
  readonly #controller = new AbortController();
  readonly #atEnd: (() => void)[] = [];
  /** True if the process got a signal that ends it once the outermost run has paused. */
  isFinal = false;

  constructor(taskId: string, closing: AbortSignal, { signal, pauseOnSignal = false }: RunOptions) {
    this.#taskId = taskId;
    // Each step under way may add a listener, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.signal);
    const outer = enclosingSignal();
    this.#pauseOn(closing, "the manager is closing");
    this.#pauseOn(signal, "its signal was aborted");
    this.#pauseOn(outer, "its parent run is stopping");
    if (!pauseOnSignal) return;
    const ended = new Promise<void>((resolve) => this.#atEnd.push(resolve));
    const unsubscribe = onTermination((name, isFinal) => {
      this.isFinal = isFinal && outer === undefined;
      this.stop(new RunPausedError(taskId, `the process received ${name}`));
      return ended;
    });
    this.#atEnd.push(unsubscribe);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stop(reason: unknown): void {
    this.#controller.abort(reason);
  }

  follow(signal: AbortSignal): void {
    this.#atEnd.push(onAbort(signal, (reason) => this.stop(reason)));
  }

  /** Call it once the run is over and its lease released. */
  end(): void {
    for (const call of this.#atEnd) call();
  }

  #pauseOn(signal: AbortSignal | undefined, why: string): void {
    if (signal === undefined) return;
    const pause = (cause: unknown) => this.stop(new RunPausedError(this.#taskId, why, { cause }));
    this.#atEnd.push(onAbort(signal, pause));
  }
}

/** Shared, because the parent of a stopped run may be of another copy of this package. */
const STOPS = processState("stops.1", () => new WeakSet<object>());

/** Notes the error that stopped a run without ending it. Its parent run is then paused, not failed. */
export function noteStop(error: unknown): void {
  if (error instanceof LeaseHeldError || error instanceof LeaseLostError || error instanceof StorageError)
    STOPS.add(error);
}

/** Like `begin`, and notes its error: an attempt that can't begin records no end. */
export async function notingStops<Result>(begin: Promise<Result>): Promise<Result> {
  try {
    return await begin;
  } catch (error) {
    noteStop(error);
    throw error;
  }
}

/** The error that pauses a run because a child run couldn't continue. */
export function pausedBy(taskId: string, cause: unknown): RunPausedError {
  const why = isError(cause) ? cause.message : String(cause);
  return new RunPausedError(taskId, `a child run couldn't continue (${why})`, { cause });
}

/** Whether a run stopped with this error, so that it may go on later. */
export function isStop(error: unknown): boolean {
  return error instanceof RunPausedError || (isError(error) && STOPS.has(error));
}
