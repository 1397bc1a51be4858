import { selectPieces } from "./pieces.js";
import { RECORD_COLUMNS } from "./records.js";
import { SUMMARY_COLUMNS, type Tables } from "./tables.js";

type Direction = "ASC" | "DESC";

/** The statements that read a task's checkpoints. */
export function makeReadStatements(tables: Tables) {
  const { checkpoints } = tables;
  const pieces = selectPieces(tables, "c.sequence");
  const whole = `c.is_text, c.body, CASE WHEN c.body IS NULL THEN ${pieces} END`;
  const inRange = (direction: Direction) =>
    `WHERE c.task_id = $1 AND c.sequence BETWEEN $2 AND $3 ORDER BY c.sequence ${direction}`;
  const inBothOrders = (select: (direction: Direction) => string) => ({
    newest: select("DESC"),
    oldest: select("ASC"),
  });
  return {
    byId: `SELECT ${SUMMARY_COLUMNS} FROM ${checkpoints} c WHERE c.task_id = $1 AND c.id_digest = $2`,
    wholeById: `SELECT ${SUMMARY_COLUMNS}, ${whole} FROM ${checkpoints} c WHERE c.task_id = $1 AND c.id_digest = $2`,
    wholeAt: `SELECT ${SUMMARY_COLUMNS}, ${whole} FROM ${checkpoints} c WHERE c.task_id = $1 AND c.sequence = $2`,

    summaries: inBothOrders(
      (direction) => `SELECT ${SUMMARY_COLUMNS} FROM ${checkpoints} c ${inRange(direction)} LIMIT $4 OFFSET $5`,
    ),

    /**
     * Reads the first row without a filter, which most reads need. $4 is the digest of a text that the caller already
     * has and that isn't returned again. The limit isn't a parameter, because the server would then replan the
     * statement each time.
     */
    checkpoint: inBothOrders(
      (direction) => `
      SELECT ${SUMMARY_COLUMNS}, c.is_text, c.body, CASE WHEN c.body IS NULL AND c.sha256 <> $4 THEN ${pieces} END
      FROM ${checkpoints} c ${inRange(direction)} LIMIT 1`,
    ),

    /**
     * Reads a page. A row that doesn't match the stage $6 and the statuses $7 comes without its body, and doesn't count
     * towards $8, the page's budget of bytes.
     */
    checkpoints: inBothOrders(
      (direction) => `
      SELECT ${SUMMARY_COLUMNS}, c.is_text, CASE WHEN c.weight > 0 THEN c.body END,
        CASE WHEN c.weight > 0 AND c.body IS NULL THEN ${pieces} END, c.weight
      FROM (SELECT r.*, sum(r.weight) OVER (ORDER BY r.sequence ${direction}) - r.weight AS before FROM (
        SELECT c.*, CASE WHEN ($6::text IS NULL OR c.stage = $6) AND c.status = ANY($7) THEN greatest(c.size_bytes, 1)
          ELSE 0 END AS weight FROM ${checkpoints} c ${inRange(direction)} LIMIT $4 OFFSET $5) r) c
      WHERE c.before < $8 ORDER BY c.sequence ${direction}`,
    ),
  };
}

/** The statements that list tasks. */
export function makeListStatements({ tasks, checkpoints, records }: Tables) {
  /** Runs one query per status, since the index is ordered by time only within a status. */
  const byRecency = (range: string) => `
    SELECT t.task_id FROM unnest($1::text[]) AS s (status) CROSS JOIN LATERAL (
      SELECT task_id, newest_created_at FROM ${tasks} WHERE newest_status = s.status ${range}
      ORDER BY newest_created_at DESC, task_id LIMIT $2::bigint + $3::bigint) t
    ORDER BY t.newest_created_at DESC, t.task_id LIMIT $2 OFFSET $3`;
  return {
    idsByTaskId: `
      SELECT task_id FROM ${tasks} WHERE newest_status = ANY($1) AND task_id >= $4 AND task_id < $5
      ORDER BY task_id LIMIT $2 OFFSET $3`,
    idsByRecency: byRecency(""),
    idsByRecencyInRange: byRecency("AND task_id >= $4 AND task_id < $5"),

    /**
     * The checkpoints are left-joined, since a missing newest checkpoint is damage that must be found. LIMIT makes the
     * planner look up each task by its key.
     */
    tasks: `
      SELECT t.task_id, t.count, t.newest_sequence, t.last_sequence, t.due_at, t.removed_up_to, ${RECORD_COLUMNS}, ${SUMMARY_COLUMNS}
      FROM unnest($1::text[]) AS i (task_id)
      CROSS JOIN LATERAL (SELECT * FROM ${tasks} t WHERE t.task_id = i.task_id LIMIT 1) t
      LEFT JOIN LATERAL (
        SELECT * FROM ${records} r WHERE r.task_id = t.task_id ORDER BY r.sequence DESC LIMIT 1) r ON true
      LEFT JOIN LATERAL (
        SELECT * FROM ${checkpoints} c WHERE c.task_id = t.task_id AND c.sequence = t.newest_sequence LIMIT 1) c ON true`,

    /** Reads the ids of all tasks, including damaged ones without a row. */
    allIds: `
      (SELECT task_id FROM ${tasks} WHERE task_id > $1 ORDER BY task_id LIMIT $2)
      UNION (SELECT DISTINCT task_id FROM ${checkpoints} WHERE task_id > $1 ORDER BY task_id LIMIT $2)
      UNION (SELECT DISTINCT task_id FROM ${records} WHERE task_id > $1 ORDER BY task_id LIMIT $2)
      ORDER BY task_id LIMIT $2`,
  };
}
