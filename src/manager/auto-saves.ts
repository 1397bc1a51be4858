import { AutoSave, type AutoSaveHost, type AutoSaveOptions, runSavesItself } from "./auto-save.js";

/** The auto-saves of one manager: at most one per task. */
export class AutoSaves<State> {
  readonly #host: AutoSaveHost & { hasRun(taskId: string): boolean };
  readonly #byTask = new Map<string, AutoSave<State>>();

  constructor(host: AutoSaveHost & { hasRun(taskId: string): boolean }) {
    this.#host = host;
  }

  start(taskId: string, getState: () => State | undefined, options: AutoSaveOptions): AutoSave<State> {
    if (this.#byTask.has(taskId))
      throw new TypeError(`Task ${JSON.stringify(taskId)} already has an auto-save; stop() that one first.`);
    if (this.#host.hasRun(taskId)) throw runSavesItself(taskId);
    const autoSave = new AutoSave(this.#host, taskId, getState, options, () => this.#byTask.delete(taskId));
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
