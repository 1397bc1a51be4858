import type { Tables } from "./tables.js";

const MS_LEFT = "ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000)";
/** The time when a lease of $3 milliseconds expires. */
const EXPIRES_AT = "clock_timestamp() + $3::float8 * interval '1 millisecond'";
/**
 * The end of a claim's statement. A repeated claim finds its own holder and writes the row again, so that a synchronous
 * standby also gets the row.
 */
const CLAIM = `ON CONFLICT (task_id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
          token = CASE WHEN leases.holder = excluded.holder THEN leases.token ELSE leases.token + 1 END
        WHERE leases.expires_at <= clock_timestamp() OR leases.holder = excluded.holder`;

/** The statements on a task's lease. A lease with `expires_at = 'epoch'` was released. */
export function makeLeaseStatements({ leases }: Tables) {
  const read = `SELECT holder, token, ${MS_LEFT} FROM ${leases} WHERE task_id = $1`;
  return {
    /** Claims the lease. $2 is the holder with the claim's id. $4 is true for a forced claim. */
    claim: `
        INSERT INTO ${leases} (task_id, holder, token, expires_at) VALUES ($1, $2, 1, ${EXPIRES_AT})
        ${CLAIM} OR $4 RETURNING token`,
    renew: `
        UPDATE ${leases} SET expires_at = ${EXPIRES_AT}
        WHERE task_id = $1 AND token = $2 AND expires_at > clock_timestamp()`,
    read,
    /** Prevents claims of the task until the transaction ends. */
    lock: `${read} FOR SHARE`,
    /** Reads the last lease if it expired without a release, and the time since it expired. */
    lapsed: `
        SELECT holder, token, ceil(extract(epoch FROM clock_timestamp() - expires_at) * 1000) FROM ${leases}
        WHERE task_id = $1 AND expires_at > 'epoch' AND expires_at <= clock_timestamp()`,
  };
}

/** The statements on the leases of all tasks, and on the tasks that are due for a worker. */
export function makeQueueStatements({ tasks, leases }: Tables) {
  /** The tasks whose last lease expired without a release. They are due regardless of their time. */
  const lapsed = `
        SELECT t.task_id, t.due_at FROM ${leases} l JOIN ${tasks} t ON t.task_id = l.task_id
        WHERE l.expires_at > 'epoch' AND l.expires_at <= statement_timestamp()
          AND l.task_id >= $1 AND l.task_id < $2 AND t.task_id <> ALL($4::text[]) AND t.due_at IS NOT NULL`;
  /** All other tasks that are due by $3. @param isReleased - Whether the task has no lease, or a released one. */
  const due = (isReleased: string) => `
        SELECT t.task_id, t.due_at FROM ${tasks} t
        WHERE t.due_at <= $3 AND t.task_id >= $1 AND t.task_id < $2 AND t.task_id <> ALL($4::text[]) AND ${isReleased}`;
  /** Looks up the lease of each task, which is fast for few tasks. */
  const isReleased = `coalesce((SELECT l.expires_at = 'epoch' FROM ${leases} l WHERE l.task_id = t.task_id), true)`;
  /** Reads all leases that weren't released, which is fast for many tasks. */
  const isNotUnreleased = `NOT EXISTS (SELECT FROM ${leases} l WHERE l.task_id = t.task_id AND l.expires_at > 'epoch')`;
  return {
    leasesHeld: `SELECT task_id, holder, token, ${MS_LEFT} FROM ${leases} WHERE expires_at > clock_timestamp()`,

    /** Releases the leases of the tasks $1 with the tokens $2. ANY makes the planner look up each lease by its key. */
    release: `
        UPDATE ${leases} l SET expires_at = 'epoch' WHERE l.task_id = ANY($1) AND EXISTS (
          SELECT FROM unnest($1::text[], $2::bigint[]) AS r (task_id, token)
          WHERE r.task_id = l.task_id AND r.token = l.token)`,

    /** Finds the first $5 due tasks. Tasks whose runner has died come first. */
    dueTasks: `
        SELECT task_id FROM (
          (SELECT 0 AS part, l.* FROM (${lapsed}) l ORDER BY due_at LIMIT $5) UNION ALL
          (SELECT 1 AS part, d.* FROM (${due(isReleased)}) d ORDER BY due_at, task_id LIMIT $5)
        ) found ORDER BY part, due_at, task_id LIMIT $5`,

    /**
     * Claims the first $5 of the tasks $1 that are still due by $4, have no lease, and whose rows no other transaction
     * has locked. $2 is the holder with the claim's id, by which a repeated claim finds its own leases, except those
     * that other workers have taken over.
     */
    claimDue: `
        WITH mine AS (
          UPDATE ${leases} SET expires_at = ${EXPIRES_AT} WHERE task_id = ANY($1) AND holder = $2 RETURNING task_id, token),
        free AS (
          SELECT t.task_id FROM unnest($1::text[]) AS i (task_id) CROSS JOIN LATERAL (
            SELECT task_id FROM ${tasks} t WHERE t.task_id = i.task_id AND t.due_at IS NOT NULL AND coalesce((
              SELECT l.expires_at <= clock_timestamp() AND (l.expires_at > 'epoch' OR t.due_at <= $4)
              FROM ${leases} l WHERE l.task_id = t.task_id), t.due_at <= $4)
            LIMIT 1 FOR UPDATE SKIP LOCKED) t
          WHERE NOT EXISTS (SELECT FROM mine) LIMIT $5),
        claimed AS (
          INSERT INTO ${leases} (task_id, holder, token, expires_at) SELECT task_id, $2, 1, ${EXPIRES_AT} FROM free
          ${CLAIM} RETURNING task_id, token)
        SELECT * FROM mine UNION ALL SELECT * FROM claimed`,

    countDue: `SELECT count(*), min(due_at) FROM (${lapsed} UNION ALL ${due(isNotUnreleased)}) found`,
  };
}
