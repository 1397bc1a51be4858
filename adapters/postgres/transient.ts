import { brokenSeal, type SealedSummary, withStatus } from "../../src/contract/checkpoint.js";
import { isTransient } from "../../src/contract/transient.js";

/** A transient checkpoint that may be replaced while it has one of these seals. */
export interface Replaced {
  readonly sequence: number;
  readonly seals: readonly string[];
}

/** The most tasks that are remembered. A task that was forgotten costs a statement. */
const MAX_TASKS = 1000;

/**
 * The transient checkpoints that this adapter stored or read last, by task. The next append to the task can replace them
 * without reading them first. If another process has changed the status meanwhile, the checkpoint isn't replaced and stays.
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
    // If it is paused, it may be set to running, to wake its run.
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
