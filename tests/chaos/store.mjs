// @ts-check
import { nowMs } from "./ledger.mjs";

/** @typedef {import("waymark").StorageAdapter} StorageAdapter */
/** @typedef {"postgres" | "sqlite" | "json-file"} StorageName */

/** @param {StorageName} name @param {string} place - A URL, or a path. @returns {Promise<StorageAdapter>} */
export async function openStorage(name, place) {
  if (name === "postgres") {
    const { PostgresAdapter } = await import("waymark/adapters/postgres");
    return new PostgresAdapter({ url: place });
  }
  if (name === "sqlite") {
    const { SqliteAdapter } = await import("waymark/adapters/sqlite");
    return new SqliteAdapter({ path: place });
  }
  const { JsonFileAdapter } = await import("waymark/adapters/json-file");
  return new JsonFileAdapter({ path: place });
}

/**
 * The storage, which notes each claim and each save under a lease.
 *
 * @param {StorageAdapter} storage
 * @param {(fact: import("./ledger.mjs").Noted) => void} note
 * @returns {StorageAdapter}
 */
export function observed(storage, note) {
  const { leases, queue } = storage;
  if (leases === undefined) throw new Error(`The ${storage.name} storage has no leases.`);
  /** When each draft was first sent: a repeated one may have been stored by then. @type {Map<string, number>} */
  const sent = new Map();
  return withMembers(storage, {
    leases: withMembers(leases, {
      async claim(...args) {
        const claim = await leases.claim(...args);
        if (claim.isGranted) note({ is: "claimed", task: args[0], token: claim.token });
        return claim;
      },
      async release(task, token) {
        await leases.release(task, token);
        note({ is: "released", task, token });
      },
    }),
    ...(queue && {
      queue: withMembers(queue, {
        async claimNext(...args) {
          const claimed = await queue.claimNext(...args);
          if (claimed !== undefined) note({ is: "claimed", task: claimed.taskId, token: claimed.token });
          return claimed;
        },
      }),
    }),
    async append(draft, condition, options) {
      const token = condition?.fencingToken;
      if (token === undefined) return storage.append(draft, condition, options);
      const sentAtMs = sent.get(draft.id) ?? nowMs();
      sent.set(draft.id, sentAtMs);
      const sequence = await storage.append(draft, condition, options);
      note({ is: "saved", task: draft.taskId, token, sequence, sentAtMs });
      sent.delete(draft.id);
      return sequence;
    },
  });
}

/**
 * The object with some members replaced. A proxy, because the methods of a class need their own `this`.
 *
 * @template {object} Of
 * @param {Of} object
 * @param {Partial<Of>} members
 * @returns {Of}
 */
function withMembers(object, members) {
  return new Proxy(object, {
    get(target, name) {
      if (Object.hasOwn(members, name)) return Reflect.get(members, name);
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
