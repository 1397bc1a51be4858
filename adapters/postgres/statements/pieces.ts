import { FORM, WHOLE_FORMS } from "../../sql/history.js";
import type { Tables } from "./tables.js";

const IS_WHOLE = `form IN (${WHOLE_FORMS.join()})`;

/** Selects the pieces that a sequence's text needs: from the last whole text up to the piece that contains the text. */
export function selectPieces({ pieces }: Tables, sequence: string): string {
  return `(
      SELECT string_agg(int8send(p.number) || int4send(p.form) || int4send(length(p.body)) || p.body, '' ORDER BY p.number)
      FROM ${pieces} p WHERE p.task_id = $1
        AND p.number >= (SELECT max(number) FROM ${pieces} WHERE task_id = $1 AND ${IS_WHOLE} AND number <= ${sequence})
        AND p.number <= (SELECT min(number) FROM ${pieces} WHERE task_id = $1 AND number >= ${sequence}))`;
}

/** The statements on the pieces of a task's texts. */
export function makePieceStatements(tables: Tables) {
  const { tasks, checkpoints, pieces } = tables;
  const lastNumber = `(SELECT max(number) FROM ${pieces} WHERE task_id = $1)`;
  return {
    /** Reads the task's last text: its name, its pieces, and its size if its checkpoint still exists. */
    lastText: `
      SELECT t.last_text, ${selectPieces(tables, lastNumber)},
        (SELECT c.size_bytes FROM ${checkpoints} c WHERE c.task_id = $1 AND c.sequence = ${lastNumber})
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
          min(number) FILTER (WHERE ${IS_WHOLE}) OVER (ORDER BY number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS next
        FROM ${pieces} WHERE task_id = $1
      ),
      trimmed AS (
        DELETE FROM ${pieces} WHERE task_id = $1 AND number IN (
          SELECT number FROM placed p WHERE NOT EXISTS (
            SELECT FROM ${checkpoints} c WHERE c.task_id = $1 AND c.body IS NULL
              AND c.sequence > p.before AND (p.next IS NULL OR c.sequence < p.next)))
        RETURNING number
      )
      UPDATE ${tasks} SET last_text = NULL
      WHERE task_id = $1 AND EXISTS (SELECT FROM trimmed WHERE number = (SELECT max(number) FROM placed))`,
  };
}
