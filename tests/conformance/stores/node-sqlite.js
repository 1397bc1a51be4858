import { SqliteAdapter } from "waymark/adapters/sqlite";
import { damagingRows } from "./damaged-rows.js";

export function open(location) {
  return new SqliteAdapter({ path: location, driver: "node:sqlite" });
}

export const { damage, damageRecord } = damagingRows(
  (location) => new (process.getBuiltinModule("node:sqlite").DatabaseSync)(location),
);
