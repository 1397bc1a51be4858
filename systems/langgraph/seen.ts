import type { ChannelVersions } from "@langchain/langgraph-checkpoint";

/** What a saver remembers of a checkpoint that it has read or written. */
export interface SeenCheckpoint {
  readonly versions: Readonly<ChannelVersions>;
  /** The id of the checkpoint that has a channel's value, by channel. */
  readonly valuesIn: ReadonlyMap<string, string>;
  /** How many of its ancestors a DeltaChannel needs. */
  readonly history: number;
  readonly stateVersion: number;
  /** The thread's newest at that moment, if that is known. */
  readonly newest: Newest | undefined;
}

/** Where a thread's history ends. */
export interface Newest {
  /** 0 for none. */
  readonly sequence: number;
  /** The highest checkpoint id; empty for none. */
  readonly id: string;
}

const MOST = 1000;

/** What a saver has seen last of checkpoints: the next one is mostly put on top of one of them. */
export class Seen<Value> {
  readonly #byKey = new Map<string, Value>();

  get(taskId: string, id: string): Value | undefined {
    return this.#byKey.get(keyOf(taskId, id));
  }

  set(taskId: string, id: string, value: Value): void {
    const key = keyOf(taskId, id);
    this.#byKey.delete(key);
    this.#byKey.set(key, value);
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
