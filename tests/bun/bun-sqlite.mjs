import { Database } from "bun:sqlite";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { damagingRows } from "../conformance/stores/damaged-rows.js";

export function open(location) {
  return new SqliteAdapter({ path: location });
}

export const { damage, damageRecord } = damagingRows((location) => new Database(location));
