import { statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import type { CorruptRecord, StorageAdapter } from "waymark";
import { SqliteAdapter, type SqliteAdapterOptions, type SqliteDriver } from "waymark/adapters/sqlite";
import { tempFolder } from "../../../support/temp-folder.js";

/** Opens an adapter on a new database that doesn't exist yet. */
export async function newStore(options: Partial<SqliteAdapterOptions> = {}) {
  const folder = await tempFolder();
  const path = join(folder, "checkpoints.db");
  return { folder, path, adapter: openAdapter({ path, ...options }) };
}

/** Opens an adapter, and closes it after the test. */
export function openAdapter(options: SqliteAdapterOptions): SqliteAdapter {
  const adapter = new SqliteAdapter(options);
  onTestFinished(() => adapter.close());
  return adapter;
}

/** Opens a connection of another program, and closes it after the test. */
export function connect(path: string): Database.Database {
  const database = new Database(path);
  onTestFinished(() => {
    database.close();
  });
  return database;
}

/** Returns the file's size after closing the adapter. */
export async function sizeAfterClosing(path: string, adapter: StorageAdapter): Promise<number> {
  await adapter.close();
  return statSync(path).size;
}

/** Returns the bytes of the payloads, without the checkpoints' rows. */
export function payloadBytes(path: string): unknown {
  return connect(path).prepare("SELECT sum(length(body)) FROM waymark_payloads").pluck().get();
}

/** better-sqlite3, which reports each database that is opened, and each statement that is prepared or run. */
export function spyingDriver(spy: {
  readonly prepared?: (sql: string, database: Database.Database) => void;
  readonly running?: (sql: string, database: Database.Database) => void;
  readonly reading?: (sql: string, database: Database.Database) => void;
  readonly opening?: () => void;
}): SqliteDriver {
  return class extends Database {
    constructor(path?: string | Buffer, options?: Database.Options) {
      spy.opening?.();
      super(path, options);
    }

    override prepare(sql: string): never {
      spy.prepared?.(sql, this);
      const statement = super.prepare(sql);
      const run = statement.run.bind(statement);
      statement.run = (...values: unknown[]) => {
        spy.running?.(sql, this);
        return run(...values);
      };
      const iterate = statement.iterate.bind(statement);
      statement.iterate = (...values: unknown[]) => {
        spy.running?.(sql, this);
        return iterate(...values);
      };
      const all = statement.all.bind(statement);
      statement.all = (...values: unknown[]) => {
        spy.reading?.(sql, this);
        return all(...values);
      };
      // The declared type is generic in a parameter that isn't used here.
      return statement as never;
    }
  };
}

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

/** Returns the ids in order; `corrupt <id or sequence>` for a corrupt record. */
export async function idsOf(items: AsyncIterable<{ readonly id: string } | CorruptRecord>): Promise<string[]> {
  return (await collect(items)).map((item) =>
    "corrupt" in item ? `corrupt ${item.id ?? item.sequence ?? "?"}` : item.id,
  );
}

/** Returns the ids of all checkpoints of task `t`, newest first. */
export function listed(adapter: StorageAdapter): Promise<string[]> {
  return idsOf(adapter.list({ taskId: "t", order: "newest" }));
}
