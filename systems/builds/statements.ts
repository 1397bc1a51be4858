import { CHECKPOINT_COLUMNS, STATE_COLUMNS } from "./rows.js";
import { latestFirst, newestFirst, secondOf } from "./time-order.js";

const CHECKPOINT = CHECKPOINT_COLUMNS.join(", ");
const OF_BUILD = `FROM checkpoints WHERE build_id = ? ${newestFirst("timestamp")}`;
export const NEWEST = `SELECT ${CHECKPOINT} FROM checkpoints WHERE rowid = (SELECT rowid ${OF_BUILD} LIMIT 1)`;
export const LATEST_TIME = `SELECT ${secondOf("timestamp")}, timestamp FROM checkpoints WHERE build_id = ? ${latestFirst("timestamp")} LIMIT 1`;
const SUMMARY = `rowid, id, ${secondOf("timestamp")}, timestamp, octet_length(tasks) + ifnull(octet_length(metadata), 0)`;
/** What a list needs to know. Nothing of it stands behind the tasks in a row: for that, SQLite would read through them. */
export const LISTED = `SELECT ${SUMMARY} ${OF_BUILD}`;
export const LISTED_WITH_PHASE = `SELECT ${SUMMARY}, current_phase ${OF_BUILD}`;
export const BY_ROWID = `SELECT ${CHECKPOINT} FROM checkpoints WHERE rowid = ?`;
export const BY_ID = `SELECT ${CHECKPOINT} FROM checkpoints WHERE id = ?`;
export const IS_TAKEN = "SELECT 1 FROM checkpoints WHERE id = ?";
export const INSERT = insertInto("checkpoints", CHECKPOINT_COLUMNS);
export const REMOVE = "DELETE FROM checkpoints WHERE rowid = ?";
export const REMOVE_CHECKPOINTS = "DELETE FROM checkpoints WHERE build_id = ?";
export const REMOVE_STATE = "DELETE FROM build_states WHERE build_id = ?";
export const BUILD_IDS = "SELECT DISTINCT build_id FROM checkpoints WHERE typeof(build_id) = 'text' ORDER BY build_id";

const [STATE_KEY, ...STATE_PARTS] = STATE_COLUMNS;
export const SAVE_STATE =
  `${insertInto("build_states", STATE_COLUMNS)} ON CONFLICT (${STATE_KEY}) DO UPDATE ` +
  `SET ${STATE_PARTS.map((column) => `${column} = excluded.${column}`).join(", ")}`;
export const LATEST_UPDATE = `SELECT ${secondOf("updated_at")}, updated_at FROM build_states ${latestFirst("updated_at")} LIMIT 1`;
export const STATE = `SELECT ${STATE_COLUMNS.join(", ")} FROM build_states WHERE build_id = ?`;
export const STATES = `SELECT build_id, prd_file, start_time, updated_at FROM build_states ${latestFirst("updated_at")}`;

function insertInto(table: string, columns: readonly string[]): string {
  return `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
}
