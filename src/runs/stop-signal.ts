import { setMaxListeners } from "node:events";
import { RunPausedError } from "../contract/errors.js";
import { onAbort } from "../manager/abort-signals.js";
import { onTermination } from "../manager/termination.js";
import { enclosingSignal } from "./nesting.js";
import type { RunOptions } from "./run.js";

/** Stops a run. Its signal aborts with the first reason to stop. */
export class StopSignal {
  readonly #taskId: string;
  readonly #controller = new AbortController();
  readonly #following: (() => void)[] = [];
  readonly #unsubscribe: () => void;
  #end: () => void = () => undefined;
  /** True if the process got a signal that ends it once the outermost run has paused. */
  isFinal = false;

  constructor(taskId: string, closing: AbortSignal, { signal, pauseOnSignal = false }: RunOptions) {
    this.#taskId = taskId;
    // Each step under way may add a listener, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.signal);
    this.#on(closing, (cause) => this.#pause("the manager is closing", cause));
    if (signal !== undefined) this.#on(signal, (cause) => this.#pause("its signal was aborted", cause));
    const outer = enclosingSignal();
    if (outer !== undefined) this.#on(outer, (cause) => this.#pause("the run around it is stopping", cause));
    const ended = new Promise<void>((resolve) => {
      this.#end = resolve;
    });
    this.#unsubscribe = pauseOnSignal
      ? onTermination((name, isFinal) => {
          this.isFinal = isFinal && outer === undefined;
          this.#pause(`the process received ${name}`);
          return ended;
        })
      : () => undefined;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stop(reason: unknown): void {
    this.#controller.abort(reason);
  }

  follow(signal: AbortSignal): void {
    this.#on(signal, (reason) => this.stop(reason));
  }

  /** Call it once the run is over and its lease released. */
  end(): void {
    for (const forget of this.#following) forget();
    this.#end();
    this.#unsubscribe();
  }

  #pause(why: string, ...cause: readonly [unknown?]): void {
    this.stop(new RunPausedError(this.#taskId, why, cause.length === 0 ? {} : { cause: cause[0] }));
  }

  #on(signal: AbortSignal, call: (reason: unknown) => void): void {
    this.#following.push(onAbort(signal, call));
  }
}
