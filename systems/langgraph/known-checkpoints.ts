import type { ChannelVersions } from "@langchain/langgraph-checkpoint";
import type { SerializedState } from "./serialized-state.js";

/** A checkpoint as it is stored, with the values of its channels. Nothing in it changes. */
export interface WholeCheckpoint extends SerializedState {
  readonly id: string;
  readonly parentId: string | undefined;
  readonly versions: Readonly<ChannelVersions>;
  /** The id of the checkpoint that has a channel's value, by channel. */
  readonly holders: ReadonlyMap<string, string>;
  /** How many of its ancestors a DeltaChannel needs. */
  readonly ancestors: number;
  readonly stateVersion: number;
}

/** Where a thread's records end. */
export interface ThreadEnd {
  /** The sequence of the last record; 0 for none, `undefined` if damage hides it. */
  readonly sequence: number | undefined;
  /** The id of the checkpoint that was put last; empty for none. */
  readonly newestId: string;
  /** The highest checkpoint id, which lists begin with; empty for none. */
  readonly highestId: string;
}

/** A checkpoint as a saver keeps it in memory, since another one may be put on top of it. */
export interface KnownCheckpoint {
  /** Where the thread ended when this was read or written. */
  readonly end: ThreadEnd;
  /** `undefined` if it wasn't there, or its thread was deleted. Values that other checkpoints have may be missing. */
  readonly checkpoint: WholeCheckpoint | undefined;
}

/** The most that all of them may take, in characters and bytes. */
const MOST = 16 * 1024 * 1024;
/** The size of one checkpoint without its values. */
const SIZE_OF_REST = 1000;

/**
 * The checkpoints that a saver has read or written last: the next one is mostly put on top of one of them, and the next turn
 * begins with one.
 */
export class KnownCheckpoints {
  /** By task, then by id; those used last come last. */
  readonly #byTask = new Map<string, Map<string, KnownCheckpoint>>();
  #size = 0;

  /** @param id - Empty for a thread without checkpoints. */
  get(taskId: string, id: string): KnownCheckpoint | undefined {
    return this.#byTask.get(taskId)?.get(id);
  }

  /** The task's last one. */
  last(taskId: string): KnownCheckpoint | undefined {
    return [...(this.#byTask.get(taskId)?.values() ?? [])].at(-1);
  }

  set(taskId: string, id: string, known: KnownCheckpoint): void {
    this.delete(taskId, id);
    const ofTask = this.#byTask.get(taskId) ?? new Map<string, KnownCheckpoint>();
    this.#byTask.delete(taskId);
    this.#byTask.set(taskId, ofTask.set(id, known));
    this.#size += sizeOf(known);
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
    this.#size -= sizeOf(known);
    ofTask.delete(id);
    if (ofTask.size === 0) this.#byTask.delete(taskId);
  }

  /** Forgets what was in a thread, but not where it ended: by that, a run of the deleted thread is refused. */
  clear(taskPrefix: string): void {
    for (const [taskId, checkpoints] of [...this.#byTask]) {
      if (!taskId.startsWith(taskPrefix)) continue;
      for (const [id, { end }] of [...checkpoints]) this.set(taskId, id, { end, checkpoint: undefined });
    }
  }
}

function sizeOf({ checkpoint: known }: KnownCheckpoint): number {
  if (known === undefined) return SIZE_OF_REST;
  const { checkpoint, metadata, values } = known;
  return [metadata, ...values.values()].reduce(
    (sum, value) => sum + ("text" in value ? value.text.length : value.bytes.length),
    SIZE_OF_REST + checkpoint.length,
  );
}
