import { stateDigest } from "../codec/payload.js";
import { checkId, checkText, MAX_DELAY_MS } from "../contract/arguments.js";
import { ClosedError, LeaseLostError, RunCancelledError } from "../contract/errors.js";
import { repeat } from "../contract/runtime.js";
import { isOfRun, isTransient, transientMetadata } from "../contract/transient.js";
import { checkOptions, type OptionChecks, wholeFrom } from "./check-options.js";
import type { Lease } from "./lease.js";
import type { NotificationHub } from "./notifications.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";
import { readToken } from "./save-options.js";
import { onTermination } from "./termination.js";
import type { CheckpointWriter } from "./writer.js";

export interface AutoSaveOptions {
  /** The time between two checks of the state, in milliseconds. Default 30,000. */
  readonly intervalMs?: number | undefined;
  /** The stage of the checkpoints. Default: the stage of the previous checkpoint. */
  readonly stage?: string | undefined;
  /** The label of the checkpoints. Default `Auto-save`. */
  readonly label?: string | undefined;
  /**
   * On SIGINT, SIGTERM or SIGHUP, saves once with status `paused`, even if nothing changed (but not if the task is
   * completed), and then releases `lease`. Then the signal ends the process as usual. If the program listens to the
   * signal itself, it must end the process and release the lease itself. Default false.
   */
  readonly saveOnSignal?: boolean | undefined;
  /**
   * The task's lease. If a save is refused because the lease is released or lost, the auto-save ends: `autoSaveFailed`
   * is emitted once, and nothing more is stored.
   */
  readonly lease?: Lease | undefined;
}

/** @internal The parts of the manager that auto-saves use. */
export interface AutoSaveParts {
  readonly notifications: NotificationHub;
  readonly options: ResolvedOptions;
  readonly reader: CheckpointReader;
  readonly writer: CheckpointWriter;
}

const OPTION_CHECKS: OptionChecks<AutoSaveOptions> = {
  intervalMs: wholeFrom(1, MAX_DELAY_MS),
  stage: checkId,
  label: checkText,
  saveOnSignal: true,
  lease: true,
};
const DEFAULT_INTERVAL_MS = 30_000;

/**
 * Checks a task's state at intervals, and saves it if it differs from the newest checkpoint's state. It never runs two
 * saves at once, and its timer never keeps the process alive. Made by `CheckpointManager.autoSave`.
 */
export class AutoSave<State> {
  readonly #parts: AutoSaveParts;
  readonly #taskId: string;
  readonly #stopped: () => void;
  readonly #getState: () => State | undefined;
  readonly #options: AutoSaveOptions;
  readonly #endTimer: () => void;
  readonly #unsubscribe: () => void;
  /** The task's newest checkpoint at the last check, and the digest of its state if readable. */
  #newest: { readonly id: string; readonly stage: string | undefined; readonly digest: string | undefined } | undefined;
  #transientId: string | undefined;
  #hasChecked = false;
  #inProgress: Promise<unknown> | undefined;
  #stopping: Promise<void> | undefined;
  #status: "running" | "paused" = "running";
  /** The save under way after a signal. Never rejects. */
  #pausing: Promise<void> | undefined;
  /** The error that ended the auto-save: no later save under its lease can succeed. */
  #lost: LeaseLostError | RunCancelledError | undefined;

  /** @internal */
  constructor(
    parts: AutoSaveParts,
    taskId: string,
    getState: () => State | undefined,
    options: AutoSaveOptions,
    stopped: () => void,
  ) {
    checkOptions("AutoSaveOptions", options, OPTION_CHECKS);
    if (typeof getState !== "function") throw new TypeError("autoSave needs a function that returns the state.");
    this.#parts = parts;
    this.#taskId = taskId;
    this.#stopped = stopped;
    this.#getState = getState;
    this.#options = options;
    const { intervalMs = DEFAULT_INTERVAL_MS } = options;
    this.#endTimer = repeat(parts.options.runtime, () => this.#tick(), intervalMs);
    this.#unsubscribe =
      options.saveOnSignal === true ? onTermination((_signal, isFinal) => this.#startPause(isFinal)) : () => undefined;
  }

  /**
   * Waits for the save in progress, then saves the state if it changed.
   *
   * @throws The error of `save`; `autoSaveFailed` is emitted too. After `stop()`, a ClosedError. Once the lease is
   *   lost, its LeaseLostError.
   */
  async flush(): Promise<void> {
    if (this.#stopping !== undefined && this.#lost === undefined) throw new ClosedError("The auto-save");
    await this.between(() => this.#save());
  }

  /**
   * Stops the timer, waits for the save in progress, then saves the state if it changed. Idempotent.
   *
   * @throws The error of `save`; the timer is stopped anyway. Once the lease is lost, its LeaseLostError.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /**
   * @internal Runs `work` after the save in progress and before the next one. If several callers wait, their work runs
   *   one after another.
   */
  async between<Result>(work: () => Promise<Result>): Promise<Result> {
    // The failure of the previous save belongs to its own caller.
    while (this.#inProgress !== undefined) await this.#inProgress.catch(() => undefined);
    const working = work().finally(() => {
      this.#inProgress = undefined;
    });
    this.#inProgress = working;
    return working;
  }

  async #stop(): Promise<void> {
    this.#endTimer();
    // The program may call `stop` in its own signal listener, before Waymark's listener runs. One microtask later,
    // Waymark's listener has run.
    if (this.#options.saveOnSignal === true) await Promise.resolve();
    try {
      await this.#pausing;
      await this.between(() => this.#save());
    } finally {
      // If a signal came during that save, the storage must stay open for the save as `paused`.
      await this.#pausing;
      this.#end();
    }
  }

  /** Frees the task for another auto-save or a run. */
  #end(): void {
    this.#endTimer();
    this.#unsubscribe();
    this.#stopped();
  }

  #tick(): void {
    if (this.#inProgress !== undefined || this.#pausing !== undefined) return;
    // `#save` has reported the error, and the next tick tries again.
    this.between(() => this.#save()).catch(() => undefined);
  }

  #startPause(isFinal: boolean): Promise<void> {
    this.#pausing = this.#pause(isFinal);
    return this.#pausing;
  }

  /**
   * Saves with status `paused` after a signal. If the program ignores the signal and keeps running, so does the timer.
   */
  async #pause(isFinal: boolean): Promise<void> {
    this.#status = "paused";
    try {
      await this.between(() => this.#save(true));
    } catch {
      // `#save` has reported the error.
    } finally {
      // If the release fails, the lease expires by itself.
      if (isFinal) await this.#options.lease?.release().catch(() => undefined);
      this.#pausing = undefined;
      if (this.#stopping === undefined) this.#status = "running";
    }
  }

  /** @param isForced - Saves even if the state didn't change. */
  async #save(isForced = false): Promise<void> {
    if (this.#lost !== undefined) throw this.#lost;
    const { notifications, options, writer } = this.#parts;
    const taskId = this.#taskId;
    try {
      if (await this.#isCompleted()) return;
      // There must be no `await` between here and the append. Otherwise another call could save a newer state first.
      const state = this.#getState();
      if (state === undefined) return;
      const encoded = writer.encode(taskId, state);
      const digest = stateDigest(encoded);
      if (!isForced && digest === this.#newest?.digest) return;
      const { stage = this.#newest?.stage, label = "Auto-save", lease } = this.#options;
      const saveOptions = { stage, label, status: this.#status };
      const replaces = this.#transientId;
      const draft = writer.draft(taskId, saveOptions, transientMetadata(replaces));
      const request = { replaces, fencingToken: readToken(taskId, lease) };
      const { id } = await writer.append(draft, encoded, request, lease);
      this.#newest = { id, stage, digest };
      this.#transientId = id;
    } catch (error) {
      options.logger.error({ taskId, error }, `Auto-save of task ${JSON.stringify(taskId)} failed`);
      if (error instanceof LeaseLostError || error instanceof RunCancelledError) {
        this.#lost = error;
        this.#end();
      }
      notifications.emit("autoSaveFailed", { taskId, error });
      throw error;
    }
  }

  /**
   * Reads the task's newest checkpoint again, since another call or process may have saved, rewound, removed or
   * completed the task.
   */
  async #isCompleted(): Promise<boolean> {
    const { reader } = this.#parts;
    const newest = await reader.newestWhere(this.#taskId);
    if (newest?.status === "completed") return true;
    if (newest !== undefined && isOfRun(newest)) throw ownRunError(newest.taskId);
    if (newest?.id !== this.#newest?.id) {
      const digest = newest && (await reader.readDigest(this.#taskId, newest.id));
      this.#newest = newest && { id: newest.id, stage: newest.stage, digest };
    }
    if (newest !== undefined && isTransient(newest)) this.#transientId = newest.id;
    else if (!this.#hasChecked) {
      // An earlier process may have left a transient checkpoint.
      this.#transientId = (await reader.newestWhere(this.#taskId, isTransient))?.id;
    }
    this.#hasChecked = true;
    return false;
  }
}

export function ownRunError(taskId: string): TypeError {
  return new TypeError(
    `Task ${JSON.stringify(taskId)} has a run, which saves after each step: an auto-save would replace its record. Nothing was saved. Inside the run, use run.save or run.next.`,
  );
}
