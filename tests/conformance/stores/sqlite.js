import Database from "better-sqlite3";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { damagingRows } from "./damaged-rows.js";

export function open(location) {
  return new SqliteAdapter({ path: location });
}

export const { damage, damageRecord } = damagingRows((location) => new Database(location));
