import { copyFile, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CorruptRecord, StorageError } from "waymark";
import type { OtherSystem } from "./index.js";
import { ReadOnlyStorage, type SeenCheckpoint } from "./read-only-storage.js";

const ROWS =
  "SELECT id, build_id, timestamp, tasks, current_phase, metadata FROM checkpoints ORDER BY timestamp, rowid";

/** Returns the database of waymark/builds at the path, if there is one. */
export async function buildsAt(path: string): Promise<OtherSystem | undefined> {
  // Checkpoints of a killed program may be only in SQLite's log.
  if (!(await isBuilds(path)) && !(await isBuilds(`${path}-wal`))) return undefined;
  const how = "Its createBuildCheckpoints works on it.";
  const what = "a database of waymark/builds";
  return {
    url: `sqlite:${path}`,
    what,
    how,
    open: async () => ReadOnlyStorage.of(await checkpointsIn(path), `${path} is ${what}. ${how}`),
  };
}

async function checkpointsIn(path: string): Promise<(SeenCheckpoint | CorruptRecord)[]> {
  const { default: Database } = await import("better-sqlite3");
  // SQLite creates files beside a database that it opens, so it gets a copy.
  const folder = await mkdtemp(join(tmpdir(), "waymark-"));
  try {
    const copy = join(folder, "builds.db");
    await copyFile(path, copy);
    await copyFile(`${path}-wal`, `${copy}-wal`).catch(unlessMissing);
    const database = new Database(copy);
    const rows = database.prepare(ROWS).raw().all();
    database.close();
    return rows.map((row) => checkpointOf(path, row));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StorageError(`The database ${path} can't be read: ${reason}. Nothing was changed.`, { cause });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function checkpointOf(path: string, row: unknown): SeenCheckpoint | CorruptRecord {
  const [id, buildId, timestamp, tasks, currentPhase, metadata] = Array.isArray(row) ? row.map(textOf) : [];
  const [taskId = "", known = ""] = [buildId, id];
  try {
    return {
      taskId,
      id: known,
      // SQLite writes UTC times without the T and the Z.
      createdAt: new Date(`${timestamp}`.replace(/^([\d-]+) ([\d:.]+)$/, "$1T$2Z")).toISOString(),
      stage: `phase-${currentPhase}`,
      status: "running",
      state: {
        tasks: JSON.parse(tasks ?? ""),
        currentPhase: Number(currentPhase),
        metadata: JSON.parse(metadata || "{}"),
      },
    };
  } catch (cause) {
    const location = `${path}, table checkpoints, id ${JSON.stringify(known)}`;
    return { corrupt: true, location, reason: "a column can't be read", taskId, id: known, cause };
  }
}

function unlessMissing(error: unknown): void {
  if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
}

function textOf(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

/** Recognizes the database by its table definitions, which are stored as text at the beginning of the file. */
async function isBuilds(path: string): Promise<boolean> {
  const file = await open(path).catch(() => undefined);
  try {
    const read = await file?.read(Buffer.alloc(64 * 1024)).catch(() => undefined);
    return read?.buffer.includes("TABLE build_states") ?? false;
  } finally {
    await file?.close();
  }
}
