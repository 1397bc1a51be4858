import type Database from "better-sqlite3";

export const ROWS = 10_000;
const BATCH_ROWS = 250;

/** Creates the old table with its rows, and the new table, which has new ids. */
export function createTables(shop: Database.Database): void {
  shop.exec(`
    CREATE TABLE old_customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
    CREATE TABLE customers (id INTEGER PRIMARY KEY, old_id INTEGER NOT NULL, first TEXT NOT NULL, last TEXT NOT NULL);
    CREATE TABLE batches (key TEXT PRIMARY KEY, last_id INTEGER NOT NULL);
    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ${ROWS})
      INSERT INTO old_customers SELECT id, 'First' || id || ' Last' || id FROM ids;
  `);
}

/**
 * Copies a batch of the rows after an id, unless a batch with this key was copied. Rows and key are committed in one
 * transaction, so the target database shows which batches were copied.
 *
 * @returns The old id of the batch's last row; `undefined` after the last batch.
 */
export function moveBatch(shop: Database.Database, afterId: number, key: string): number | undefined {
  const move = shop.transaction((): number | undefined => {
    const moved = shop.prepare<[string], LastId>("SELECT last_id AS lastId FROM batches WHERE key = ?").get(key);
    if (moved !== undefined) return moved.lastId;
    const rows = shop
      .prepare<[number, number], OldCustomer>("SELECT id, name FROM old_customers WHERE id > ? ORDER BY id LIMIT ?")
      .all(afterId, BATCH_ROWS);
    const insert = shop.prepare("INSERT INTO customers (old_id, first, last) VALUES (?, ?, ?)");
    for (const { id, name } of rows) insert.run(id, ...name.split(" "));
    const lastId = rows.at(-1)?.id;
    if (lastId !== undefined) shop.prepare("INSERT INTO batches VALUES (?, ?)").run(key, lastId);
    return lastId;
  });
  return move.immediate();
}

interface LastId {
  readonly lastId: number;
}

interface OldCustomer {
  readonly id: number;
  readonly name: string;
}
