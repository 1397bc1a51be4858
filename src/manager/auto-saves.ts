import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isPassing } from "../contract/passing.js";
import { AutoSave, type AutoSaveOptions, runSavesItself } from "./auto-save.js";
import type { EventHub } from "./events.js";
import type { Lease } from "./lease.js";
import type { Logger } from "./logger.js";
import type { CheckpointReader } from "./reader.js";
import type { SaveOptions } from "./save-options.js";
import type { CheckpointWriter, EncodedSnapshot } from "./writer.js";

/** The parts of the manager that auto-saves use. */
export interface AutoSavesHost {
  readonly events: EventHub;
  readonly logger: Logger;
  readonly reader: CheckpointReader;
  readonly writer: CheckpointWriter;
  hasRun(taskId: string): boolean;
  /** Emits events for a stored save. While the manager is closing it still does, for each auto-save's last save. */
  noted(appended: Promise<CheckpointSummary>, lease: Lease | undefined): Promise<CheckpointSummary>;
}

/** The auto-saves of one manager: at most one per task. */
export class AutoSaves<State> {
  readonly #host: AutoSavesHost;
  readonly #byTask = new Map<string, AutoSave<State>>();

  constructor(host: AutoSavesHost) {
    this.#host = host;
  }

  /** @throws {TypeError} The task already has an auto-save, or an option is misspelled. */
  start(taskId: string, getState: () => State | undefined, options: AutoSaveOptions): AutoSave<State> {
    if (this.#byTask.has(taskId))
      throw new TypeError(`Task ${JSON.stringify(taskId)} already has an auto-save; stop() that one first.`);
    const { events, logger, reader, writer, noted, hasRun } = this.#host;
    if (hasRun(taskId)) throw runSavesItself(taskId);
    const host = {
      newest: () => reader.newestWhere(taskId),
      newestPassing: () => reader.newestWhere(taskId, isPassing),
      digestOf: (id: string) => writer.digestOf(taskId, id),
      encode: (state: State) => writer.encode(taskId, state),
      save: (snapshot: EncodedSnapshot, saveOptions: SaveOptions, replaces: string | undefined) =>
        noted(writer.appendPassing(taskId, snapshot, saveOptions, replaces), saveOptions.lease),
      failed: (error: unknown) => {
        logger.error({ taskId, error }, `Auto-save of task ${JSON.stringify(taskId)} failed`);
        events.emit("autoSaveFailed", { taskId, error });
      },
      stopped: () => void this.#byTask.delete(taskId),
    };
    const autoSave = new AutoSave(host, getState, options);
    this.#byTask.set(taskId, autoSave);
    return autoSave;
  }

  has(taskId: string): boolean {
    return this.#byTask.has(taskId);
  }

  /** Runs `work` between two saves of the task's auto-save, so that the next save sees the changes. */
  between<Result>(taskId: string, work: () => Promise<Result>): Promise<Result> {
    return this.#byTask.get(taskId)?.between(work) ?? work();
  }

  /** Stops all auto-saves; never rejects. */
  stopAll(): Promise<PromiseSettledResult<void>[]> {
    return Promise.allSettled([...this.#byTask.values()].map((autoSave) => autoSave.stop()));
  }
}
