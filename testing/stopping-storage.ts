import type { StorageAdapter } from "../src/contract/adapter.js";
import type { CheckpointDraft } from "../src/contract/checkpoint.js";

/** Where a rehearsal stops a run: before or after so many saves. */
export interface Stop {
  readonly save: number;
  readonly side: "before" | "after";
}

/** A storage that a run uses until it is stopped. */
export interface StoppingStorage {
  readonly storage: StorageAdapter;
  /** The checkpoints that were saved, or were about to be, in order. */
  readonly saves: readonly CheckpointDraft[];
  /** Resolves when the stop is reached. */
  readonly stopped: Promise<void>;
}

/**
 * The storage as a process sees it that is killed at a stop: the save never returns, so that nothing after it happens; no
 * `catch` or `finally` of the program runs, as none does after a kill.
 */
export function stoppingStorage(inner: StorageAdapter, stop?: Stop): StoppingStorage {
  const saves: CheckpointDraft[] = [];
  let reached: () => void = () => undefined;
  const stopped = new Promise<void>((resolve) => {
    reached = resolve;
  });
  let isStopped = false;
  const halt = () => {
    isStopped = true;
    reached();
    return new Promise<never>(() => undefined);
  };
  const append: StorageAdapter["append"] = async (draft, ...rest) => {
    if (isStopped) return halt();
    saves.push(draft);
    const isHere = stop?.save === saves.length;
    if (isHere && stop.side === "before") return halt();
    const sequence = await inner.append(draft, ...rest);
    return isHere || isStopped ? halt() : sequence;
  };
  const storage = new Proxy(inner, {
    get(target, key) {
      if (key === "append") return append;
      const member: unknown = Reflect.get(target, key);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  return { storage, saves, stopped };
}
