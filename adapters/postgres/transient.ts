import { brokenSeal, type SealedSummary, withStatus } from "../../src/contract/checkpoint.js";
import { isTransient } from "../../src/contract/transient.js";

/** A transient checkpoint that may be replaced while it has one of these seals. */
export interface Replaced {
  readonly sequence: number;
  readonly seals: readonly string[];
}

/** How many tasks the cache holds. A task that isn't in the cache costs a statement. */
const MAX_TASKS = 1000;

/**
 * Caches each task's transient checkpoint that this adapter stored or read last, so that the next append can replace it
 * without reading it first. A checkpoint whose status another process has changed in the meantime isn't replaced.
 */
export class TransientCheckpoints {
  readonly #byTask = new Map<string, Replaced & Pick<SealedSummary, "id">>();

  find(taskId: string, id: string): Replaced | undefined {
    const known = this.#byTask.get(taskId);
    return known?.id === id ? known : undefined;
  }

  /** Notes the task's newest checkpoint. */
  note(newest: SealedSummary): void {
    const { taskId, id, sequence, status, seal } = newest;
    this.#byTask.delete(taskId);
    if (!isTransient(newest)) return;
    // A paused checkpoint may be set to running to wake its run, so the seal of that status also counts.
    const mayWake = status === "paused" && brokenSeal(newest) === undefined;
    const woken = mayWake ? [withStatus(newest, { status: "running" }).seal] : [];
    this.#byTask.set(taskId, { id, sequence, seals: [seal, ...woken] });
    const [oldest] = this.#byTask.keys();
    if (oldest !== undefined && this.#byTask.size > MAX_TASKS) this.#byTask.delete(oldest);
  }

  forget(taskId: string): void {
    this.#byTask.delete(taskId);
  }
}
