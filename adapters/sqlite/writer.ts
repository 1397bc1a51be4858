import {
  type AppendCondition,
  checkExpected,
  isCorrupt,
  nextSequence,
  sequenceOfSame,
} from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointFailure,
  type JsonObject,
  type Payload,
  type SealedSummary,
  type StatusChange,
  type StoredCheckpoint,
  sealDraft,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { assertAbsent } from "./absence.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteRow } from "./driver.js";
import { isDamaged } from "./errors.js";
import { checkpointOf, numberOr0 } from "./rows.js";
import {
  DIGEST,
  INSERT_CHECKPOINT,
  INSERT_PAYLOAD,
  INSERT_TASK,
  KEEP_SEQUENCE,
  NEWEST_SEQUENCE,
  NUMBER_BY_ID,
  NUMBERS,
  PAYLOAD,
  POSITION,
  REMOVE_CHECKPOINT,
  REMOVE_PAYLOAD,
  REMOVE_TASK,
  SUMMARY_BY_ID,
  UPDATE_BODY,
  UPDATE_PAYLOAD,
  UPDATE_STATUS,
} from "./statements.js";

/**
 * What is changed in an open database of ours: each call in one transaction, with its condition checked in the same.
 * Every method is synchronous. They throw what SQLite throws.
 */
export class SqliteWriter {
  readonly #database: SqliteConnection;
  readonly #path: string;

  constructor(database: SqliteConnection, path: string) {
    this.#database = database;
    this.#path = path;
  }

  append(draft: CheckpointDraft, condition: AppendCondition | undefined): number {
    return this.#database.atomically(() => {
      const { taskId, id } = draft;
      const [given, newest, lastNumber, lastPayload, taken] =
        this.#database.one(POSITION, taskId, taskId, taskId, id) ?? [];
      if (taken !== null) return this.#sequenceOfSame(taken, draft);
      if (newest === null) assertAbsent(this.#database, this.#path, taskId);

      const newestSequence = numberOr0(newest);
      const position = { newestSequence, lastSequence: Math.max(numberOr0(given), newestSequence) };
      const record = sealDraft(draft, nextSequence(taskId, position, condition));
      // Above both: in a damaged database one table may have lost what the other one still has.
      const number = this.#numberAfter(Math.max(numberOr0(lastNumber), numberOr0(lastPayload)));
      if (given === null) this.#database.run(INSERT_TASK, taskId);
      this.#insert(number, record);
      return record.sequence;
    });
  }

  setStatus(taskId: string, id: string, change: StatusChange, condition: AppendCondition | undefined): boolean {
    return this.#database.atomically(() => {
      const row = this.#database.one(SUMMARY_BY_ID, taskId, id);
      if (row === undefined) return this.#absent(taskId);
      checkExpected(taskId, this.#newestSequence(taskId), condition);
      const record = this.#intact(taskId, id, row, "Its status was not changed");
      const { status, error, seal } = withStatus(record, change);
      this.#database.run(UPDATE_STATUS, status, jsonOf(error), seal, row[0]);
      return true;
    });
  }

  replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): boolean {
    return this.#database.atomically(() => {
      const row = this.#database.one(SUMMARY_BY_ID, taskId, id);
      if (row === undefined) return this.#absent(taskId);
      const record = this.#intact(taskId, id, row, "Its payload was not replaced");
      if (record.payload.sha256 !== expectedSha256) return false;
      const { sizeBytes, seal } = withPayload(record, payload);
      this.#database.run(UPDATE_PAYLOAD, sizeBytes, payload.encoding, payload.sha256, seal, row[0]);
      this.#database.run(UPDATE_BODY, payload.body, row[0]);
      return true;
    });
  }

  remove(taskId: string, ids: readonly string[] | "all", condition: AppendCondition | undefined): number {
    const remove = (removePayload: (number: unknown) => void) =>
      this.#database.atomically(() => {
        const newest = this.#newestSequence(taskId);
        checkExpected(taskId, newest, condition);
        let removed = 0;
        const numbers = this.#numbersOf(taskId, ids);
        if (numbers.length === 0) this.#absent(taskId);
        for (const [number] of numbers) {
          removePayload(number);
          removed += this.#database.run(REMOVE_CHECKPOINT, number);
        }
        if (ids === "all") this.#database.run(REMOVE_TASK, taskId);
        // Without this, the sequence of a newest checkpoint that is gone would be given again.
        else if (this.#newestSequence(taskId) !== newest) this.#database.run(KEEP_SEQUENCE, taskId, newest);
        return removed;
      });
    const removePayload = (number: unknown) => this.#database.run(REMOVE_PAYLOAD, number);
    try {
      return remove(removePayload);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      // SQLite can't tell which pages a damaged payload has. Their space stays lost, but the checkpoint goes all the same.
      const damaged = this.#damagedPayloads(taskId, ids);
      return remove((number) => damaged.has(number) || removePayload(number));
    }
  }

  /** @throws {CheckpointCorruptError} There is none: damage, or somebody, has given a row the last one. */
  #numberAfter(last: number): number {
    if (last < Number.MAX_SAFE_INTEGER) return last + 1;
    throw new CheckpointCorruptError(
      `The database ${this.#path} has a row whose number is ${last}, which no program came to by counting, and none is left ` +
        "above it. Nothing was stored, and what is there is intact. Verify names the row, and repair moves it to quarantine.",
    );
  }

  /** @throws {CheckpointCorruptError} It can't be read; `harmless` is what was therefore not done. */
  #intact(taskId: string, id: string, row: SqliteRow, harmless: string): SealedSummary {
    const record = checkpointOf(taskId, row, this.#path);
    if (!isCorrupt(record)) return record;
    throw new CheckpointCorruptError(
      `Checkpoint ${id} of task ${JSON.stringify(taskId)} can't be read: ${record.reason} (${record.location}). ` +
        `${harmless}, and it was left untouched.`,
      { cause: record.cause },
    );
  }

  /** @throws {CheckpointCorruptError} There may be what was looked for. */
  #absent(taskId: string): false {
    assertAbsent(this.#database, this.#path, taskId);
    return false;
  }

  #sequenceOfSame(number: unknown, draft: CheckpointDraft): number {
    const [sequence, sha256] = this.#database.one(DIGEST, number) ?? [];
    return sequenceOfSame({ sequence: numberOr0(sequence), sha256: String(sha256) }, draft);
  }

  #insert(number: number, record: StoredCheckpoint): void {
    const { taskId, sequence, id, createdAt, stage, label, parentId, metadata, status, error } = record;
    const { stateVersion, sizeBytes, payload, seal } = record;
    this.#database.run(
      INSERT_CHECKPOINT,
      number,
      taskId,
      sequence,
      id,
      createdAt,
      stage,
      label,
      parentId,
      jsonOf(metadata),
      status,
      jsonOf(error),
      stateVersion,
      sizeBytes,
      payload.encoding,
      payload.sha256,
      seal,
    );
    this.#database.run(INSERT_PAYLOAD, number, payload.body);
  }

  #numbersOf(taskId: string, ids: readonly string[] | "all"): readonly SqliteRow[] {
    if (ids === "all") return this.#database.all(NUMBERS, taskId);
    return ids.map((id) => this.#database.one(NUMBER_BY_ID, taskId, id)).filter((row) => row !== undefined);
  }

  /** Not to be called in a transaction: one that has met damage can do nothing more. */
  #damagedPayloads(taskId: string, ids: readonly string[] | "all"): ReadonlySet<unknown> {
    const damaged = new Set<unknown>();
    for (const [number] of this.#numbersOf(taskId, ids)) {
      try {
        this.#database.one(PAYLOAD, number);
      } catch (error) {
        if (!isDamaged(error)) throw error;
        damaged.add(number);
      }
    }
    return damaged;
  }

  #newestSequence(taskId: string): number {
    return numberOr0(this.#database.one(NEWEST_SEQUENCE, taskId)?.[0]);
  }
}

function jsonOf(value: JsonObject | CheckpointFailure | undefined): string | undefined {
  return value && JSON.stringify(value);
}
