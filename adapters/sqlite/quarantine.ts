import { COLUMNS } from "./rows.js";

const PARTS = COLUMNS.replace("c.number, ", "c.number, c.task_id, ");
const NAMES = PARTS.replaceAll("c.", "");

/**
 * Every column as it was, of whatever type. Made by the first repair that finds anything. It stays as it is: a database
 * that has another table of that name is refused, so a version that keeps more columns needs one of another name.
 */
export const QUARANTINE = `
  CREATE TABLE waymark_quarantine (quarantined_at TEXT NOT NULL, reason TEXT NOT NULL, ${NAMES}, body)`;
export const CREATE_QUARANTINE = QUARANTINE.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS");
export const QUARANTINE_CHECKPOINT = `
  INSERT INTO waymark_quarantine (quarantined_at, reason, ${NAMES}, body)
  SELECT ?, ?, ${PARTS}, p.body FROM waymark_checkpoints c LEFT JOIN waymark_payloads p ON p.number = c.number
  WHERE c.number = ?`;
export const QUARANTINE_PAYLOAD = `
  INSERT INTO waymark_quarantine (quarantined_at, reason, number, body)
  SELECT ?, ?, number, body FROM waymark_payloads WHERE number = ?`;
