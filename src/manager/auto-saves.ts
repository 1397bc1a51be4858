import type { CheckpointSummary } from "../contract/checkpoint.js";
import { AutoSave, type AutoSaveOptions } from "./auto-save.js";
import type { EventHub } from "./events.js";
import type { Logger } from "./logger.js";
import type { CheckpointReader } from "./reader.js";
import type { SaveOptions } from "./save-options.js";
import type { SavedStateOf, StateSchema } from "./schema.js";
import type { CheckpointWriter } from "./writer.js";

/** What auto-saves get from their manager. */
export interface AutoSavesHost<Schema extends StateSchema> {
  readonly events: EventHub;
  readonly logger: Logger;
  readonly reader: CheckpointReader<Schema>;
  readonly writer: CheckpointWriter<Schema>;
  /** Saves even while the manager is closing: that is when the last save comes. */
  save(taskId: string, state: SavedStateOf<Schema>, options: SaveOptions): Promise<unknown>;
}

/** The auto-saves of one manager: at most one per task. */
export class AutoSaves<Schema extends StateSchema> {
  readonly #host: AutoSavesHost<Schema>;
  readonly #byTask = new Map<string, AutoSave<SavedStateOf<Schema>>>();

  constructor(host: AutoSavesHost<Schema>) {
    this.#host = host;
  }

  /** @throws {TypeError} The task already has one, or an option is misspelled. */
  start(
    taskId: string,
    getState: () => SavedStateOf<Schema> | undefined,
    options: AutoSaveOptions,
  ): AutoSave<SavedStateOf<Schema>> {
    if (this.#byTask.has(taskId))
      throw new TypeError(`Task ${JSON.stringify(taskId)} already has an auto-save; stop() that one first.`);
    const { events, logger, reader, writer, save } = this.#host;
    const host = {
      save: (state: SavedStateOf<Schema>, saveOptions: SaveOptions) => save(taskId, state, saveOptions),
      digest: (state: SavedStateOf<Schema>) => writer.digest(state),
      isCompleted: () => reader.isCompleted(taskId),
      failed: (error: unknown) => {
        logger.error({ taskId, error }, `Auto-save of task ${JSON.stringify(taskId)} failed`);
        events.emit("autoSaveFailed", { taskId, error });
      },
      stopped: () => {
        stopListening();
        this.#byTask.delete(taskId);
      },
    };
    const autoSave = new AutoSave(host, getState, options);
    // Only now: without a listener, removals cost less.
    const stopListening = events.on("removed", (removed) => {
      if (removed.taskId === taskId) autoSave.noteRemoved(removed.ids);
    });
    this.#byTask.set(taskId, autoSave);
    return autoSave;
  }

  has(taskId: string): boolean {
    return this.#byTask.has(taskId);
  }

  /** The task's state was saved, by its auto-save or by another call. */
  noteSaved(digest: string, saved: CheckpointSummary): void {
    this.#byTask.get(saved.taskId)?.noteSaved(digest, saved);
  }

  /** Stops all of them; never rejects. */
  stopAll(): Promise<PromiseSettledResult<void>[]> {
    return Promise.allSettled([...this.#byTask.values()].map((autoSave) => autoSave.stop()));
  }
}
