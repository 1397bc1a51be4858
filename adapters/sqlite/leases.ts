import type { AppendCondition } from "../../src/contract/adapter.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { checkLease, type LeaseRecord, monotonicMs, type TimedLease } from "../../src/contract/leases.js";
import type { SqliteConnection } from "./connection.js";

const LEASE = "SELECT holder, token, renewed_at_ms, expires_at_ms FROM waymark_leases WHERE task_id = ?";
const STORE_LEASE = "INSERT OR REPLACE INTO waymark_leases VALUES (?, ?, ?, ?, ?)";

/** A task's lease, in the caller's transaction or by itself. @throws {CheckpointCorruptError} Its row makes no sense. */
export function leaseIn(database: SqliteConnection, taskId: string): TimedLease {
  const nowMs = monotonicMs();
  const row = database.one(LEASE, taskId);
  if (row === undefined) return { lease: undefined, nowMs };
  const [holder, token, renewedAtMs, expiresAtMs] = row;
  if (typeof holder === "string" && isTime(token) && isTime(renewedAtMs) && isTime(expiresAtMs)) {
    return { lease: { holder, token, renewedAtMs, expiresAtMs }, nowMs };
  }
  throw new CheckpointCorruptError(
    `The lease of task ${JSON.stringify(taskId)} can't be read: its row of waymark_leases is damaged. Nothing was changed.`,
  );
}

/** Stores what `change` makes of a task's lease, in one transaction. */
export function updateLease(
  database: SqliteConnection,
  taskId: string,
  change: (now: TimedLease) => LeaseRecord | undefined,
): void {
  database.atomically(() => {
    const lease = change(leaseIn(database, taskId));
    if (lease) database.run(STORE_LEASE, taskId, lease.holder, lease.token, lease.renewedAtMs, lease.expiresAtMs);
  });
}

/** @throws {LeaseLostError} See `checkLease`. */
export function checkLeaseIn(database: SqliteConnection, taskId: string, condition: AppendCondition | undefined): void {
  if (condition?.fencingToken !== undefined) checkLease(taskId, leaseIn(database, taskId), condition);
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value);
}
