import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { AppendCondition } from "../../src/contract/conditions.js";
import { checkLease, type LeaseRecord, parseLease, type TimedLease } from "../../src/contract/leases.js";
import { monotonicMs } from "../../src/contract/runtime.js";
import { decodeText, readFirstLine, SLICE, UnreadableError } from "./file-io.js";
import type { FolderLock } from "./lock.js";
import { attempt, parseObject } from "./record.js";
import { listTaskFolders } from "./task-scan.js";

/** The lease's file in a task's folder. Removing the task doesn't remove it, so that fencing tokens only grow. */
const LEASE_NAME = ".lease.json";

export function readLease(folder: string): TimedLease {
  return { lease: readLeaseFile(folder)?.lease, nowMs: monotonicMs() };
}

export async function* readLeases(root: string): AsyncGenerator<TimedLease & { readonly taskId: string }, void, void> {
  for (const [index, { path, taskId }] of listTaskFolders(root).entries()) {
    const file = attempt(() => readLeaseFile(path));
    if (file !== undefined && !(file instanceof UnreadableError)) {
      // The file contains the id, because the folder of a long id is named by a hash.
      const leased = taskId ?? file.taskId;
      if (leased !== undefined) yield { taskId: leased, lease: file.lease, nowMs: monotonicMs() };
    }
    if (index % SLICE === SLICE - 1) await setImmediate();
  }
}

/** Stores a lease, and frees the folder's lock. */
export async function writeLease(folder: string, taskId: string, lease: LeaseRecord, lock: FolderLock): Promise<void> {
  await lock.writeLast(join(folder, LEASE_NAME), Buffer.from(`${JSON.stringify({ taskId, ...lease })}\n`));
}

export function requireLease(folder: string, taskId: string, condition: AppendCondition | undefined): void {
  if (condition?.fencingToken !== undefined) checkLease(taskId, readLease(folder), condition);
}

function readLeaseFile(
  folder: string,
): { readonly lease: LeaseRecord; readonly taskId: string | undefined } | undefined {
  const stored = readFirstLine(join(folder, LEASE_NAME));
  if (stored === undefined) return undefined;
  const { taskId, ...fields }: Readonly<Partial<Record<"taskId" | keyof LeaseRecord, unknown>>> = parseObject(
    decodeText(stored.bytes),
  );
  const lease = parseLease(fields);
  if (lease === undefined) throw new UnreadableError(`${LEASE_NAME} doesn't hold a lease`);
  return { lease, taskId: typeof taskId === "string" ? taskId : undefined };
}
