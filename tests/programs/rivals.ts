// What others do with a task that has a runner.
import type { CheckpointManager, StorageAdapter } from "waymark";
import { errorCode } from "./error-code.js";

/** Takes the task's lease from its holder. */
export async function rob({ leases }: StorageAdapter, task: string): Promise<void> {
  const claim = await leases?.claim(task, "robber", 1000, { force: true });
  if (claim?.isGranted) await leases?.release(task, claim.token);
}

/**
 * Another runner asks for the lease, and doesn't get it.
 *
 * @param outside - Calls a function outside of the run whose write this is beside.
 */
export async function contest(
  outside: <Result>(call: () => Result) => Result,
  manager: CheckpointManager,
  task: string,
): Promise<readonly string[]> {
  // It gets the result of a completed run, which this one may be about to restart.
  if ((await manager.latest(task))?.status === "completed") return [];
  const end = await outside(() => manager.run(task, () => "ran")).catch(errorCode);
  return end === "LEASE_HELD" ? [] : [`Another runner of ${task} wasn't refused: ${end}`];
}

/** Whether a worker may take the task then. */
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
