import { isPromiseLike } from "../contract/built-ins.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import type { CorruptRecord } from "../contract/corrupt-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import type { Logger } from "./logger.js";

/** A manager's notifications, with the details that listeners get. */
export interface Notifications {
  /** A checkpoint was saved; it is as durable as the adapter promises. */
  saved: CheckpointSummary;
  /** Checkpoints, or a whole task, were removed. */
  removed: {
    readonly taskId: string;
    /** `"all"`: the whole task, with its numbering. */
    readonly ids: readonly string[] | "all";
    /** `retention`: the manager's policy removed them after a save. `request`: a call removed them. */
    readonly by: "retention" | "request";
  };
  /** A stored record can't be read. It was left untouched. */
  corrupt: CorruptRecord;
  /** An auto-save failed; the next one tries again. */
  autoSaveFailed: { readonly taskId: string; readonly error: unknown };
  /** An attempt of a run begins. */
  runStarted: {
    readonly taskId: string;
    readonly attempt: number;
    readonly turn: number;
    readonly recordedSteps: number;
  };
  /**
   * A step's function is about to be called. `step` is its name, with a number from the second occurrence on:
   * `model 2`.
   */
  stepStarted: { readonly taskId: string; readonly turn: number; readonly step: string };
  /** A step's result or error is stored. */
  stepEnded: Notifications["stepStarted"] & {
    readonly durationMs: number;
    readonly attempts: number;
    readonly error?: unknown;
  };
  /** A step returned its recorded result or threw its recorded error; its function wasn't called. */
  stepReused: Notifications["stepStarted"];
  /** A turn has ended, and the function didn't call these recorded steps, probably because it was changed. */
  stepsUnused: { readonly taskId: string; readonly steps: readonly string[] };
  /** A run waits, or waits again after a resume. `until` is a sleep's end, or a wait's time limit. */
  waitStarted: Notifications["stepStarted"] & { readonly waitsFor: "sleep" | "event"; readonly until?: string };
  /** A wait's end is stored. Without `event`, the wait ended because its time came. */
  waitEnded: Notifications["stepStarted"] & {
    readonly waitsFor: "sleep" | "event";
    readonly durationMs: number;
    readonly event?: Pick<TaskEvent, "id" | "by" | "sentAt">;
  };
  /** An event was sent; it is as durable as the adapter promises. */
  eventSent: { readonly taskId: string; readonly name: string; readonly id: string; readonly by?: string };
  /** The schema of a wait refused an event. The event is kept as refused, and the wait stays open. */
  eventRefused: { readonly taskId: string; readonly name: string; readonly id: string; readonly error: unknown };
  /** A signal stopped the run, or the run was suspended because it only waits. Its task is `paused`. */
  runPaused: { readonly taskId: string; readonly error: unknown };
  /**
   * An attempt has ended. `stopped` means that it lost its lease, met another writer's checkpoint, or couldn't save;
   * then nothing more is recorded.
   */
  runEnded: {
    readonly taskId: string;
    readonly status: "completed" | "failed" | "stopped";
    readonly error?: unknown;
  };
}

type NotificationListener<Name extends keyof Notifications> = (details: Notifications[Name]) => void;

/**
 * Keeps listeners and calls them. If a listener throws, the error is logged; the other listeners and the save continue.
 */
export class NotificationHub {
  readonly #listeners: { [Name in keyof Notifications]: Set<NotificationListener<Name>> } = {
    saved: new Set(),
    removed: new Set(),
    corrupt: new Set(),
    autoSaveFailed: new Set(),
    runStarted: new Set(),
    stepStarted: new Set(),
    stepEnded: new Set(),
    stepReused: new Set(),
    stepsUnused: new Set(),
    waitStarted: new Set(),
    waitEnded: new Set(),
    eventSent: new Set(),
    eventRefused: new Set(),
    runPaused: new Set(),
    runEnded: new Set(),
  };
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  on<Name extends keyof Notifications>(name: Name, listener: NotificationListener<Name>): () => void {
    const known = Object.keys(this.#listeners);
    if (!known.includes(name))
      throw new TypeError(`There is no notification "${name}". Known ones: ${known.join(", ")}.`);
    if (typeof listener !== "function") throw new TypeError(`The listener of "${name}" must be a function.`);
    // Wrapped, so that a listener registered twice is called twice, and each unsubscribe removes one registration.
    const registered: NotificationListener<Name> = (details) => listener(details);
    this.#listeners[name].add(registered);
    return () => {
      this.#listeners[name].delete(registered);
    };
  }

  has(name: keyof Notifications): boolean {
    return this.#listeners[name].size > 0;
  }

  emit<Name extends keyof Notifications>(name: Name, details: Notifications[Name]): void {
    for (const listener of [...this.#listeners[name]]) {
      const failed = (error: unknown) => this.#logger.error({ error, name }, `A listener of "${name}" threw`);
      try {
        // No other code handles the rejection of an async listener.
        const returned: unknown = listener(details);
        if (isPromiseLike(returned)) returned.then(undefined, failed);
      } catch (error) {
        failed(error);
      }
    }
  }
}
