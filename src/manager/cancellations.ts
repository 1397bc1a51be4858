import type { StorageAdapter } from "../contract/adapter.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { RunCancelledError } from "../contract/errors.js";
import { isCancelled } from "../contract/transient.js";
import type { ResolvedOptions } from "./options.js";

/** The shortest pause between two checks, so that many changes of the task in a row cost only one check. */
const CHECK_MS = 20;

/** Returns the cancellation that the task's newest checkpoint records; `undefined` if it records none. */
export async function findCancellation(
  storage: StorageAdapter,
  taskId: string,
): Promise<RunCancelledError | undefined> {
  try {
    for await (const newest of storage.list({ taskId, order: "newest", limit: 1 })) {
      if (!isCorrupt(newest) && isCancelled(newest)) return new RunCancelledError(taskId, newest.error?.message ?? "");
    }
  } catch {
    // If the lease is lost, the caller reports the loss anyway. If it isn't lost, the next renewal checks again.
  }
  return undefined;
}

async function isHeld({ leases }: StorageAdapter, taskId: string, token: () => number): Promise<boolean> {
  try {
    return (await leases?.current(taskId))?.token === token();
  } catch {
    // The next renewal also meets the failure, and reports it.
    return false;
  }
}

/**
 * Calls `cancelled` soon after another process has cancelled the task, if the storage reports its changes. A
 * cancellation before this call may be missed, so the caller reads the task after the call.
 *
 * @param token - Returns the token of the task's lease.
 * @returns A function that ends the watch.
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
  /** The watch's first call only shows that the watch works. Its check waits for a pause; short runs end before. */
  let isFirst = true;
  let hasReturned = false;
  let hasEnded = false;
  const check = async () => {
    isDue = false;
    // A cancellation takes the lease first. Most changes don't, and reading a lease is faster than reading a
    // checkpoint.
    if (await isHeld(storage, taskId, token)) return;
    if ((await findCancellation(storage, taskId)) !== undefined && !hasEnded) cancelled();
  };
  const resume = () => {
    cancelPause = undefined;
    if (isDue) changed();
  };
  const changed = (isOwn = false) => {
    if (isOwn) return;
    // The watch works already, so no later change is missed.
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
  // If only one process uses the storage, cancellations come from this process, which then renews the lease at once.
  const endWatch = storage.capabilities.multiProcess ? storage.log?.watch?.(changed, taskId) : undefined;
  hasReturned = true;
  return () => {
    hasEnded = true;
    cancelPause?.();
    endWatch?.();
  };
}
