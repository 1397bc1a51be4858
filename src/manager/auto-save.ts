import { checkKeys } from "../contract/adapter.js";
import type { CheckpointStatus } from "../contract/checkpoint.js";
import { ClosedError } from "../contract/errors.js";
import { checkId, checkInteger, checkText } from "./arguments.js";
import { onTermination } from "./termination.js";

export interface AutoSaveOptions {
  /** Milliseconds from one look at the state to the next. Default 30,000. */
  readonly intervalMs?: number | undefined;
  /** The stage of what is saved, or a function that tells it at each save. */
  readonly stage?: string | (() => string | undefined) | undefined;
  /** The label of what is saved. Default `Auto-save`. */
  readonly label?: string | undefined;
  /**
   * On SIGINT or SIGTERM save once with status `paused`, changed or not (a completed task is left as it is), then let
   * the signal end the process as it would have. Default false.
   */
  readonly saveOnSignal?: boolean | undefined;
}

/** What an auto-saver needs of its manager. */
export interface AutoSaveHost<State> {
  save(state: State, options: { stage: string | undefined; label: string; status: CheckpointStatus }): Promise<unknown>;
  /** Tells whether two states would be stored alike. */
  digest(state: State): string;
  /** Whether the task's newest checkpoint is completed. */
  isCompleted(): Promise<boolean>;
  failed(error: unknown): void;
  stopped(): void;
}

const AUTO_SAVE_KEYS = ["intervalMs", "stage", "label", "saveOnSignal"] satisfies (keyof AutoSaveOptions)[];
const DEFAULT_INTERVAL_MS = 30_000;
/** The longest delay a Node timer has; beyond it, it would fire at once. */
const MAX_INTERVAL_MS = 2 ** 31 - 1;

/**
 * Saves a task's state at intervals, if it has changed since it was last saved. Never two saves at once; the timer
 * never keeps the process alive. Made by `CheckpointManager.autoSave`.
 */
export class AutoSave<State> {
  readonly #host: AutoSaveHost<State>;
  readonly #getState: () => State | undefined;
  readonly #options: AutoSaveOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #saved: { readonly digest: string; readonly sequence: number } | undefined;
  #underWay: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  /** From a signal on, what is saved is saved as paused: the process is about to end. */
  #status: "running" | "paused" = "running";
  /** What a signal asks for, while it is under way. Never rejects. */
  #pausing: Promise<void> | undefined;
  /** The next save is stored, changed or not: it is the one that says paused. */
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
   * Saves now what is unsaved, after the save under way.
   *
   * @throws What `save` throws; `autoSaveFailed` is emitted too. A ClosedError after `stop()`.
   */
  async flush(): Promise<void> {
    if (this.#stopping !== undefined) throw new ClosedError("The auto-save");
    await this.#saveNext();
  }

  /**
   * Ends the timer, waits for the save under way and saves what is unsaved. Idempotent.
   *
   * @throws What `save` throws; the timer has ended all the same.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** @internal The task was saved, by whatever call: that state needs no second save. */
  noteSaved(digest: string, sequence: number): void {
    if (this.#saved === undefined || sequence > this.#saved.sequence) this.#saved = { digest, sequence };
  }

  /** @internal Checkpoints of the task were removed: its state may not be stored any more. */
  noteRemoved(): void {
    this.#saved = undefined;
  }

  async #stop(): Promise<void> {
    clearInterval(this.#timer);
    // A program may call this at the signal itself, and hear of it before we do: by the next turn we know.
    if (this.#options.saveOnSignal === true) await Promise.resolve();
    try {
      await this.#pausing;
      await this.#saveNext();
    } finally {
      // A signal came in the meantime: whoever closes the storage now would take it away under that save.
      await this.#pausing;
      this.#unsubscribe();
      this.#host.stopped();
    }
  }

  #tick(): void {
    if (this.#underWay !== undefined || this.#pausing !== undefined) return;
    // A failure has been reported where it happened; the next tick tries again.
    this.#start().catch(() => undefined);
  }

  #startPause(): Promise<void> {
    this.#pausing = this.#pause();
    return this.#pausing;
  }

  /** The process is told to end; where its program goes on all the same, so does the timer. */
  async #pause(): Promise<void> {
    this.#status = "paused";
    try {
      // A task that is done stays done.
      if (!(await this.#host.isCompleted())) {
        this.#isPauseDue = true;
        await this.#saveNext();
      }
    } catch {
      // Reported where it happened.
    } finally {
      this.#isPauseDue = false;
      this.#pausing = undefined;
      if (this.#stopping === undefined) this.#status = "running";
    }
  }

  /** Waits for the save under way, then saves. Others may be waiting too: whoever comes first begins the next one. */
  async #saveNext(): Promise<void> {
    while (this.#underWay !== undefined) await this.#underWay.catch(() => undefined);
    await this.#start();
  }

  #start(): Promise<void> {
    const save = this.#save().finally(() => {
      this.#underWay = undefined;
    });
    this.#underWay = save;
    return save;
  }

  async #save(): Promise<void> {
    try {
      const state = this.#getState();
      if (state === undefined) return;
      if (!this.#isPauseDue && this.#host.digest(state) === this.#saved?.digest) return;
      const { stage, label = "Auto-save" } = this.#options;
      const status = this.#status;
      // It comes back as noteSaved.
      await this.#host.save(state, { stage: typeof stage === "function" ? stage() : stage, label, status });
      if (status === "paused") this.#isPauseDue = false;
    } catch (error) {
      this.#host.failed(error);
      throw error;
    }
  }
}
