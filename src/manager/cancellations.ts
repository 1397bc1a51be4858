import type { StorageAdapter } from "../contract/adapter.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { RunCancelledError } from "../contract/errors.js";
import { isCancelled } from "../contract/transient.js";
import type { ResolvedOptions } from "./options.js";

/** The shortest pause between two checks, so that many changes of the task in a row cost one. */
const CHECK_MS = 20;

/** The cancellation at the task's newest checkpoint, if there is one. */
export async function findCancellation(
  storage: StorageAdapter,
  taskId: string,
): Promise<RunCancelledError | undefined> {
  try {
    for await (const newest of storage.list({ taskId, order: "newest", limit: 1 })) {
      if (!isCorrupt(newest) && isCancelled(newest)) return new RunCancelledError(taskId, newest.error?.message ?? "");
    }
  } catch {
    // The lease is lost whatever the reason, so the caller reports the loss. Without a loss, the next renewal asks again.
  }
  return undefined;
}

async function isHeld({ leases }: StorageAdapter, taskId: string, token: () => number): Promise<boolean> {
  try {
    return (await leases?.current(taskId))?.token === token();
  } catch {
    // The next renewal meets the failure, too, and reports it.
    return false;
  }
}

/**
 * Calls `cancelled` soon after another process has cancelled the task, if the storage tells of its changes. It may miss a
 * cancellation before the call, so the caller reads the task after it.
 *
 * @param token - Returns the token of the task's lease.
 * @returns Ends the watch.
 */
export function watchCancellation(
  { storage, runtime }: Pick<ResolvedOptions, "storage" | "runtime">,
  taskId: string,
  token: () => number,
  cancelled: () => void,
): () => void {
  let cancelPause: (() => void) | undefined;
  /** Whether to check after the pause. */
  let isDue = false;
  /** The first call says that the watch works. It isn't urgent, and short runs end before. */
  let isFirst = true;
  let hasReturned = false;
  let hasEnded = false;
  const check = async () => {
    isDue = false;
    // A cancellation takes the lease first. Most changes don't, and a lease is read sooner than a checkpoint.
    if (await isHeld(storage, taskId, token)) return;
    if ((await findCancellation(storage, taskId)) !== undefined && !hasEnded) cancelled();
  };
  const resume = () => {
    cancelPause = undefined;
    if (isDue) changed();
  };
  const changed = (isOwn = false) => {
    if (isOwn) return;
    // It works already, so nothing is missed from now on.
    if (!hasReturned) {
      isFirst = false;
      return;
    }
    isDue = true;
    if (cancelPause !== undefined) return;
    cancelPause = runtime.setTimeout(resume, CHECK_MS, true);
    if (!isFirst) void check();
    isFirst = false;
  };
  // The cancellations of a storage of one process come from it, and it renews the lease at once.
  const endWatch = storage.capabilities.multiProcess ? storage.log?.watch?.(changed, taskId) : undefined;
  hasReturned = true;
  return () => {
    hasEnded = true;
    cancelPause?.();
    endWatch?.();
  };
}
