import type { AppendCondition } from "../../src/contract/conditions.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { checkLease, type LeaseRecord, parseLease, type TimedLease } from "../../src/contract/leases.js";
import { monotonicMs } from "../../src/contract/runtime.js";
import type { SqliteConnection } from "./connection.js";

const LEASE = "SELECT holder, token, renewed_at_ms, expires_at_ms FROM waymark_leases WHERE task_id = ?";
const LEASES = `SELECT task_id, holder, token, renewed_at_ms, expires_at_ms FROM waymark_leases
  WHERE task_id > ? ORDER BY task_id LIMIT ?`;
const STORE_LEASE = "INSERT OR REPLACE INTO waymark_leases VALUES (?, ?, ?, ?, ?)";

/**
 * Reads a task's lease, in the caller's transaction if there is one. @throws {CheckpointCorruptError} The lease's row
 * is damaged.
 */
export function leaseIn(database: SqliteConnection, taskId: string): TimedLease {
  const nowMs = monotonicMs();
  const row = database.one(LEASE, taskId);
  const lease = row && toLease(row);
  if (row === undefined || lease !== undefined) return { lease, nowMs };
  throw new CheckpointCorruptError(
    `The lease of task ${JSON.stringify(taskId)} can't be read, because its row of waymark_leases is damaged. Nothing was changed.`,
  );
}

/** Returns at most `limit` leases of tasks whose ids come after `after`, without damaged rows. */
export function leasesAfter(
  database: SqliteConnection,
  after: string,
  limit: number,
): readonly (TimedLease & { readonly taskId: string })[] {
  const nowMs = monotonicMs();
  return database
    .all(LEASES, after, limit)
    .map(([taskId, ...row]) => ({ taskId: String(taskId), lease: toLease(row), nowMs }));
}

export function updateLease(
  database: SqliteConnection,
  taskId: string,
  change: (now: TimedLease) => LeaseRecord | undefined,
): void {
  database.atomically(() => {
    const lease = change(leaseIn(database, taskId));
    if (lease) storeLease(database, taskId, lease);
  });
}

export function storeLease(database: SqliteConnection, taskId: string, lease: LeaseRecord): void {
  database.run(STORE_LEASE, taskId, lease.holder, lease.token, lease.renewedAtMs, lease.expiresAtMs);
}

export function checkLeaseIn(database: SqliteConnection, taskId: string, condition: AppendCondition | undefined): void {
  if (condition?.fencingToken !== undefined) checkLease(taskId, leaseIn(database, taskId), condition);
}

export function toLease([holder, token, renewedAtMs, expiresAtMs]: readonly unknown[]): LeaseRecord | undefined {
  return parseLease({ holder, token, renewedAtMs, expiresAtMs });
}
