// Runs the example as a person would, and kills it at other places. The tests count the rows.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { execa } from "execa";
import { beforeAll, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { createTables } from "../../examples/migration/src/batch.js";
import { ranAfterTheirRecord, runKilledAt } from "../support/killed-example.js";
import { runExample } from "../support/run-example.js";
import { tempFolder } from "../support/temp-folder.js";

const root = join(import.meta.dirname, "..", "..");
const example = join(root, "examples", "migration");
/** A test takes some seconds, and longer on a machine that is busy with other tests. */
const timeout = 300_000;

beforeAll(async () => {
  // The example is always rebuilt, because an existing build may be from older sources.
  await execa("npm", ["run", "build", "-w", "waymark-example-migration"], { cwd: root });
}, timeout);

it("prints what its README shows, each time that it is started", { timeout }, async () => {
  const [, shown = ""] = /```text\n(.*?)```/s.exec(readFileSync(join(example, "README.md"), "utf8")) ?? [];
  for (const _start of [1, 2]) {
    const { exitCode, output } = await runExample([join(example, "dist", "main.js")], { cwd: root }, undefined);
    expect(exitCode, output).toBe(0);
    expect(output.trim()).toBe(shown.trim());
  }
});

it("moves each of 10,000 rows once, even if it is killed at ten places", { timeout }, async () => {
  const folder = await tempFolder();
  const shop = new Database(join(folder, "shop.db"));
  createTables(shop);
  const options = { folder, env: { MIGRATION_FOLDER: folder } };
  const program = [join(example, "dist", "migrate.js")];

  // A batch has four moments: the beginning and end of its function, and the storing of its result and its milestone.
  let kills = 0;
  while ((await runKilledAt(program, { ...options, moment: 12 + kills })).isKilled) kills += 1;
  expect(kills).toBeGreaterThanOrEqual(10);

  const counts = shop.prepare(
    "SELECT count(*) AS rows, count(DISTINCT old_id) AS ids, min(old_id) AS first FROM customers",
  );
  expect(counts.get()).toEqual({ rows: 10_000, ids: 10_000, first: 1 });
  const wrong = `SELECT count(*) FROM customers JOIN old_customers ON old_customers.id = old_id WHERE name <> first || ' ' || last`;
  expect(shop.prepare(wrong).pluck().get()).toBe(0);
  shop.close();
  expect(ranAfterTheirRecord(folder)).toEqual([]);
  await using manager = new CheckpointManager({ storage: new SqliteAdapter({ path: join(folder, "migration.db") }) });
  expect(await manager.latest("customers")).toMatchObject({
    status: "completed",
    state: { afterId: 10_000, batch: 41 },
  });
  expect(await manager.result("customers")).toBe(40);
});
