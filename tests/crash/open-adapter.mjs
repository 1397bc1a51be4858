// Opens adapters by their names in the crash tests. Each adapter is loaded only when it is used.
import { join } from "node:path";

/** @param {string} kind @param {string} folder */
export async function openAdapter(kind, folder) {
  if (kind === "json-file") {
    const { JsonFileAdapter } = await import("waymark/adapters/json-file");
    return new JsonFileAdapter({ path: folder });
  }
  if (kind === "task-file") {
    const { TaskFileAdapter } = await import("waymark/adapters/task-file");
    return new TaskFileAdapter({ path: folder });
  }
  const { SqliteAdapter } = await import("waymark/adapters/sqlite");
  const durability = kind === "sqlite-normal" ? "normal" : "full";
  // `.ci/run` also tries Node's own SQLite.
  const driver = process.env["WAYMARK_SQLITE_DRIVER"] === "node:sqlite" ? "node:sqlite" : undefined;
  return new SqliteAdapter({ path: join(folder, "checkpoints.db"), durability, driver });
}
