import { RECORD_KINDS } from "../../../src/contract/log.js";
import { RECORD_COLUMNS as NAMES } from "../../sql/records.js";
import { COLUMNS } from "../../sql/rows.js";
import type { Tables } from "./tables.js";

const DIGESTS: readonly string[] = ["sha256", "seal"];

/** A record's columns in the table or subselect `r`, with the digests as text. */
export const RECORD_COLUMNS = NAMES.map((name) =>
  DIGESTS.includes(name) ? `encode(r.${name}, 'hex') AS ${name}` : `r.${name}`,
).join(", ");

/** The statements on a task's records. A change locks the task's row first. */
export function makeRecordStatements({ tasks, checkpoints, records }: Tables) {
  // PostgreSQL expects few rows of `$5 IS NULL OR name = $5`, and would sort the rest of the log for each page.
  const inRange = "task_id = $1 AND sequence BETWEEN $2 AND $3 AND coalesce(name = $5, $5::text IS NULL)";
  const known = RECORD_KINDS.map((kind) => `'${kind}'`).join(", ");
  const nothing = NAMES.slice(1).map(() => "NULL");
  /**
   * Reads a page of at most $6 records and checkpoints from one snapshot, with at most about $7 bytes of bodies. $4 are
   * the selected kinds; a damaged kind is always selected. A checkpoint is a JSON array of its columns, because
   * separate columns would be NULL in each record's row, and NULLs take time.
   */
  const page = (direction: "ASC" | "DESC", body: string) => `
      SELECT ${NAMES.join(", ")}, is_text, body, checkpoint FROM (
        SELECT i.*, sum(i.weight) OVER (ORDER BY i.sequence ${direction}) - i.weight AS before FROM (
          (SELECT ${RECORD_COLUMNS}, r.is_text, ${body} AS body, NULL AS checkpoint, greatest(r.size_bytes, 0) AS weight
          FROM ${records} r
          WHERE r.${inRange} AND (kind = ANY($4) OR kind NOT IN (${known})) ORDER BY sequence ${direction} LIMIT $6)
          UNION ALL
          (SELECT c.sequence, ${nothing.join(", ")}, NULL, NULL,
            json_build_array(${COLUMNS.map((name) => `c.${name}`).join(", ")})::text, 0
          FROM ${checkpoints} c WHERE c.task_id = $1 AND c.sequence BETWEEN $2 AND $3
            AND 'checkpoint' = ANY($4) AND $5::text IS NULL ORDER BY sequence ${direction} LIMIT $6)
          ORDER BY sequence ${direction} LIMIT $6) i) p
      WHERE before < $7 ORDER BY sequence ${direction}`;
  const selected = `r.${inRange} AND kind = ANY($4)`;
  return {
    read: {
      newest: { whole: page("DESC", "r.body"), headers: page("DESC", "NULL::bytea") },
      oldest: { whole: page("ASC", "r.body"), headers: page("ASC", "NULL::bytea") },
    },
    at: `SELECT ${RECORD_COLUMNS}, r.is_text, r.body FROM ${records} r WHERE r.task_id = $1 AND r.sequence = $2`,
    /** Reads the events whose ids have the digests $2. */
    events: `
      SELECT r.id, r.sequence, r.name, encode(r.sha256, 'hex') FROM ${records} r
      WHERE r.task_id = $1 AND r.id_digest = ANY($2)`,
    replacePayload: `
      UPDATE ${records} SET encoding = $3, sha256 = decode($4, 'hex'), seal = decode($5, 'hex'), size_bytes = $6,
        is_text = $7, body = $8 WHERE task_id = $1 AND sequence = $2`,
    /**
     * Removes records, and the bodies of events. Returns their number, and the sequence of the last removed record that
     * isn't a mark.
     */
    remove: `
      WITH emptied AS (
        UPDATE ${records} r SET body = NULL, size_bytes = 0 WHERE ${selected} AND kind = 'event' AND body IS NOT NULL
        RETURNING 1),
      removed AS (DELETE FROM ${records} r WHERE ${selected} AND kind <> 'event' RETURNING sequence, kind)
      SELECT (SELECT count(*) FROM emptied) + count(*), max(sequence) FILTER (WHERE kind <> 'mark') FROM removed`,
    noteRemoval: `UPDATE ${tasks} SET removed_up_to = greatest(removed_up_to, $2) WHERE task_id = $1`,
    /**
     * If the last append to the task wasn't synced, commits a change: its sync covers all earlier commits. A concurrent
     * call waits for the row, and then finds nothing to do.
     */
    sync: `UPDATE ${tasks} SET lazy_sequence = NULL WHERE task_id = $1 AND lazy_sequence = last_sequence`,
  };
}
