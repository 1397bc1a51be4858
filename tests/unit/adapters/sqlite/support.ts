import { statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import type { CorruptRecord, StorageAdapter } from "waymark";
import { SqliteAdapter, type SqliteAdapterOptions, type SqliteDriver } from "waymark/adapters/sqlite";
import { tempFolder } from "../../../support/temp-folder.js";

/** An adapter on a database of its own that doesn't exist yet. */
export async function newStore(options: Partial<SqliteAdapterOptions> = {}) {
  const folder = await tempFolder();
  const path = join(folder, "checkpoints.db");
  return { folder, path, adapter: openAdapter({ path, ...options }) };
}

/** An adapter that is closed when the test is over. */
export function openAdapter(options: SqliteAdapterOptions): SqliteAdapter {
  const adapter = new SqliteAdapter(options);
  onTestFinished(() => adapter.close());
  return adapter;
}

/** A connection of another program, closed when the test is over. */
export function connect(path: string): Database.Database {
  const database = new Database(path);
  onTestFinished(() => {
    database.close();
  });
  return database;
}

/** The file's size once the adapter has closed it. */
export async function sizeAfterClosing(path: string, adapter: StorageAdapter): Promise<number> {
  await adapter.close();
  return statSync(path).size;
}

/** Without the checkpoints' rows, which hold no payload. */
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

/** The ids in order; `corrupt <id or sequence>` for a corrupt record. */
export async function idsOf(items: AsyncIterable<{ readonly id: string } | CorruptRecord>): Promise<string[]> {
  return (await collect(items)).map((item) =>
    "corrupt" in item ? `corrupt ${item.id ?? item.sequence ?? "?"}` : item.id,
  );
}

/** The ids of all checkpoints of task `t`, newest first. */
export function listed(adapter: StorageAdapter): Promise<string[]> {
  return idsOf(adapter.list({ taskId: "t", order: "newest" }));
}
