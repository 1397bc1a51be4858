// Actions of others on a task that has a runner.
import type { CheckpointManager, StorageAdapter } from "waymark";
import { errorCode } from "./error-code.js";

/** Takes the task's lease from its holder. */
export async function rob({ leases }: StorageAdapter, task: string): Promise<void> {
  const claim = await leases?.claim(task, "robber", 1000, { force: true });
  if (claim?.isGranted) await leases?.release(task, claim.token);
}

/**
 * Lets another runner ask for the lease, which it must not get.
 *
 * @param outside - Calls a function outside the run that is writing.
 */
export async function contest(
  outside: <Result>(call: () => Result) => Result,
  manager: CheckpointManager,
  task: string,
): Promise<readonly string[]> {
  // If the run is completed, the other runner gets its result, although this life may be about to restart the run.
  if ((await manager.latest(task))?.status === "completed") return [];
  const end = await outside(() => manager.run(task, () => "ran")).catch(errorCode);
  return end === "LEASE_HELD" ? [] : [`Another runner of ${task} wasn't refused: ${end}`];
}

/** Enqueues or retries the task. Returns whether a worker may take it. */
export async function offerToWorkers(manager: CheckpointManager, task: string, input: unknown): Promise<boolean> {
  const newest = await manager.latest(task);
  if (newest?.status === "completed") return false;
  if (newest?.status === "failed") await manager.retry(task);
  else {
    const isNew = await (input === undefined ? manager.enqueue(task) : manager.enqueue(task, input));
    if (isNew !== (newest === undefined)) throw new Error(`Enqueueing ${task} again returned ${isNew}`);
  }
  return true;
}

export async function isCancelled(manager: CheckpointManager, task: string): Promise<boolean> {
  return (await manager.latest(task))?.error?.name === "RunCancelledError";
}
