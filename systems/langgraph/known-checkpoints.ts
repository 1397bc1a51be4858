import type { ChannelVersions } from "@langchain/langgraph-checkpoint";
import type { SerializedState } from "./serialized-state.js";

/** A stored checkpoint with the values of its channels. Immutable. */
export interface WholeCheckpoint extends SerializedState {
  readonly id: string;
  readonly parentId: string | undefined;
  readonly versions: Readonly<ChannelVersions>;
  /** By channel: the id of the checkpoint that stores its value. */
  readonly holders: ReadonlyMap<string, string>;
  /** How many ancestors the checkpoint's DeltaChannels need. */
  readonly ancestors: number;
  /** The checkpoint's writes come after this sequence. */
  readonly writesAfter: number;
  readonly stateVersion: number;
}

/** Where a thread's checkpoints end. */
export interface ThreadEnd {
  /** The last one's sequence; 0 if there is none, `undefined` if damage hides it. */
  readonly sequence: number | undefined;
  /** The id of the checkpoint that was put last; empty if there is none. */
  readonly newestId: string;
  /** The highest checkpoint id, which `list` returns first; empty if there is none. */
  readonly highestId: string;
}

/** A checkpoint that a saver keeps in memory, because the next `put` may build on it. */
export interface KnownCheckpoint {
  /** The thread's end when this checkpoint was read or written. */
  readonly end: ThreadEnd;
  /**
   * `undefined` if the checkpoint wasn't found, or its thread was deleted. Values that other checkpoints store may be
   * missing.
   */
  readonly checkpoint: WholeCheckpoint | undefined;
}

/** The size limit of all kept checkpoints together, in characters and bytes. */
const MOST = 16 * 1024 * 1024;
/** The assumed size of a checkpoint without its values. */
const SIZE_OF_REST = 1000;

/**
 * The checkpoints that a saver has read or written last. Most puts build on one of them, and so does a thread's next
 * turn.
 */
export class KnownCheckpoints {
  /** By task, then by id; the most recently used are last. */
  readonly #byTask = new Map<string, Map<string, KnownCheckpoint>>();
  #size = 0;

  /** @param id - Empty for a thread without checkpoints. */
  get(taskId: string, id: string): KnownCheckpoint | undefined {
    return this.#byTask.get(taskId)?.get(id);
  }

  /** The most recently used checkpoint of the task. */
  last(taskId: string): KnownCheckpoint | undefined {
    return [...(this.#byTask.get(taskId)?.values() ?? [])].at(-1);
  }

  set(taskId: string, id: string, known: KnownCheckpoint): void {
    this.delete(taskId, id);
    const ofTask = this.#byTask.get(taskId) ?? new Map<string, KnownCheckpoint>();
    this.#byTask.delete(taskId);
    this.#byTask.set(taskId, ofTask.set(id, known));
    this.#size += measureSize(known);
    for (const [oldestTask, checkpoints] of this.#byTask) {
      for (const oldest of checkpoints.keys()) {
        if (this.#size <= MOST) return;
        this.delete(oldestTask, oldest);
      }
    }
  }

  delete(taskId: string, id: string): void {
    const ofTask = this.#byTask.get(taskId);
    const known = ofTask?.get(id);
    if (ofTask === undefined || known === undefined) return;
    this.#size -= measureSize(known);
    ofTask.delete(id);
    if (ofTask.size === 0) this.#byTask.delete(taskId);
  }

  /** Forgets a thread's checkpoints, but not where the thread ended, so that a run of a deleted thread is refused. */
  clear(taskPrefix: string): void {
    for (const [taskId, checkpoints] of [...this.#byTask]) {
      if (!taskId.startsWith(taskPrefix)) continue;
      for (const [id, { end }] of [...checkpoints]) this.set(taskId, id, { end, checkpoint: undefined });
    }
  }
}

function measureSize({ checkpoint: known }: KnownCheckpoint): number {
  if (known === undefined) return SIZE_OF_REST;
  const { checkpoint, metadata, values } = known;
  return [metadata, ...values.values()].reduce(
    (sum, value) => sum + ("text" in value ? value.text.length : value.bytes.length),
    SIZE_OF_REST + checkpoint.length,
  );
}
