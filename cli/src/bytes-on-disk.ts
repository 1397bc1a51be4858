import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { FileLocation, ServerLocation } from "waymark/adapters";
import { ifThere, kindOfName } from "./storage-location.js";
import type { Store } from "./store.js";

/**
 * Returns how many bytes a storage takes on the disk: the blocks of its files, or its tables with their indexes.
 * `undefined` if the size can't be read.
 */
export async function bytesOnDisk({ location }: Pick<Store, "location">): Promise<number | undefined> {
  if (location === undefined) return undefined;
  if (location.scheme === "postgres") return bytesOfTables(location);
  const paths = location.scheme === "sqlite" ? [location.path, `${location.path}-wal`] : await recordFiles(location);
  let bytes = 0;
  for (const path of paths) {
    const found = await ifThere(stat(path));
    // Some file systems report no blocks.
    if (found !== undefined) bytes += found.blocks > 0 ? found.blocks * 512 : found.size;
  }
  return bytes;
}

/** Lists the record files. The storage may be a project's folder, so other files are skipped. */
async function recordFiles({ scheme, path }: FileLocation): Promise<readonly string[]> {
  const files: string[] = [];
  for (const entry of (await ifThere(readdir(path, { withFileTypes: true }))) ?? []) {
    if (!entry.isDirectory()) continue;
    const folder = join(path, entry.name);
    const names = (await ifThere(readdir(folder))) ?? [];
    for (const name of names) if (kindOfName(name) === scheme) files.push(join(folder, name));
  }
  return files;
}

/** Waymark's tables. Other programs may have tables in the same schema. */
const TABLES = ["tasks", "checkpoints", "pieces", "leases", "quarantine"];

async function bytesOfTables({ url, schema = "waymark" }: ServerLocation): Promise<number | undefined> {
  const { default: pg } = await import("pg");
  const client = new pg.Client(url);
  try {
    await client.connect();
    const sql = `SELECT sum(pg_total_relation_size(pg_class.oid)) AS bytes
      FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = $1 AND relname = ANY ($2) AND relkind = 'r'`;
    const { rows } = await client.query<{ bytes: string | null }>(sql, [schema, TABLES]);
    const bytes = rows[0]?.bytes ?? undefined;
    return bytes === undefined ? undefined : Number(bytes);
  } catch {
    // The size is optional: the checkpoints were read without it.
    return undefined;
  } finally {
    // The result was already read, and the connection closes when the process exits.
    await client.end().catch(() => undefined);
  }
}
