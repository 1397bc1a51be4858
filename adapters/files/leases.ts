import { join } from "node:path";
import type { AppendCondition } from "../../src/contract/adapter.js";
import { checkLease, type LeaseRecord, monotonicMs, type TimedLease } from "../../src/contract/leases.js";
import { decodeText, readStored, UnreadableError } from "./file-io.js";
import type { FolderLock } from "./lock.js";
import { parseObject } from "./record.js";

/** In a task's folder. It stays there when the task is removed, so that tokens only grow. */
const LEASE_NAME = ".lease.json";

/** What a task's folder says of its lease. @throws {UnreadableError} It is damaged. */
export function leaseIn(folder: string): TimedLease {
  const bytes = readStored(join(folder, LEASE_NAME));
  return { lease: bytes && parseLease(decodeText(bytes)), nowMs: monotonicMs() };
}

/** Stores what `change` makes of a folder's lease, under the folder's lock, which is free then. */
export async function updateLease(
  folder: string,
  lock: FolderLock,
  change: (now: TimedLease) => LeaseRecord | undefined,
): Promise<void> {
  const lease = change(leaseIn(folder));
  if (lease) await lock.writeLast(join(folder, LEASE_NAME), Buffer.from(`${JSON.stringify(lease)}\n`));
}

/** @throws {LeaseLostError} See `checkLease`. */
export function checkLeaseIn(folder: string, taskId: string, condition: AppendCondition | undefined): void {
  if (condition?.fencingToken !== undefined) checkLease(taskId, leaseIn(folder), condition);
}

function parseLease(text: string): LeaseRecord {
  const { holder, token, renewedAtMs, expiresAtMs } = parseObject(text) as Readonly<Record<string, unknown>>;
  if (typeof holder === "string" && isWhole(token) && isWhole(renewedAtMs) && isWhole(expiresAtMs)) {
    return { holder, token, renewedAtMs, expiresAtMs };
  }
  throw new UnreadableError(`${LEASE_NAME} holds no lease`);
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}
