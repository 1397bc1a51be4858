import { readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { DAMAGED, type StoreKind } from "./operations.js";

/** A date that no other checkpoint has. It changes each damaged checkpoint, whatever its content. */
export const WRONG_DATE = "2026-01-09T03:04:05.678Z";
const DATE = "2026-01-02T03:04:05.678Z";

/** An old leftover of killed processes in a folder of files: a stolen lock. */
const LEFTOVER = join("t", ".lock-stolen");

/** Changes each of {@link DAMAGED} in a store that no process has open, and adds a leftover. */
export function damage(kind: StoreKind, folder: string): void {
  if (kind.startsWith("sqlite")) {
    const database = new Database(join(folder, "checkpoints.db"));
    const update = database.prepare("UPDATE waymark_checkpoints SET created_at = ? WHERE task_id = 't' AND id = ?");
    const changes = DAMAGED.map((id) => update.run(WRONG_DATE, id).changes);
    database.close();
    if (changes.some((count) => count !== 1)) throw new Error(`${changes} rows were damaged`);
    return;
  }
  const leftover = join(folder, LEFTOVER);
  writeFileSync(leftover, "half");
  utimesSync(leftover, 0, 0);
  const files = readdirSync(join(folder, "t"), { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  );
  const lines = files.flatMap(({ parentPath, name }) => {
    const path = join(parentPath, name);
    const content = readFileSync(path, "utf8").split("\n");
    const damaged = content.map((line) => (isOfDamaged(line) ? line.replace(DATE, WRONG_DATE) : line));
    writeFileSync(path, damaged.join("\n"));
    return damaged.filter((line) => line.includes(WRONG_DATE));
  });
  if (lines.length !== DAMAGED.length) throw new Error(`${lines.length} records were damaged`);
}

function isOfDamaged(line: string): boolean {
  return DAMAGED.some((id) => line.includes(`"id":"${id}"`));
}
