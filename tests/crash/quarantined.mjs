// Reads the content of a store's quarantine.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Returns the damaged records of task `t` as they were moved, each with its reason.
 *
 * @param {string} kind @param {string} folder @returns {Promise<string[]>} One JSON text each.
 */
export async function quarantined(kind, folder) {
  return kind.startsWith("sqlite") ? rowsIn(join(folder, "checkpoints.db")) : filesIn(join(folder, ".quarantine", "t"));
}

/** @param {string} folder */
function filesIn(folder) {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder);
  return names
    .filter((name) => !name.endsWith(".reason.json") && JSON.parse(reasonBeside(folder, name, names)).reason !== "")
    .map((name) => readFileSync(join(folder, name), "utf8"));
}

/**
 * A file without its reason isn't in quarantine yet. @param {string} folder @param {string} name @param {string[]}
 * names
 */
function reasonBeside(folder, name, names) {
  const beside = `${name}.reason.json`;
  return names.includes(beside) ? readFileSync(join(folder, beside), "utf8") : '{"reason":""}';
}

/** @param {string} path */
async function rowsIn(path) {
  if (!existsSync(path)) return [];
  // Imported only here, so that the processes of the file adapters don't load it.
  const { default: Database } = await import("better-sqlite3");
  const database = new Database(path, { readonly: true });
  try {
    const isMade = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'waymark_quarantine'").get();
    if (isMade === undefined) return [];
    const rows = database.prepare("SELECT * FROM waymark_quarantine WHERE reason <> '' AND body IS NOT NULL").all();
    return rows.map((row) => JSON.stringify(row));
  } finally {
    database.close();
  }
}
