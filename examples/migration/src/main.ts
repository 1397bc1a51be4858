// The example: kills the migration three times, each between a batch's commit and its record, and counts the rows.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import Database from "better-sqlite3";
import { createTables, ROWS } from "./batch.js";

const folder = join(import.meta.dirname, "..", ".run");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
const shop = new Database(join(folder, "shop.db"));
shop.pragma("journal_mode = WAL");
createTables(shop);
const count = (of: string) => shop.prepare(`SELECT count(${of}) FROM customers`).pluck().get();

console.log(`\n${ROWS.toLocaleString("en")} rows, in batches.`);
const begun: number[] = [];
for (const batch of [8, 9, 27]) await migrate(batch);
await migrate();

const findings = {
  "Each row was copied once.": count("*") === ROWS && count("DISTINCT old_id") === ROWS,
  "Only the three killed batches began twice.": begun.length === 40 + 3,
};
for (const [says, isTrue] of Object.entries(findings)) console.log(`${isTrue ? "✓" : "✗ Not true:"} ${says}`);
shop.close();
process.exitCode = Object.values(findings).every(Boolean) ? 0 : 1;

/** Runs `node dist/migrate.js` to its end, or kills it once this batch is committed. */
async function migrate(killedIn?: number): Promise<void> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "migrate.js"), String(killedIn ?? "")], {
    env: { ...process.env, MIGRATION_FOLDER: folder },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  const moved: number[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const [, batch] = /^moved (.*)/.exec(line) ?? [];
    if (batch !== undefined) moved.push(Number(batch));
    if (moved.at(-1) === killedIn) child.kill("SIGKILL");
  }
  await closed;
  if (child.exitCode !== 0 && child.signalCode !== "SIGKILL") throw new Error("The migration failed.");
  begun.push(...moved);
  const end = killedIn === undefined ? "completed" : "╳ killed (SIGKILL) after its commit";
  console.log(
    `   batch ${String(moved[0]).padStart(2)} to ${String(moved.at(-1)).padStart(2)}  ${String(count("*")).padStart(6)} rows  ${end}`,
  );
}
