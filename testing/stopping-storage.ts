import { AsyncLocalStorage } from "node:async_hooks";
import type { StorageAdapter } from "../src/contract/adapter.js";
import type { CheckpointDraft } from "../src/contract/checkpoint.js";
import type { LeaseStore } from "../src/contract/leases.js";
import type { RecordDraft, TaskLog } from "../src/contract/log.js";
import { withMembers } from "./with-members.js";

/** A write of a run: a checkpoint, or records of the log. */
export type RunWrite = CheckpointDraft | readonly RecordDraft[];

/** The place where a rehearsal stops a run: before or after a durable write. `save` is the write's number, from 1. */
export interface Stop {
  readonly save: number;
  readonly side: "before" | "after";
}

/** A storage whose writes never return once the run is stopped. */
export interface StoppingStorage {
  readonly storage: StorageAdapter;
  /** The durable writes in order, including the one at the stop. */
  readonly saves: readonly RunWrite[];
  /** Resolves when the run reaches the stop. */
  readonly stopped: Promise<void>;
  /** Releases the claimed leases, as if their process had died. */
  releaseLeases(): Promise<void>;
}

/** Holds the function to call when a save is cut off. */
const CUT_OFF = new AsyncLocalStorage<() => void>();

/** Resolves once `work` has settled, or once one of its saves is cut off, after which `work` can't settle. */
export function untilCutOff(work: () => Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    CUT_OFF.run(resolve, work).then(
      () => resolve(),
      () => resolve(),
    );
  });
}

/**
 * Imitates a kill at `stop`: the save at the stop and all later ones never return. As after a kill, no code after such
 * a save runs, not even a `catch` or `finally`.
 */
export function stoppingStorage(
  inner: StorageAdapter & { readonly leases: LeaseStore; readonly log: TaskLog },
  stop?: Stop,
): StoppingStorage {
  const saves: RunWrite[] = [];
  let reached: () => void = () => undefined;
  const stopped = new Promise<void>((resolve) => {
    reached = resolve;
  });
  let isStopped = false;
  const halt = () => {
    isStopped = true;
    reached();
    CUT_OFF.getStore()?.();
    return new Promise<never>(() => undefined);
  };
  const write = async (draft: RunWrite, call: () => Promise<number>): Promise<number> => {
    if (isStopped) return halt();
    saves.push(draft);
    const isHere = stop?.save === saves.length;
    if (isHere && stop.side === "before") return halt();
    const sequence = await call();
    return isHere || isStopped ? halt() : sequence;
  };
  const append: StorageAdapter["append"] = (draft, ...rest) => write(draft, () => inner.append(draft, ...rest));
  const appendRecords: TaskLog["append"] = async (taskId, records, condition, options) => {
    const call = () => inner.log.append(taskId, records, condition, options);
    // Lazy writes aren't stops: a kill right after a lazy write is the same as a kill before the next durable write.
    if (options?.lazy) return isStopped ? halt() : call();
    return write(records, call);
  };
  const claimed: { readonly taskId: string; readonly token: number }[] = [];
  const claim: LeaseStore["claim"] = async (taskId, ...rest) => {
    const claim = await inner.leases.claim(taskId, ...rest);
    if (claim.isGranted) claimed.push({ taskId, token: claim.token });
    return claim;
  };
  const leases = withMembers(inner.leases, { claim });
  return {
    storage: withMembers(inner, { append, leases, log: withMembers(inner.log, { append: appendRecords }) }),
    saves,
    stopped,
    async releaseLeases() {
      for (const { taskId, token } of claimed) await inner.leases.release(taskId, token);
    },
  };
}
