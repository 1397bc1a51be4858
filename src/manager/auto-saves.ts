import { checkTaskId } from "../contract/arguments.js";
import { AutoSave, type AutoSaveOptions, type AutoSaveParts, ownRunError } from "./auto-save.js";

/** The auto-saves of one manager: at most one per task. */
export class AutoSaves<State> {
  readonly #parts: AutoSaveParts;
  readonly #byTask = new Map<string, AutoSave<State>>();

  constructor(parts: AutoSaveParts) {
    this.#parts = parts;
  }

  /** @param hasRun - Whether the task has a run of this manager, which saves by itself. */
  start(taskId: string, getState: () => State | undefined, options: AutoSaveOptions, hasRun: boolean): AutoSave<State> {
    checkTaskId(taskId);
    if (this.#byTask.has(taskId))
      throw new TypeError(`Task ${JSON.stringify(taskId)} already has an auto-save; stop() that one first.`);
    if (hasRun) throw ownRunError(taskId);
    // If the lease was lost, `stop` calls this function again. By then, another auto-save may have taken this one's
    // place.
    const autoSave = new AutoSave(this.#parts, taskId, getState, options, () => {
      if (this.#byTask.get(taskId) === autoSave) this.#byTask.delete(taskId);
    });
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

  stopAll(): Promise<PromiseSettledResult<void>[]> {
    return Promise.allSettled([...this.#byTask.values()].map((autoSave) => autoSave.stop()));
  }
}
