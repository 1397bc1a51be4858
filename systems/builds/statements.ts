import { CHECKPOINT_COLUMNS, STATE_COLUMNS } from "./rows.js";

const CHECKPOINT = CHECKPOINT_COLUMNS.join(", ");
/** By rowid, which is the order of insertion: timestamps have whole seconds, and clocks are set back. */
const NEWEST_FIRST = "FROM checkpoints WHERE build_id = ? ORDER BY rowid DESC";
export const NEWEST = `SELECT ${CHECKPOINT} ${NEWEST_FIRST} LIMIT 1`;
export const LISTED = `SELECT rowid, id, timestamp, octet_length(tasks) + ifnull(octet_length(metadata), 0), current_phase ${NEWEST_FIRST}`;
export const BY_ROWID = `SELECT ${CHECKPOINT} FROM checkpoints WHERE rowid = ?`;
export const BY_ID = `SELECT ${CHECKPOINT} FROM checkpoints WHERE id = ?`;
export const IS_TAKEN = "SELECT 1 FROM checkpoints WHERE id = ?";
export const INSERT =
  "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase, metadata) VALUES (?, ?, datetime('now'), ?, ?, ?) " +
  "RETURNING timestamp";
export const REMOVE = "DELETE FROM checkpoints WHERE rowid = ?";
export const REMOVE_CHECKPOINTS = "DELETE FROM checkpoints WHERE build_id = ?";
export const REMOVE_STATE = "DELETE FROM build_states WHERE build_id = ?";
export const BUILD_IDS = "SELECT DISTINCT build_id FROM checkpoints WHERE typeof(build_id) = 'text' ORDER BY build_id";

/** What is replaced gets a new rowid: the one saved last has the highest. */
export const SAVE_STATE = `INSERT OR REPLACE INTO build_states (${STATE_COLUMNS.join(", ")})
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, datetime('now'))`;
export const STATE = `SELECT ${STATE_COLUMNS.join(", ")} FROM build_states WHERE build_id = ?`;
export const STATES = "SELECT build_id, prd_file, start_time, updated_at FROM build_states ORDER BY rowid DESC";
