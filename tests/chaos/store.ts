import type { StorageAdapter } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { withMembers } from "../support/with-members.js";
import { nowMs, type Observation } from "./ledger.js";

export type StorageName = "postgres" | "sqlite" | "json-file";

/** A stopped process may hold a lock, which on a busy machine can take longer than a call waits by default. */
const LOCK_MS = 60_000;

/** @param place - A URL or a path. */
export function openStorage(name: StorageName, place: string): StorageAdapter {
  if (name === "postgres") return new PostgresAdapter({ url: place });
  if (name === "sqlite") return new SqliteAdapter({ path: place, busyTimeoutMs: LOCK_MS });
  return new JsonFileAdapter({ path: place, lockTimeoutMs: LOCK_MS });
}

/**
 * Wraps a storage so that it notes each claim, each release and each save under a lease.
 *
 * @param beforeSave - Called before each save under a lease is sent.
 */
export function observed(
  storage: StorageAdapter,
  note: (fact: Observation) => void,
  beforeSave: () => void,
): StorageAdapter {
  const { leases, queue } = storage;
  if (leases === undefined) throw new Error(`The ${storage.name} storage has no leases.`);
  /** The time when each draft was first sent. A repeated draft may have been stored at any time since then. */
  const sent = new Map<string, number>();
  const observedLeases = withMembers(leases, {
    async claim(...args) {
      const claim = await leases.claim(...args);
      if (claim.isGranted) note({ is: "claimed", task: args[0], token: claim.token });
      return claim;
    },
    async release(task, token) {
      await leases.release(task, token);
      note({ is: "released", task, token });
    },
  });
  const observedQueue =
    queue &&
    withMembers(queue, {
      async claimNext(...args) {
        const claimed = await queue.claimNext(...args);
        for (const { taskId, token } of claimed) note({ is: "claimed", task: taskId, token });
        return claimed;
      },
    });
  return withMembers(storage, {
    leases: observedLeases,
    ...(observedQueue && { queue: observedQueue }),
    async append(draft, condition, options) {
      const token = condition?.fencingToken;
      if (token === undefined) return storage.append(draft, condition, options);
      // The save is noted before it is sent, because its answer may be lost.
      note({ is: "saving", task: draft.taskId, id: draft.id, token });
      beforeSave();
      const sentAtMs = sent.get(draft.id) ?? nowMs();
      sent.set(draft.id, sentAtMs);
      const sequence = await storage.append(draft, condition, options);
      note({ is: "saved", task: draft.taskId, token, sequence, sentAtMs });
      sent.delete(draft.id);
      return sequence;
    },
  });
}
