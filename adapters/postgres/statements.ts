import { FORM, WHOLE_FORMS } from "../sql/history.js";
import { COLUMNS } from "../sql/rows.js";
import { LAST_TEXT_ID_BYTES } from "./columns.js";
import { quoted } from "./schema.js";

export const DRAFT_COLUMNS = COLUMNS.slice(1, -1);
const NUMBERED: readonly string[] = ["state_version", "size_bytes"];
/** The highest safe integer, and the highest sequence of a task. */
const HIGHEST_SEQUENCE = "9007199254740991";

/**
 * Makes the value of the column `last_text` from the digests of a text and of its checkpoint's id (see
 * `PostgresHistories`).
 */
function lastTextOf(sha256: string, idDigest: string): string {
  return `decode(${sha256}, 'hex') || substring(${idDigest} FOR ${LAST_TEXT_ID_BYTES})`;
}

/** Makes the seal from the text before the sequence and the text after it (see `sealedParts`). */
function sealOf(before: string, after: string, sequence = "sequence"): string {
  return `encode(sha256(convert_to(${before} || ${sequence} || ${after}, 'UTF8')), 'hex')`;
}

/**
 * All statements on a schema's tables. Each names the task's id, except the statements across tasks. So a database that
 * distributes tables by this id asks only one machine.
 */
export function statementsOn(schema: string) {
  const table = (name: string) => `${quoted(schema)}.${name}`;
  const [tasks, checkpoints, pieces] = [table("tasks"), table("checkpoints"), table("pieces")];
  const [leases, quarantine] = [table("leases"), table("quarantine")];
  const columns = COLUMNS.map((name) => `c.${name}`).join(", ");
  const names = COLUMNS.join(", ");
  const inOrder = (order: "ASC" | "DESC") =>
    `WHERE c.task_id = $1 AND c.sequence BETWEEN $2 AND $3 ORDER BY c.sequence ${order}`;
  const inRange = (order: "ASC" | "DESC") => `${inOrder(order)} LIMIT $4 OFFSET $5`;
  const WHOLE = `form IN (${WHOLE_FORMS.join()})`;
  /**
   * The pieces that are needed for the text of a sequence: from the last whole text up to the piece that contains it.
   */
  const piecesOf = (sequence: string) => `(
      SELECT string_agg(int8send(p.number) || int4send(p.form) || int4send(length(p.body)) || p.body, '' ORDER BY p.number)
      FROM ${pieces} p WHERE p.task_id = $1
        AND p.number >= (SELECT max(number) FROM ${pieces} WHERE task_id = $1 AND ${WHOLE} AND number <= ${sequence})
        AND p.number <= (SELECT min(number) FROM ${pieces} WHERE task_id = $1 AND number >= ${sequence}))`;
  const LAST_PIECE = `(SELECT max(number) FROM ${pieces} WHERE task_id = $1)`;
  const itsPieces = piecesOf("c.sequence");
  const whole = `c.is_text, c.body, CASE WHEN c.body IS NULL THEN ${itsPieces} END`;
  /** $4 is the digest of a text that the caller already has, and that isn't returned again. */
  const wholeOrKnown = `c.is_text, c.body, CASE WHEN c.body IS NULL AND c.sha256 <> $4 THEN ${itsPieces} END`;
  /**
   * If a row doesn't match the stage $6 and the statuses $7, it comes without its body, and doesn't count towards $8,
   * the page's budget of bytes.
   */
  const page = (order: "ASC" | "DESC") => `
    SELECT ${columns}, c.is_text, CASE WHEN c.weight > 0 THEN c.body END,
      CASE WHEN c.weight > 0 AND c.body IS NULL THEN ${itsPieces} END, c.weight
    FROM (SELECT r.*, sum(r.weight) OVER (ORDER BY r.sequence ${order}) - r.weight AS before FROM (
      SELECT c.*, CASE WHEN ($6::text IS NULL OR c.stage = $6) AND c.status = ANY($7) THEN greatest(c.size_bytes, 1)
        ELSE 0 END AS weight FROM ${checkpoints} c ${inRange(order)}) r) c
    WHERE c.before < $8 ORDER BY c.sequence ${order}`;
  /** This makes one query per status, since the index is in order only within a status. */
  const byRecency = (range: string) => `
    SELECT t.task_id FROM unnest($1::text[]) AS s (status) CROSS JOIN LATERAL (
      SELECT task_id, newest_created_at FROM ${tasks} WHERE newest_status = s.status ${range}
      ORDER BY newest_created_at DESC, task_id LIMIT $2::bigint + $3::bigint) t
    ORDER BY t.newest_created_at DESC, t.task_id LIMIT $2 OFFSET $3`;
  const lease = `
    SELECT holder, token, ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000) FROM ${leases} WHERE task_id = $1`;
  /**
   * The whole append. First it updates the task's row, or inserts a new one. If another transaction has locked the row,
   * it waits, and then sees the row as that transaction left it. Then it inserts the checkpoint. If the payload belongs
   * to a history ($21 > 0), its body becomes a piece. It can't see other changes made during the wait. After such a
   * change it returns no row or fails because a key is taken, and the caller looks again.
   *
   * $21 is the form. $22 is the last text that the task must have: `''` for none, NULL for any. $23 is when the task is
   * due: a running task keeps an earlier time (see `nextDueAt`). $24 and $25 are the sequence and seal of the checkpoint
   * to replace, if there is one. If there is, the task's row is locked first, as by every statement that changes a
   * checkpoint.
   */
  const append = (fence: string, isFenced: string, isReplacing = false) => {
    const ownText = lastTextOf("$16", "$4::bytea");
    const doomed = isReplacing
      ? `held AS (SELECT FROM ${tasks} WHERE task_id = $1 FOR UPDATE),
      doomed AS (
        SELECT sequence FROM ${checkpoints}
        WHERE task_id = $1 AND sequence = $24 AND seal = ANY(string_to_array($25, ' ')) AND EXISTS (SELECT FROM held)
        FOR UPDATE),`
      : "";
    const removed = isReplacing ? "- (SELECT count(*) FROM doomed)" : "";
    const removal = (position: string) =>
      isReplacing
        ? `, replaced AS (
        DELETE FROM ${checkpoints} WHERE task_id = $1 AND sequence = (SELECT sequence FROM doomed)
          AND EXISTS (SELECT FROM ${position}))`
        : "";
    const advanced = `advanced AS (
        UPDATE ${tasks} t SET count = t.count + 1 ${removed}, newest_created_at = $6, newest_status = $11,
          due_at = CASE WHEN $11 = 'running' AND t.due_at <= $23 THEN t.due_at ELSE $23::text END,
          last_text = CASE WHEN $21 > 0 THEN ${ownText} ELSE t.last_text END,
          last_sequence = coalesce($20, t.last_sequence + 1), newest_sequence = coalesce($20, t.last_sequence + 1)
        WHERE t.task_id = $1 ${isFenced} AND ($19::bigint IS NULL OR $19 = coalesce(t.newest_sequence, 0))
          AND coalesce($20::bigint > t.last_sequence, t.last_sequence < ${HIGHEST_SEQUENCE})
          AND coalesce($22::bytea = coalesce(t.last_text, ''), true)
        RETURNING t.last_sequence AS sequence
      )`;
    const begun = `begun AS (
        INSERT INTO ${tasks}
          (task_id, count, newest_created_at, newest_status, due_at, last_sequence, newest_sequence, last_text)
        SELECT $1, 1, $6, $11, $23::text, coalesce($20, 1), coalesce($20, 1), CASE WHEN $21 > 0 THEN ${ownText} END
        WHERE NOT EXISTS (SELECT FROM advanced) ${isFenced} AND coalesce($19, 0) = 0 AND coalesce($22 = '', true)
        ON CONFLICT DO NOTHING RETURNING last_sequence AS sequence
      )`;
    const storedAt = (position: string) => `, kept AS (
        INSERT INTO ${pieces} (task_id, number, form, body)
        SELECT $1, sequence, $21::int, $3::bytea FROM ${position} WHERE $21 > 0)${removal(position)}
      INSERT INTO ${checkpoints} (task_id, is_text, body, id_digest, ${names})
      SELECT $1, $2::boolean, CASE WHEN $21 = 0 THEN $3 END, $4::bytea, sequence, $5, $6, $7, $8, $9, $10, $11, $12,
        $13::bigint, $14::bigint, $15, $16, ${sealOf("$17::text", "$18::text")} FROM ${position}
      RETURNING sequence, seal`;
    return {
      first: `
      WITH ${fence} ${doomed} ${advanced}, ${begun},
      given AS (SELECT sequence FROM advanced UNION ALL SELECT sequence FROM begun) ${storedAt("given")}`,
      /** For a payload that builds on the task's last text. The task then has a row, so none is inserted. */
      next: `
      WITH ${fence} ${doomed} ${advanced} ${storedAt("advanced")}`,
    };
  };
  /**
   * Appends to many tasks, without waiting for other transactions. If a task's row is locked or its condition doesn't
   * hold, its append returns no row, and the caller makes this append by itself. So no two processes wait for each
   * other. (One may wait for another to insert the rows of new tasks, but all insert them in the order of their ids.)
   *
   * $1 has the rows without their bodies, and $2 all bodies, one after another. LIMIT, ANY and a subselect make the
   * planner look up each task by its key, whatever table sizes it assumes.
   */
  const appendMany = (fence: string, isFenced: string, isReplacing = false) => `
      WITH input AS (
        SELECT * FROM json_to_recordset($1::json) AS i (task_id text, is_text boolean, start int, length int,
          id_digest text, ${DRAFT_COLUMNS.map((name) => `${name} ${NUMBERED.includes(name) ? "bigint" : "text"}`).join(", ")},
          before text, after text, expected bigint, token bigint, form int, last_text text, due_at text, replaced bigint, replaced_seal text)
      ), ${fence} locked AS (
        SELECT i.*, t.last_sequence + 1 AS sequence FROM input i CROSS JOIN LATERAL (
          SELECT last_sequence FROM ${tasks} t
          WHERE t.task_id = i.task_id AND t.last_sequence < ${HIGHEST_SEQUENCE}
            AND coalesce(i.expected = coalesce(t.newest_sequence, 0), true) ${isFenced}
            AND coalesce(decode(i.last_text, 'hex') = coalesce(t.last_text, ''), true)
          LIMIT 1 FOR UPDATE SKIP LOCKED) t
      ), ${
        isReplacing
          ? `doomed AS (
        SELECT l.task_id, c.sequence FROM locked l CROSS JOIN LATERAL (
          SELECT sequence FROM ${checkpoints} c
          WHERE c.task_id = l.task_id AND c.sequence = l.replaced AND c.seal = ANY(string_to_array(l.replaced_seal, ' ')) LIMIT 1 FOR UPDATE) c
      ), replaced AS (
        DELETE FROM ${checkpoints} c WHERE c.task_id = ANY (ARRAY(SELECT task_id FROM doomed))
          AND c.sequence = ANY (ARRAY(SELECT sequence FROM doomed))
          AND EXISTS (SELECT FROM doomed d WHERE d.task_id = c.task_id AND d.sequence = c.sequence)
      ),`
          : ""
      } advanced AS (
        UPDATE ${tasks} t SET count = t.count + 1${
          isReplacing ? " - (SELECT count(*) FROM doomed d WHERE d.task_id = t.task_id)" : ""
        }, newest_created_at = l.created_at, newest_status = l.status,
          due_at = CASE WHEN l.status = 'running' AND t.due_at <= l.due_at THEN t.due_at ELSE l.due_at END,
          last_sequence = l.sequence, newest_sequence = l.sequence,
          last_text = CASE WHEN l.form > 0 THEN ${lastTextOf("l.sha256", "decode(l.id_digest, 'hex')")} ELSE t.last_text END
        FROM locked l WHERE t.task_id = l.task_id AND t.task_id = ANY (ARRAY(SELECT task_id FROM locked))
        RETURNING t.task_id, t.last_sequence
      ), begun AS (
        INSERT INTO ${tasks}
          (task_id, count, newest_created_at, newest_status, due_at, last_sequence, newest_sequence, last_text)
        SELECT i.task_id, 1, i.created_at, i.status, i.due_at, 1, 1, CASE WHEN i.form > 0 THEN ${lastTextOf("i.sha256", "decode(i.id_digest, 'hex')")} END
        FROM input i
        WHERE coalesce(i.expected, 0) = 0 AND coalesce(i.last_text, '') = '' ${isFenced}
          AND (SELECT count FROM ${tasks} t WHERE t.task_id = i.task_id) IS NULL
        ORDER BY i.task_id ON CONFLICT DO NOTHING RETURNING task_id, last_sequence
      ), given AS (
        SELECT task_id, last_sequence AS sequence FROM advanced UNION ALL SELECT task_id, last_sequence FROM begun
      ), kept AS (
        INSERT INTO ${pieces} (task_id, number, form, body)
        SELECT i.task_id, g.sequence, i.form, substring($2::bytea FROM i.start FOR i.length)
        FROM given g JOIN input i ON i.task_id = g.task_id WHERE i.form > 0)
      INSERT INTO ${checkpoints} (task_id, is_text, body, id_digest, ${names})
      SELECT i.task_id, i.is_text, CASE WHEN i.form = 0 THEN substring($2::bytea FROM i.start FOR i.length) END, decode(i.id_digest, 'hex'), g.sequence,
        ${DRAFT_COLUMNS.map((name) => `i.${name}`).join(", ")}, ${sealOf("i.before", "i.after", "g.sequence")}
      FROM given g JOIN input i ON i.task_id = g.task_id
      RETURNING task_id, sequence, seal`;

  const fenceOf = (token: string) =>
    `fence AS (SELECT FROM ${leases} WHERE task_id = $1 AND token = ${token} AND expires_at > clock_timestamp() FOR SHARE),`;
  const fences = [
    `fence AS (SELECT l.task_id FROM ${leases} l JOIN input i ON l.task_id = i.task_id AND l.token = i.token
          WHERE l.expires_at > clock_timestamp() FOR SHARE OF l SKIP LOCKED),`,
    "AND (i.token IS NULL OR EXISTS (SELECT FROM fence f WHERE f.task_id = i.task_id))",
  ] as const;

  /** Of a task's row that was changed: `due_at`, and the columns that decide it (see `nextDueAtIn`). */
  const dueColumns = `t.due_at, t.newest_created_at, t.newest_status,
        (SELECT metadata FROM ${checkpoints} c WHERE c.task_id = $1 AND c.sequence = t.newest_sequence)`;
  /**
   * The end of a claim. A repeated claim finds its own holder, and writes its row again, so that a synchronous standby
   * has the row too.
   */
  const CLAIM = `ON CONFLICT (task_id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
          token = CASE WHEN leases.holder = excluded.holder THEN leases.token ELSE leases.token + 1 END
        WHERE leases.expires_at <= clock_timestamp() OR leases.holder = excluded.holder`;
  /** The tasks whose last lease ended without a release. They are due whatever their time. */
  const lapsed = `
        SELECT t.task_id, t.due_at FROM ${leases} l JOIN ${tasks} t ON t.task_id = l.task_id
        WHERE l.expires_at > 'epoch' AND l.expires_at <= statement_timestamp()
          AND l.task_id >= $1 AND l.task_id < $2 AND t.task_id <> ALL($4::text[]) AND t.due_at IS NOT NULL`;
  /** All other tasks that are due by $3. @param isReleased - Whether the task has no lease, or a released one. */
  const due = (isReleased: string) => `
        SELECT t.task_id, t.due_at FROM ${tasks} t
        WHERE t.due_at <= $3 AND t.task_id >= $1 AND t.task_id < $2 AND t.task_id <> ALL($4::text[]) AND ${isReleased}`;
  /** Looks up the lease of each task. For few tasks. */
  const isReleased = `coalesce((SELECT l.expires_at = 'epoch' FROM ${leases} l WHERE l.task_id = t.task_id), true)`;
  /** Reads all leases that weren't released. For many tasks. */
  const isNotUnreleased = `NOT EXISTS (SELECT FROM ${leases} l WHERE l.task_id = t.task_id AND l.expires_at > 'epoch')`;

  const removeBy = (range: string) => `
    WITH removed AS (DELETE FROM ${tasks} ${range}), trimmed AS (DELETE FROM ${pieces} ${range})
    DELETE FROM ${checkpoints} ${range}`;

  return {
    byId: `SELECT ${columns} FROM ${checkpoints} c WHERE c.task_id = $1 AND c.id_digest = $2`,
    wholeById: `SELECT ${columns}, ${whole} FROM ${checkpoints} c WHERE c.task_id = $1 AND c.id_digest = $2`,
    wholeAt: `SELECT ${columns}, ${whole} FROM ${checkpoints} c WHERE c.task_id = $1 AND c.sequence = $2`,
    summaries: {
      newest: `SELECT ${columns} FROM ${checkpoints} c ${inRange("DESC")}`,
      oldest: `SELECT ${columns} FROM ${checkpoints} c ${inRange("ASC")}`,
    },
    checkpoints: { newest: page("DESC"), oldest: page("ASC") },
    /**
     * The first row without a filter, which most reads need. The limit isn't a parameter, because the server would then
     * plan the statement again each time.
     */
    checkpoint: {
      newest: `SELECT ${columns}, ${wholeOrKnown} FROM ${checkpoints} c ${inOrder("DESC")} LIMIT 1`,
      oldest: `SELECT ${columns}, ${wholeOrKnown} FROM ${checkpoints} c ${inOrder("ASC")} LIMIT 1`,
    },

    append: append("", ""),
    appendReplacing: append("", "", true),
    /** An append under a lease. The last value is the lease's token. Nobody can claim the task before the commit. */
    appendUnderLease: append(fenceOf("$24"), "AND EXISTS (SELECT FROM fence)"),
    appendReplacingUnderLease: append(fenceOf("$26"), "AND EXISTS (SELECT FROM fence)", true),
    /** The task's last text: its name, its pieces, and its size if its checkpoint still exists. */
    lastText: `
      SELECT t.last_text, ${piecesOf(LAST_PIECE)},
        (SELECT c.size_bytes FROM ${checkpoints} c WHERE c.task_id = $1 AND c.sequence = ${LAST_PIECE})
      FROM ${tasks} t WHERE t.task_id = $1 AND t.last_text IS NOT NULL`,
    deltas: `
      SELECT number, form, body FROM ${pieces} WHERE task_id = $1
        AND number > (SELECT max(number) FROM ${pieces} WHERE task_id = $1 AND form <> ${FORM.delta}) ORDER BY number`,
    /** Replaces the deltas from $2 to $3 by the bundle $4. The caller must hold the task's lock. */
    fold: `
      WITH folded AS (DELETE FROM ${pieces} WHERE task_id = $1 AND number >= $2 AND number < $3)
      UPDATE ${pieces} SET form = ${FORM.bundle}, body = $4 WHERE task_id = $1 AND number = $3`,
    /**
     * Removes the pieces that no checkpoint needs. A piece is needed by all checkpoints that come after the previous
     * piece and before the next whole text. If the last piece is removed, the next text begins a new history.
     */
    trim: `
      WITH placed AS (
        SELECT number, coalesce(lag(number) OVER (ORDER BY number), 0) AS before,
          min(number) FILTER (WHERE ${WHOLE}) OVER (ORDER BY number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS next
        FROM ${pieces} WHERE task_id = $1
      ), trimmed AS (
        DELETE FROM ${pieces} WHERE task_id = $1 AND number IN (
          SELECT number FROM placed p WHERE NOT EXISTS (
            SELECT FROM ${checkpoints} c WHERE c.task_id = $1 AND c.body IS NULL
              AND c.sequence > p.before AND (p.next IS NULL OR c.sequence < p.next)))
        RETURNING number
      )
      UPDATE ${tasks} SET last_text = NULL
      WHERE task_id = $1 AND EXISTS (SELECT FROM trimmed WHERE number = (SELECT max(number) FROM placed))`,
    /**
     * The last sequence that was given, and the newest checkpoint's sequence. The conditions of `append` compare them.
     */
    position: `SELECT last_sequence, coalesce(newest_sequence, 0) FROM ${tasks} WHERE task_id = $1`,

    lock: `SELECT last_sequence FROM ${tasks} WHERE task_id = $1 FOR UPDATE`,
    newest: `SELECT max(sequence) FROM ${checkpoints} WHERE task_id = $1`,
    setStatus: `UPDATE ${checkpoints} SET status = $3, error = $4, seal = $5 WHERE task_id = $1 AND sequence = $2`,
    setTaskStatus: `
      UPDATE ${tasks} t SET newest_status = $3 WHERE task_id = $1 AND newest_sequence = $2 RETURNING ${dueColumns}`,
    setDueAt: `UPDATE ${tasks} SET due_at = $2 WHERE task_id = $1`,
    replacePayload: `
      UPDATE ${checkpoints} SET size_bytes = $3, encoding = $4, sha256 = $5, seal = $6, is_text = $7, body = $8
      WHERE task_id = $1 AND sequence = $2`,
    /**
     * This is one statement, like `removePrefix`, because another process could begin the task anew between two
     * statements.
     */
    removeAll: removeBy("WHERE task_id = $1"),
    removeSome: `DELETE FROM ${checkpoints} WHERE task_id = $1 AND id_digest = ANY($2) RETURNING body IS NULL`,
    removeAt: `DELETE FROM ${checkpoints} WHERE task_id = $1 AND sequence = $2`,
    shortenTask: `
      UPDATE ${tasks} t SET count = count - $2, (newest_sequence, newest_created_at, newest_status) = (
        SELECT sequence, created_at, status FROM ${checkpoints} c WHERE c.task_id = $1 ORDER BY sequence DESC LIMIT 1)
      WHERE task_id = $1 RETURNING ${dueColumns}`,

    leases: {
      /** $2 is the holder with the claim's id. $4 is true for a claim by force. */
      claim: `
        INSERT INTO ${leases} (task_id, holder, token, expires_at)
        VALUES ($1, $2, 1, clock_timestamp() + $3::float8 * interval '1 millisecond')
        ${CLAIM} OR $4 RETURNING token`,
      renew: `
        UPDATE ${leases} SET expires_at = clock_timestamp() + $3::float8 * interval '1 millisecond'
        WHERE task_id = $1 AND token = $2 AND expires_at > clock_timestamp()`,
      read: lease,
      lapsed: `
        SELECT holder, token, ceil(extract(epoch FROM clock_timestamp() - expires_at) * 1000) FROM ${leases}
        WHERE task_id = $1 AND expires_at > 'epoch' AND expires_at <= clock_timestamp()`,
      lock: `${lease} FOR SHARE`,
    },

    /**
     * A task's row and the values that it must have. This is one statement, because other processes may write between
     * two.
     */
    taskRow: `
      SELECT t.last_sequence, t.count, t.newest_sequence, t.newest_created_at, t.newest_status, t.due_at,
        (SELECT count(*) FROM ${checkpoints} WHERE task_id = $1), c.sequence, c.created_at, c.status, c.metadata
      FROM (SELECT 1) i LEFT JOIN ${tasks} t ON t.task_id = $1
      LEFT JOIN ${checkpoints} c ON c.task_id = $1
        AND c.sequence = (SELECT max(sequence) FROM ${checkpoints} WHERE task_id = $1)`,
    replaceTask: `
      INSERT INTO ${tasks} (task_id, last_sequence, count, newest_sequence, newest_created_at, newest_status, due_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7)
      ON CONFLICT (task_id) DO UPDATE SET last_sequence = excluded.last_sequence, count = excluded.count,
        newest_sequence = excluded.newest_sequence, newest_created_at = excluded.newest_created_at,
        newest_status = excluded.newest_status, due_at = excluded.due_at, last_text = NULL`,
    quarantineCheckpoint: `
      INSERT INTO ${quarantine} (task_id, quarantined_at, reason, ${names}, id_digest, is_text, form, body)
      SELECT c.task_id, $3, $4, ${columns}, c.id_digest, c.is_text, coalesce(p.form, 0), coalesce(c.body, p.body)
      FROM ${checkpoints} c LEFT JOIN ${pieces} p ON c.body IS NULL AND p.task_id = $1
        AND p.number = (SELECT min(number) FROM ${pieces} WHERE task_id = $1 AND number >= $2)
      WHERE c.task_id = $1 AND c.sequence = $2`,
    quarantineTask: `INSERT INTO ${quarantine} (task_id, quarantined_at, reason) VALUES ($1, $2, $3)`,

    acrossTasks: {
      appendMany: appendMany("", ""),
      appendManyReplacing: appendMany("", "", true),
      appendManyUnderLeases: appendMany(...fences),
      appendManyReplacingUnderLeases: appendMany(...fences, true),
      /**
       * If a lease expires at 'epoch', it was released. ANY makes the planner look up each lease by its key.
       *
       * $1 and $2 are the tasks and the tokens.
       */
      release: `
        UPDATE ${leases} l SET expires_at = 'epoch' WHERE l.task_id = ANY($1) AND EXISTS (
          SELECT FROM unnest($1::text[], $2::bigint[]) AS r (task_id, token)
          WHERE r.task_id = l.task_id AND r.token = l.token)`,
      leasesHeld: `
        SELECT task_id, holder, token, ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000) FROM ${leases}
        WHERE expires_at > clock_timestamp()`,
      /** The first $5 tasks that are due. Those whose runner has died come first. */
      dueTasks: `
        SELECT task_id FROM (
          (SELECT 0 AS part, l.* FROM (${lapsed}) l ORDER BY due_at LIMIT $5) UNION ALL
          (SELECT 1 AS part, d.* FROM (${due(isReleased)}) d ORDER BY due_at, task_id LIMIT $5)
        ) found ORDER BY part, due_at, task_id LIMIT $5`,
      /**
       * Claims the first $5 of the tasks $1 that are still due by $4, that nobody holds, and whose rows no other
       * transaction has locked. $2 is the holder with the claim's id.
       */
      claimDue: `
        WITH mine AS (SELECT task_id FROM ${leases} WHERE task_id = ANY($1) AND holder = $2),
        free AS (
          SELECT t.task_id FROM unnest($1::text[]) AS i (task_id) CROSS JOIN LATERAL (
            SELECT task_id FROM ${tasks} t WHERE t.task_id = i.task_id AND t.due_at IS NOT NULL AND coalesce((
              SELECT l.expires_at <= clock_timestamp() AND (l.expires_at > 'epoch' OR t.due_at <= $4)
              FROM ${leases} l WHERE l.task_id = t.task_id), t.due_at <= $4)
            LIMIT 1 FOR UPDATE SKIP LOCKED) t
          WHERE NOT EXISTS (SELECT FROM mine) LIMIT $5)
        INSERT INTO ${leases} (task_id, holder, token, expires_at)
        SELECT task_id, $2, 1, clock_timestamp() + $3::float8 * interval '1 millisecond'
        FROM (SELECT task_id FROM mine UNION ALL SELECT task_id FROM free) next
        ${CLAIM} RETURNING task_id, token`,
      countDue: `SELECT count(*), min(due_at) FROM (${lapsed} UNION ALL ${due(isNotUnreleased)}) found`,
      idsByTaskId: `
        SELECT task_id FROM ${tasks}
        WHERE newest_status = ANY($1) AND task_id >= $4 AND task_id < $5
        ORDER BY task_id LIMIT $2 OFFSET $3`,
      idsByRecency: byRecency(""),
      idsByRecencyInRange: byRecency("AND task_id >= $4 AND task_id < $5"),
      /**
       * The second join is a LEFT JOIN, since a missing newest checkpoint is damage that must be found. LIMIT makes the
       * planner look up each task by its key.
       */
      tasks: `
        SELECT t.task_id, t.count, t.newest_sequence, ${columns} FROM unnest($1::text[]) AS i (task_id)
        CROSS JOIN LATERAL (SELECT * FROM ${tasks} t WHERE t.task_id = i.task_id LIMIT 1) t
        LEFT JOIN LATERAL (
          SELECT * FROM ${checkpoints} c WHERE c.task_id = t.task_id AND c.sequence = t.newest_sequence LIMIT 1) c ON true`,
      allIds: `
        (SELECT task_id FROM ${tasks} WHERE task_id > $1 ORDER BY task_id LIMIT $2)
        UNION (SELECT DISTINCT task_id FROM ${checkpoints} WHERE task_id > $1 ORDER BY task_id LIMIT $2)
        ORDER BY task_id LIMIT $2`,
      lockTasks: `SELECT task_id FROM ${tasks} WHERE task_id >= $1 AND task_id < $2 ORDER BY task_id FOR UPDATE`,
      newestOfTasks: `SELECT task_id, max(sequence) FROM ${checkpoints} WHERE task_id >= $1 AND task_id < $2 GROUP BY task_id`,
      removePrefix: removeBy("WHERE task_id = ANY($1)"),
    },
  } as const;
}

export type PostgresStatements = ReturnType<typeof statementsOn>;
