import { CHECKPOINT_COLUMNS, STATE_COLUMNS } from "./rows.js";

const CHECKPOINT = CHECKPOINT_COLUMNS.join(", ");
/** Timestamps have whole seconds, so rows of one second are ordered by rowid. */
const NEWEST_FIRST = "FROM checkpoints WHERE build_id = ? ORDER BY timestamp DESC, rowid DESC";
export const NEWEST = `SELECT ${CHECKPOINT} ${NEWEST_FIRST} LIMIT 1`;
export const LISTED = `SELECT rowid, id, timestamp, octet_length(tasks) + ifnull(octet_length(metadata), 0), current_phase ${NEWEST_FIRST}`;
export const BY_ROWID = `SELECT ${CHECKPOINT} FROM checkpoints WHERE rowid = ?`;
export const BY_ID = `SELECT ${CHECKPOINT} FROM checkpoints WHERE id = ?`;
export const IS_TAKEN = "SELECT 1 FROM checkpoints WHERE id = ?";
/** After a clock was set back, a new checkpoint still gets a timestamp no older than the build's others. */
export const INSERT = `
  INSERT INTO checkpoints (id, build_id, tasks, current_phase, metadata, timestamp) VALUES (?, ?, ?, ?, ?, max(?, ifnull(
    (SELECT max(timestamp) FROM checkpoints WHERE build_id = ? AND timestamp GLOB '[0-9][0-9][0-9][0-9]-*'), '')))
  RETURNING timestamp`;
export const REMOVE = "DELETE FROM checkpoints WHERE rowid = ?";
export const REMOVE_CHECKPOINTS = "DELETE FROM checkpoints WHERE build_id = ?";
export const REMOVE_STATE = "DELETE FROM build_states WHERE build_id = ?";
export const BUILD_IDS = "SELECT DISTINCT build_id FROM checkpoints WHERE typeof(build_id) = 'text' ORDER BY build_id";

const [STATE_KEY, ...STATE_PARTS] = STATE_COLUMNS;
export const SAVE_STATE = `
  INSERT INTO build_states (${STATE_COLUMNS.join(", ")}) VALUES (${STATE_COLUMNS.map(() => "?").join(", ")})
  ON CONFLICT (${STATE_KEY}) DO UPDATE SET ${STATE_PARTS.map((column) => `${column} = excluded.${column}`).join(", ")}`;
export const STATE = `SELECT ${STATE_COLUMNS.join(", ")} FROM build_states WHERE build_id = ?`;
export const STATES = "SELECT build_id, prd_file, start_time, updated_at FROM build_states ORDER BY updated_at DESC";
