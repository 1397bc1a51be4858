import type { CheckpointQuery } from "../../src/contract/adapter.js";
import { COLUMNS, COLUMNS_WITH_PAYLOAD, SUSPECT } from "./rows.js";

/** The statements by which summaries, or whole checkpoints, are chosen. */
export interface Statements {
  readonly plain: Readonly<Record<CheckpointQuery["order"], string>>;
  readonly filtered: Readonly<Record<CheckpointQuery["order"], string>>;
  readonly byNumber: string;
}

const TABLE = "waymark_checkpoints c";
/** LEFT: a checkpoint whose payload is gone is damaged, not absent. */
const WITH_PAYLOAD = `${TABLE} LEFT JOIN waymark_payloads p ON p.number = c.number`;
/** By this index and no other, so that it is clear which one an empty answer is of: see absence.ts. */
const IN_SEQUENCE = "waymark_checkpoints INDEXED BY waymark_checkpoints_by_sequence";
const IN_RANGE = "c.task_id = ? AND c.sequence < ? AND c.sequence > ?";
const IN_STATUS = "c.status IN (?, ?, ?, ?)";
const OF_TASK = "FROM waymark_checkpoints WHERE task_id = ?";
/** As an expression: for a bare variable SQLite plans the statement anew at each call. */
const PART = "LIMIT (? + 0) OFFSET (? + 0)";

export const SUMMARIES = selection(COLUMNS, TABLE);
export const CHECKPOINTS = selection(COLUMNS_WITH_PAYLOAD, WITH_PAYLOAD);
export const SUMMARY_BY_ID = `SELECT ${COLUMNS} FROM ${TABLE} WHERE c.task_id = ? AND c.id = ?`;
export const CHECKPOINT_BY_ID = `SELECT ${COLUMNS_WITH_PAYLOAD} FROM ${WITH_PAYLOAD} WHERE c.task_id = ? AND c.id = ?`;

/** The index alone, which may be whole where the table is not. */
export const ENTRIES = inBothOrders(
  (direction) =>
    `SELECT c.number, c.sequence FROM ${TABLE} INDEXED BY waymark_checkpoints_by_sequence
    WHERE ${IN_RANGE} ORDER BY c.sequence ${direction} ${PART}`,
);
/** As text, which SQLite takes for the number in comparisons: a damaged one may be more than JavaScript's numbers hold. */
export const NUMBER = "CAST(number AS TEXT)";
export const NUMBER_BY_ID = `SELECT ${NUMBER} FROM waymark_checkpoints WHERE task_id = ? AND id = ?`;
export const NUMBERS = `SELECT ${NUMBER} FROM waymark_checkpoints INDEXED BY waymark_checkpoints_by_id WHERE task_id = ?`;

export const NEWEST_SEQUENCE = `SELECT max(sequence) FROM ${IN_SEQUENCE} WHERE task_id = ?`;
export const COUNT = `SELECT count(*) ${OF_TASK}`;
export const TASK_IDS = `SELECT task_id FROM waymark_tasks WHERE task_id >= ? AND task_id < ? ORDER BY task_id LIMIT (? + 0)`;
/**
 * The tasks are those of the checkpoints, one step down the index for each, in order: a task whose row in waymark_tasks was
 * lost is listed all the same. LEFT: one that isn't found again is damaged, not absent.
 */
export const TASKS = `
  WITH RECURSIVE next_task (task_id) AS (
    SELECT min(task_id) FROM ${IN_SEQUENCE} WHERE task_id >= ?
    UNION -- and not UNION ALL: an index in disorder may lead back
    SELECT (SELECT min(task_id) FROM ${IN_SEQUENCE} WHERE task_id > t.task_id AND task_id < ?) FROM next_task t
    WHERE t.task_id IS NOT NULL
  )
  SELECT t.task_id, (SELECT count(*) FROM waymark_checkpoints WHERE task_id = t.task_id), ${COLUMNS}
  FROM next_task t LEFT JOIN ${TABLE} ON c.task_id = t.task_id
    AND c.sequence = (SELECT max(sequence) FROM ${IN_SEQUENCE} WHERE task_id = t.task_id)
  WHERE t.task_id < ? AND (${IN_STATUS} OR ${SUSPECT})
  LIMIT (? + 0)`;

/** All that an append has to know, in one statement. */
export const POSITION = `
  SELECT (SELECT given_sequence FROM waymark_tasks WHERE task_id = ?), (${NEWEST_SEQUENCE}),
    (SELECT max(number) FROM waymark_checkpoints), (SELECT max(number) FROM waymark_payloads), (${NUMBER_BY_ID})`;
export const PAYLOAD = "SELECT body FROM waymark_payloads WHERE number = ?";
export const DIGEST = "SELECT sequence, sha256 FROM waymark_checkpoints WHERE number = ?";
export const INSERT_TASK = "INSERT INTO waymark_tasks (task_id, given_sequence) VALUES (?, 0)";
export const INSERT_CHECKPOINT = `
  INSERT INTO waymark_checkpoints (${COLUMNS.replaceAll("c.", "").replace("number, ", "number, task_id, ")})
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
export const INSERT_PAYLOAD = "INSERT INTO waymark_payloads (number, body) VALUES (?, ?)";
export const UPDATE_STATUS = "UPDATE waymark_checkpoints SET status = ?, error = ?, seal = ? WHERE number = ?";
export const UPDATE_PAYLOAD =
  "UPDATE waymark_checkpoints SET size_bytes = ?, encoding = ?, sha256 = ?, seal = ? WHERE number = ?";
export const UPDATE_BODY = "UPDATE waymark_payloads SET body = ? WHERE number = ?";
export const KEEP_SEQUENCE = `
  INSERT INTO waymark_tasks (task_id, given_sequence) VALUES (?, ?)
  ON CONFLICT (task_id) DO UPDATE SET given_sequence = max(given_sequence, excluded.given_sequence)`;
export const REMOVE_CHECKPOINT = "DELETE FROM waymark_checkpoints WHERE number = ?";
export const REMOVE_PAYLOAD = "DELETE FROM waymark_payloads WHERE number = ?";
export const REMOVE_TASK = "DELETE FROM waymark_tasks WHERE task_id = ?";

function selection(columns: string, tables: string): Statements {
  const select = (condition: string) =>
    inBothOrders(
      (direction) =>
        `SELECT ${columns} FROM ${tables} WHERE ${IN_RANGE} ${condition} ORDER BY c.sequence ${direction} ${PART}`,
    );
  return {
    plain: select(""),
    filtered: select(`AND ((? IS NULL OR c.stage = ?) AND ${IN_STATUS} OR ${SUSPECT})`),
    byNumber: `SELECT ${columns} FROM ${tables} WHERE c.number = ?`,
  };
}

function inBothOrders(sql: (direction: "DESC" | "ASC") => string): Statements["plain"] {
  return { newest: sql("DESC"), oldest: sql("ASC") };
}
