import { checkKeys } from "../contract/adapter.js";
import type { CheckpointStatus, CheckpointSummary } from "../contract/checkpoint.js";
import { ClosedError } from "../contract/errors.js";
import type { Lease } from "../runs/lease.js";
import { checkId, checkInteger, checkText } from "./arguments.js";
import { onTermination } from "./termination.js";

export interface AutoSaveOptions {
  /** How often the state is checked, in milliseconds. Default 30,000. */
  readonly intervalMs?: number | undefined;
  /** The stage of the checkpoints, or a function that returns it at each save. */
  readonly stage?: string | (() => string | undefined) | undefined;
  /** The label of the checkpoints. Default `Auto-save`. */
  readonly label?: string | undefined;
  /**
   * On SIGINT, SIGTERM or SIGHUP, save once with status `paused`, even if nothing changed (but not if the task is completed),
   * then let the signal end the process as it would without Waymark. Default false.
   */
  readonly saveOnSignal?: boolean | undefined;
  /** The task's lease: once it is lost, nothing is stored. The save on a signal doesn't release it. */
  readonly lease?: Lease | undefined;
}

/** What an auto-save gets from its manager. */
export interface AutoSaveHost<State> {
  save(
    state: State,
    options: { stage: string | undefined; label: string; status: CheckpointStatus; lease: Lease | undefined },
  ): Promise<unknown>;
  /** Equal for two states that would be stored alike. */
  digest(state: State): string;
  /** Whether the task's newest checkpoint is completed. */
  isCompleted(): Promise<boolean>;
  failed(error: unknown): void;
  stopped(): void;
}

const AUTO_SAVE_KEYS = ["intervalMs", "stage", "label", "saveOnSignal", "lease"] satisfies (keyof AutoSaveOptions)[];
const DEFAULT_INTERVAL_MS = 30_000;
/** The longest delay of a Node timer; a longer one would fire at once. */
const MAX_INTERVAL_MS = 2 ** 31 - 1;

/**
 * Saves a task's state at intervals if it changed since the last save. It never runs two saves at once, and its timer
 * never keeps the process alive. `CheckpointManager.autoSave` makes it.
 */
export class AutoSave<State> {
  readonly #host: AutoSaveHost<State>;
  readonly #getState: () => State | undefined;
  readonly #options: AutoSaveOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #saved: { readonly digest: string; readonly id: string; readonly sequence: number } | undefined;
  #inProgress: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  /** `paused` after a signal: the process is about to end. */
  #status: "running" | "paused" = "running";
  /** The save that a signal asked for, until it ends. Never rejects. */
  #pausing: Promise<void> | undefined;
  /** True until the save with status `paused` is stored: it is needed even if the state didn't change. */
  #isPauseDue = false;

  /** @internal */
  constructor(host: AutoSaveHost<State>, getState: () => State | undefined, options: AutoSaveOptions) {
    checkKeys("AutoSaveOptions", options, AUTO_SAVE_KEYS);
    checkInteger("intervalMs", options.intervalMs, 1);
    if (typeof getState !== "function") throw new TypeError("autoSave needs a function that returns the state.");
    if (typeof options.stage === "string") checkId("A stage", options.stage);
    if (options.label !== undefined) checkText("A label", options.label);
    const { intervalMs = DEFAULT_INTERVAL_MS } = options;
    if (intervalMs > MAX_INTERVAL_MS)
      throw new RangeError(`intervalMs must be at most ${MAX_INTERVAL_MS} (24.8 days).`);
    this.#host = host;
    this.#getState = getState;
    this.#options = options;
    this.#timer = setInterval(() => this.#tick(), intervalMs).unref();
    this.#unsubscribe = options.saveOnSignal === true ? onTermination(() => this.#startPause()) : () => undefined;
  }

  /**
   * Waits for the save in progress, then saves the state if it changed.
   *
   * @throws What `save` throws; `autoSaveFailed` is emitted too. A ClosedError after `stop()`.
   */
  async flush(): Promise<void> {
    if (this.#stopping !== undefined) throw new ClosedError("The auto-save");
    await this.#saveNext();
  }

  /**
   * Stops the timer, waits for the save in progress, then saves the state if it changed. Idempotent.
   *
   * @throws What `save` throws; the timer is stopped anyway.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** @internal The task's state was saved, by this auto-save or by another call. It needs no second save. */
  noteSaved(digest: string, { id, sequence }: CheckpointSummary): void {
    if (this.#saved === undefined || sequence > this.#saved.sequence) this.#saved = { digest, id, sequence };
  }

  /** @internal Checkpoints of the task were removed. If the last save is among them, the state is unsaved again. */
  noteRemoved(ids: readonly string[] | "all"): void {
    if (this.#saved !== undefined && (ids === "all" || ids.includes(this.#saved.id))) this.#saved = undefined;
  }

  async #stop(): Promise<void> {
    clearInterval(this.#timer);
    // The program may call this from its own signal listener, which may run before ours. Ours has run one microtask later.
    if (this.#options.saveOnSignal === true) await Promise.resolve();
    try {
      await this.#pausing;
      await this.#saveNext();
    } finally {
      // A signal may have come meanwhile. The storage must stay open for its save.
      await this.#pausing;
      this.#unsubscribe();
      this.#host.stopped();
    }
  }

  #tick(): void {
    if (this.#inProgress !== undefined || this.#pausing !== undefined) return;
    // #save has reported the failure; the next tick tries again.
    this.#start().catch(() => undefined);
  }

  #startPause(): Promise<void> {
    this.#pausing = this.#pause();
    return this.#pausing;
  }

  /** Saves as paused after a signal. If the program ignores the signal and continues, so does the timer. */
  async #pause(): Promise<void> {
    this.#status = "paused";
    try {
      // A completed task stays completed.
      if (!(await this.#host.isCompleted())) {
        this.#isPauseDue = true;
        await this.#saveNext();
      }
    } catch {
      // #save has reported it.
    } finally {
      this.#isPauseDue = false;
      this.#pausing = undefined;
      if (this.#stopping === undefined) this.#status = "running";
    }
  }

  /** Waits for the save in progress, then saves. Several callers may wait; the first one starts the next save. */
  async #saveNext(): Promise<void> {
    // #save has reported the failure of the one before.
    while (this.#inProgress !== undefined) await this.#inProgress.catch(() => undefined);
    await this.#start();
  }

  #start(): Promise<void> {
    const save = this.#save().finally(() => {
      this.#inProgress = undefined;
    });
    this.#inProgress = save;
    return save;
  }

  async #save(): Promise<void> {
    try {
      const state = this.#getState();
      if (state === undefined) return;
      if (!this.#isPauseDue && this.#host.digest(state) === this.#saved?.digest) return;
      const { stage: given, label = "Auto-save", lease } = this.#options;
      const [stage, status] = [typeof given === "function" ? given() : given, this.#status];
      // The manager calls noteSaved.
      await this.#host.save(state, { stage, label, status, lease });
      if (status === "paused") this.#isPauseDue = false;
    } catch (error) {
      this.#host.failed(error);
      throw error;
    }
  }
}
