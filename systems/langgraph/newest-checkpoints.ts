import type { RecentCheckpoint, ThreadEnd } from "./recent-checkpoints.js";
import type { SerializedState } from "./serialized-state.js";

/** A checkpoint with the values of all its channels, as they are stored. Nothing in it changes. */
export interface WholeCheckpoint extends SerializedState {
  readonly id: string;
  readonly parentId: string | undefined;
  readonly recent: Omit<RecentCheckpoint, "end">;
}

/** In all, in characters and bytes. */
const MOST = 16 * 1024 * 1024;

/** The newest checkpoints of the threads that a saver worked with last: the next turn begins with one of them. */
export class NewestCheckpoints {
  readonly #byTask = new Map<string, { readonly whole: WholeCheckpoint; readonly end: ThreadEnd }>();
  #size = 0;

  /** @param end - The thread's end as it is now: with any other one, the newest checkpoint isn't known. */
  get(taskId: string, end: ThreadEnd): WholeCheckpoint | undefined {
    const found = this.#byTask.get(taskId);
    const isCurrent = found?.end.sequence === end.sequence && found?.whole.id === end.highestId;
    return isCurrent ? found?.whole : undefined;
  }

  /** The one that was the newest when it was read or written. */
  last(taskId: string): WholeCheckpoint | undefined {
    return this.#byTask.get(taskId)?.whole;
  }

  set(taskId: string, whole: WholeCheckpoint, end: ThreadEnd): void {
    this.remove(taskId);
    this.#byTask.set(taskId, { whole, end });
    this.#size += sizeOf(whole);
    for (const oldest of this.#byTask.keys()) {
      if (this.#size <= MOST) return;
      this.remove(oldest);
    }
  }

  /** Forgets a thread's. */
  delete(taskPrefix: string): void {
    for (const taskId of this.#byTask.keys()) if (taskId.startsWith(taskPrefix)) this.remove(taskId);
  }

  remove(taskId: string): void {
    const found = this.#byTask.get(taskId);
    if (found === undefined) return;
    this.#byTask.delete(taskId);
    this.#size -= sizeOf(found.whole);
  }
}

function sizeOf({ checkpoint, metadata, values }: WholeCheckpoint): number {
  return [metadata, ...values.values()].reduce(
    (sum, value) => sum + ("text" in value ? value.text.length : value.bytes.length),
    checkpoint.length,
  );
}
