import type { ChannelVersions } from "@langchain/langgraph-checkpoint";

/** What a saver remembers of a checkpoint that it has read or written. */
export interface RecentCheckpoint {
  readonly versions: Readonly<ChannelVersions>;
  /** The id of the checkpoint that has a channel's value, by channel. */
  readonly holders: ReadonlyMap<string, string>;
  /** How many of its ancestors a DeltaChannel needs. */
  readonly ancestors: number;
  readonly stateVersion: number;
  /** Where the thread ended at that moment, if that is known. */
  readonly end: ThreadEnd | undefined;
}

/** Where a thread's records end. */
export interface ThreadEnd {
  /** Of the last record; 0 for none, `undefined` if it is damaged so that it can't be told. */
  readonly sequence: number | undefined;
  /** The highest checkpoint id; empty for none. */
  readonly highestId: string;
}

const MOST = 1000;

/** The checkpoints that a saver has read or written last: the next one is mostly put on top of one of them. */
export class RecentCheckpoints {
  readonly #byKey = new Map<string, RecentCheckpoint>();

  get(taskId: string, id: string): RecentCheckpoint | undefined {
    return this.#byKey.get(keyOf(taskId, id));
  }

  set(taskId: string, id: string, checkpoint: RecentCheckpoint): void {
    const key = keyOf(taskId, id);
    this.#byKey.delete(key);
    this.#byKey.set(key, checkpoint);
    const [oldest] = this.#byKey.keys();
    if (this.#byKey.size > MOST && oldest !== undefined) this.#byKey.delete(oldest);
  }

  /** Forgets a thread's. */
  delete(taskPrefix: string): void {
    for (const key of this.#byKey.keys()) if (key.startsWith(taskPrefix)) this.#byKey.delete(key);
  }
}

function keyOf(taskId: string, id: string): string {
  return `${taskId}\n${id}`;
}
