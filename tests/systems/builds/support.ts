import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { type BuildCheckpoints, type BuildCheckpointsOptions, createBuildCheckpoints } from "waymark/builds";
import { type LogLine, recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

/** The spec's own statements. */
const SPEC_TABLES = `
  CREATE TABLE IF NOT EXISTS checkpoints (
    id TEXT PRIMARY KEY,
    build_id TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    tasks TEXT NOT NULL,          -- JSON array of Task objects
    current_phase INTEGER NOT NULL,
    metadata TEXT,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP
  );
  CREATE INDEX IF NOT EXISTS idx_build_id ON checkpoints(build_id);

  CREATE TABLE IF NOT EXISTS build_states (
    build_id TEXT PRIMARY KEY,
    prd_file TEXT NOT NULL,
    start_time TEXT NOT NULL,
    tasks TEXT NOT NULL,
    completed_tasks TEXT NOT NULL,
    failed_tasks TEXT NOT NULL,
    current_phase INTEGER NOT NULL,
    logs TEXT NOT NULL,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP
  );
`;
const SPEC_SAVE = `INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase, metadata) VALUES (?, ?, datetime('now'), ?, ?, ?)`;
export const SPEC_LATEST = `SELECT * FROM checkpoints WHERE build_id = ? ORDER BY timestamp DESC LIMIT 1`;

export interface Row {
  readonly id: string;
  readonly build_id: string;
  readonly timestamp: string;
  readonly tasks: string;
  readonly current_phase: number;
  readonly metadata: string | null;
  readonly created_at: string;
}

/** The spec's program: it makes missing tables, and has two functions. */
export function specProgram(path: string) {
  const db = connect(path);
  db.exec(SPEC_TABLES);
  return {
    db,
    saveCheckpoint(checkpoint: {
      id: string;
      buildId: string;
      tasks: unknown[];
      currentPhase: number;
      metadata?: object;
    }): void {
      const { id, buildId, tasks, currentPhase, metadata } = checkpoint;
      db.prepare(SPEC_SAVE).run(id, buildId, JSON.stringify(tasks), currentPhase, JSON.stringify(metadata));
    },
    getLatestCheckpoint: (buildId: string) => specLatest(db, buildId),
  };
}

export function specLatest(db: Database.Database, buildId: string): Row | undefined {
  return db.prepare<[string], Row>(SPEC_LATEST).get(buildId);
}

/** Every row of a build, in insertion order. */
export function rowsOf(db: Database.Database, buildId: string): Row[] {
  return db.prepare<[string], Row>("SELECT * FROM checkpoints WHERE build_id = ? ORDER BY rowid").all(buildId);
}

/** A connection of another program, closed when the test is over. */
export function connect(path: string): Database.Database {
  const database = new Database(path);
  onTestFinished(() => {
    database.close();
  });
  return database;
}

export interface OpenBuilds extends BuildCheckpoints {
  readonly path: string;
  /** The logged messages. */
  readonly lines: readonly LogLine[];
}

/** Checkpoints on the given database, or on a new one that doesn't exist yet. */
export async function openBuilds(options: Partial<BuildCheckpointsOptions> = {}): Promise<OpenBuilds> {
  const path = options.path ?? join(await tempFolder(), "builds.db");
  const logger = recordingLogger();
  const builds = createBuildCheckpoints({ logger, ...options, path, taskSchema: undefined });
  onTestFinished(() => builds.close());
  return { ...builds, path, lines: logger.lines };
}

/** A checkpoint to save. */
export function checkpoint(id: string, changes: { buildId?: string; tasks?: unknown[]; metadata?: object } = {}) {
  return { id, buildId: "b", tasks: [{ id: "compile", status: id }], currentPhase: 1, ...changes };
}
