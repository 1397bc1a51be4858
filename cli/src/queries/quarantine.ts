import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ifThere } from "../storage-location.js";
import type { Store } from "../store.js";

/** A damaged record that a repair has moved away. */
export interface QuarantinedRecord {
  /** The file, or the table. */
  readonly location: string;
  readonly reason?: string;
  /** When the record was moved. */
  readonly quarantinedAt?: string;
  readonly taskId?: string;
  readonly sequence?: number;
  readonly id?: string;
  readonly sizeBytes?: number;
}

export interface Quarantine {
  readonly location: string;
  readonly total: number;
  /** The newest first. */
  readonly records: readonly QuarantinedRecord[];
}

const REASON = ".reason.json";

/**
 * Lists the quarantine of a storage. `undefined` if the storage has none, or has another package's adapter.
 *
 * @param limit - The maximum number of records to return.
 */
export async function listQuarantine(
  { location }: Pick<Store, "location">,
  limit: number,
): Promise<Quarantine | undefined> {
  if (location === undefined) return undefined;
  if (location.scheme === "sqlite") return inDatabase(location.path, limit);
  if (location.scheme === "postgres") return onServer(location.url, location.schema ?? "waymark", limit);
  return inFolder(join(location.path, ".quarantine"), limit);
}

async function inFolder(folder: string, limit: number): Promise<Quarantine | undefined> {
  const tasks = await ifThere(readdir(folder));
  if (tasks === undefined) return undefined;
  const records: QuarantinedRecord[] = [];
  for (const task of tasks) {
    for (const name of (await ifThere(readdir(join(folder, task)))) ?? []) {
      if (name.endsWith(REASON)) continue;
      const location = join(folder, task, name);
      const size = (await ifThere(stat(location)))?.size;
      records.push({
        location,
        ...(size !== undefined && { sizeBytes: size }),
        ...reasonIn(await ifThere(readFile(`${location}${REASON}`, "utf8"))),
      });
    }
  }
  return toQuarantine(folder, records.length, records, limit);
}

/** Parses a reason file, which a kill may have cut short. */
function reasonIn(text: string | undefined): Partial<QuarantinedRecord> {
  try {
    return known(JSON.parse(text ?? "{}"));
  } catch {
    // The file was cut short, so the record is shown without its reason.
    return {};
  }
}

const COLUMNS = "quarantined_at, reason, task_id, sequence, id, size_bytes";

async function inDatabase(path: string, limit: number): Promise<Quarantine | undefined> {
  if ((await ifThere(stat(path))) === undefined) return undefined;
  const { default: Database } = await import("better-sqlite3");
  const database = new Database(path, { readonly: true, fileMustExist: true });
  const table = "waymark_quarantine";
  try {
    const total = Number(database.prepare(`SELECT count(*) FROM ${table}`).pluck().get());
    const sql = `SELECT ${COLUMNS} FROM ${table} ORDER BY quarantined_at DESC LIMIT ?`;
    const rows: unknown[] = database.prepare(sql).all(limit);
    return toQuarantine(table, total, toRecords(table, rows), limit);
  } finally {
    database.close();
  }
}

async function onServer(url: string, schema: string, limit: number): Promise<Quarantine> {
  const { default: pg } = await import("pg");
  const client = new pg.Client(url);
  const table = `${pg.escapeIdentifier(schema)}.quarantine`;
  try {
    await client.connect();
    const counted = await client.query<{ total: string }>(`SELECT count(*) AS total FROM ${table}`);
    const sql = `SELECT ${COLUMNS} FROM ${table} ORDER BY quarantined_at DESC LIMIT $1`;
    const { rows } = await client.query<Record<string, unknown>>(sql, [limit]);
    return toQuarantine(table, Number(counted.rows[0]?.total ?? 0), toRecords(table, rows), limit);
  } finally {
    // The result was already read, and the connection closes when the process exits.
    await client.end().catch(() => undefined);
  }
}

function toRecords(table: string, rows: readonly unknown[]): readonly QuarantinedRecord[] {
  return rows.map((row) => ({ location: table, ...known(row) }));
}

function toQuarantine(
  location: string,
  total: number,
  records: readonly QuarantinedRecord[],
  limit: number,
): Quarantine {
  const sorted = records.toSorted((a, b) => ((a.quarantinedAt ?? "") > (b.quarantinedAt ?? "") ? -1 : 1));
  return { location, total, records: sorted.slice(0, limit) };
}

/** Returns the fields that have the right type. The fields of a damaged record may have any. */
function known(found: unknown): Partial<QuarantinedRecord> {
  if (typeof found !== "object" || found === null) return {};
  const fields = new Map(Object.entries(found));
  const text = (name: string) => {
    const value: unknown = fields.get(name);
    return typeof value === "string" ? value : undefined;
  };
  const number = (name: string) => {
    const value: unknown = fields.get(name) ?? undefined;
    const read = typeof value === "string" || typeof value === "number" ? Number(value) : Number.NaN;
    return Number.isSafeInteger(read) ? read : undefined;
  };
  return Object.fromEntries(
    Object.entries({
      reason: text("reason"),
      quarantinedAt: text("quarantinedAt") ?? text("quarantined_at"),
      taskId: text("taskId") ?? text("task_id"),
      id: text("id"),
      sequence: number("sequence"),
      sizeBytes: number("size_bytes"),
    }).filter(([, value]) => value !== undefined),
  );
}
