import { isDeepStrictEqual } from "node:util";
import type { SqlRow } from "../../adapters/sql/rows.js";
import type { SqliteConnection } from "../../adapters/sqlite/connection.js";
import { isDamaged } from "../../adapters/sqlite/errors.js";
import type { CheckpointSummary } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointConflictError, CheckpointCorruptError, isError } from "../../src/contract/errors.js";
import { planRetention, type RetentionPolicy } from "../../src/manager/retention-plan.js";
import type { BuildState, Checkpoint, SavedBuild, SavedCheckpoint } from "./checkpoint.js";
import { damaged, parse, toBuildState, toCheckpoint, toSavedBuild } from "./rows.js";
import {
  BUILD_IDS,
  BY_ID,
  BY_ROWID,
  INSERT,
  IS_TAKEN,
  LISTED,
  NEWEST,
  REMOVE,
  REMOVE_CHECKPOINTS,
  REMOVE_STATE,
  SAVE_STATE,
  STATE,
  STATES,
} from "./statements.js";
import type { BuildDraft, StateDraft } from "./stored-form.js";

/** The result of a save. */
export interface SaveOutcome {
  readonly saved: SavedCheckpoint;
  /** Why old checkpoints could not be removed after the save. */
  readonly retentionError?: unknown;
}

/** An item, with the damaged records that the search met before it. */
export interface Found<Item> {
  readonly item: Item;
  readonly damage: readonly CorruptRecord[];
}

/**
 * An open database of builds. Every method is synchronous, makes its changes in one transaction, and throws SQLite's
 * errors.
 */
export class BuildStore {
  readonly #database: SqliteConnection;
  readonly #path: string;
  /** The number in the last new id. It only grows, so the id of a removed checkpoint isn't used again. */
  #lastNumber = 0;

  constructor(database: SqliteConnection, path: string) {
    this.#database = database;
    this.#path = path;
  }

  /** Stores the draft as its build's newest checkpoint, and removes what the policy doesn't keep. */
  save(draft: BuildDraft, policy: RetentionPolicy): SaveOutcome {
    let isRetaining = false;
    try {
      const saved = this.#database.atomically(() => {
        const inserted = this.#insert(draft);
        isRetaining = true;
        this.#removeUnclaimed(this.#plan(draft.buildId, policy));
        isRetaining = false;
        return inserted;
      });
      return { saved };
    } catch (error) {
      if (!isRetaining) throw error;
      // Old checkpoints can't be removed, so this transaction only saves the new one.
      return { saved: this.#database.atomically(() => this.#insert(draft)), retentionError: error };
    }
  }

  /** Like {@link save}, but does nothing if the build's newest checkpoint has the same content. */
  saveIfChanged(draft: BuildDraft, policy: RetentionPolicy): SaveOutcome | undefined {
    const newest = this.#readable(() => this.#database.one(NEWEST, draft.buildId));
    return newest !== undefined && holdsSame(newest, draft) ? undefined : this.save(draft, policy);
  }

  /** The build's newest readable checkpoint. */
  latest(buildId: string): Found<Checkpoint | undefined> {
    const newest = this.#readable(() => this.#database.one(NEWEST, buildId));
    const found = newest && toCheckpoint(newest, this.#path);
    if (found !== undefined && !isCorrupt(found)) return { item: found, damage: [] };

    const damage: CorruptRecord[] = [];
    for (const [rowid, id] of this.#database.all(LISTED, buildId)) {
      const item = this.#read(rowid, id, buildId);
      if (item === undefined) continue;
      if (!isCorrupt(item)) return { item, damage };
      damage.push(item);
    }
    return { item: undefined, damage };
  }

  /**
   * Removes what the policy doesn't keep. Returns how many were removed.
   *
   * @throws {CheckpointCorruptError} No checkpoint that would be kept can be read; nothing was removed.
   */
  prune(buildId: string, policy: RetentionPolicy): number {
    const { keep, remove } = this.#plan(buildId, policy);
    if (remove.length === 0) return 0;
    const isIntact = ([rowid, id]: SqlRow) => {
      const item = this.#read(rowid, id, buildId);
      return item !== undefined && !isCorrupt(item);
    };
    // Checked before the transaction, because a transaction that meets damage can do nothing more.
    if (keep.some(isIntact)) {
      return this.#database.atomically(() => this.#removeUnclaimed(this.#plan(buildId, policy)));
    }
    throw new CheckpointCorruptError(
      `Nothing of build ${JSON.stringify(buildId)} was removed from ${this.#path}: none of the ${keep.length} ` +
        "checkpoints to keep can be read. Save a new checkpoint first.",
    );
  }

  /** Removes everything of a build. Returns whether there was anything. */
  removeBuild(buildId: string): boolean {
    return this.#database.atomically(() => {
      const checkpoints = this.#database.run(REMOVE_CHECKPOINTS, buildId);
      return this.#database.run(REMOVE_STATE, buildId) + checkpoints > 0;
    });
  }

  /** Every build with checkpoints. */
  buildIds(): readonly string[] {
    return this.#database.all(BUILD_IDS).map(([buildId]) => String(buildId));
  }

  saveState({ columns }: StateDraft): void {
    this.#database.run(SAVE_STATE, ...columns, formatTimestamp(Date.now()));
  }

  /** @throws {CheckpointCorruptError} The build has a state, but it can't be read. */
  state(buildId: string): BuildState | undefined {
    const row = this.#database.one(STATE, buildId);
    return row && toBuildState(buildId, row, this.#path);
  }

  /** Newest first. */
  savedBuilds(): Found<SavedBuild[]> {
    const item: SavedBuild[] = [];
    const damage: CorruptRecord[] = [];
    for (const row of this.#database.all(STATES)) {
      const found = toSavedBuild(row, this.#path);
      if ("corrupt" in found) damage.push(found);
      else item.push(found);
    }
    return { item, damage };
  }

  #insert(draft: BuildDraft): SavedCheckpoint {
    const { buildId, tasks, currentPhase, metadata } = draft;
    const existing = draft.id === undefined ? undefined : this.#database.one(BY_ID, draft.id);
    if (existing !== undefined) return this.#sameAs(existing, draft);

    const nowMs = Date.now();
    const id = draft.id ?? this.#newId(buildId, nowMs);
    const parts = [id, buildId, tasks, currentPhase, metadata, formatTimestamp(nowMs), buildId];
    const [timestamp] = this.#database.one(INSERT, ...parts) ?? [];
    return { id, buildId, timestamp: String(timestamp) };
  }

  /**
   * Called if the id is taken. If the existing checkpoint has the same content, the save is a repeat and succeeds;
   * otherwise it is a conflict.
   */
  #sameAs(existing: SqlRow, draft: BuildDraft): SavedCheckpoint {
    const [id, buildId, timestamp] = existing;
    if (buildId === draft.buildId && holdsSame(existing, draft)) {
      return { id: String(id), buildId: draft.buildId, timestamp: String(timestamp) };
    }
    const what = buildId === draft.buildId ? "with another content" : `in build ${JSON.stringify(buildId)}`;
    throw new CheckpointConflictError(
      `Checkpoint ${draft.id} exists ${what} in ${this.#path}. Nothing was stored; ids are unique in a database, so use another one.`,
    );
  }

  /**
   * `{buildId}-{milliseconds}`. If that id is taken, the next millisecond is tried, until an id is free. Runs in the
   * transaction, so no other process takes the id meanwhile.
   */
  #newId(buildId: string, nowMs: number): string {
    this.#lastNumber = Math.max(Math.floor(nowMs), this.#lastNumber + 1);
    while (this.#database.one(IS_TAKEN, `${buildId}-${this.#lastNumber}`) !== undefined) this.#lastNumber += 1;
    return `${buildId}-${this.#lastNumber}`;
  }

  /** The rows of {@link LISTED} to keep and to remove. */
  #plan(buildId: string, policy: RetentionPolicy): { keep: readonly SqlRow[]; remove: readonly SqlRow[] } {
    const rows = this.#database.all(LISTED, buildId);
    const summaries = rows.map((row, newer) => toSummary(buildId, row, rows.length - newer));
    const { keep, remove } = planRetention(buildId, summaries, policy, Date.now());
    const rowOf = ({ checkpoint }: (typeof keep)[number]) => rows[rows.length - checkpoint.sequence] ?? [];
    return { keep: keep.map(rowOf), remove: remove.map(rowOf) };
  }

  #removeUnclaimed({ remove }: { readonly remove: readonly SqlRow[] }): number {
    return remove.reduce((removed, [rowid]) => removed + this.#database.run(REMOVE, rowid), 0);
  }

  #read(rowid: unknown, id: unknown, buildId: string): Checkpoint | CorruptRecord | undefined {
    try {
      const row = this.#database.one(BY_ROWID, rowid);
      return row && toCheckpoint(row, this.#path);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return damaged(this.#path, { id, buildId }, "SQLite can't read it", error);
    }
  }

  /** The call's result; `undefined` if SQLite meets damage. */
  #readable<Result>(call: () => Result): Result | undefined {
    try {
      return call();
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return undefined;
    }
  }
}

/**
 * A row's summary, for the retention planner. No row says whether its build is finished, so the newest checkpoint
 * always stays.
 */
function toSummary(buildId: string, row: SqlRow, sequence: number): CheckpointSummary {
  const [, id, timestamp, sizeBytes, currentPhase] = row;
  return {
    taskId: buildId,
    id: String(id),
    sequence,
    createdAt: parseTimestamp(timestamp),
    stage: `phase-${String(currentPhase)}`,
    status: "running",
    stateVersion: 1,
    sizeBytes: typeof sizeBytes === "number" ? sizeBytes : 0,
  };
}

/** In the form of SQLite's `datetime('now')`. */
function formatTimestamp(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 19).replace("T", " ");
}

/** ISO 8601 for a timestamp in SQLite's form or in ISO 8601; `""` for anything else. */
function parseTimestamp(timestamp: unknown): string {
  const ms = Date.parse(`${String(timestamp).replace(" ", "T").replace(/Z?$/, "Z")}`);
  return Number.isNaN(ms) ? "" : new Date(ms).toISOString();
}

/** Whether a row of `CHECKPOINT_COLUMNS` has the draft's content. */
function holdsSame(row: SqlRow, draft: BuildDraft): boolean {
  const [, , , tasks, currentPhase, metadata] = row;
  return (
    currentPhase === draft.currentPhase &&
    isSameJson(tasks, draft.tasks) &&
    isSameJson(metadata === null || metadata === "" ? "{}" : metadata, draft.metadata ?? "{}")
  );
}

function isSameJson(a: unknown, b: string): boolean {
  if (a === b) return true;
  const value = parse(a);
  return !isError(value) && isDeepStrictEqual(value, JSON.parse(b));
}
