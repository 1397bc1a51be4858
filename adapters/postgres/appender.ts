import { matchRetry } from "../../src/contract/adapter.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { StorageError } from "../../src/contract/errors.js";
import { requireIntact } from "../../src/contract/header-index.js";
import { isTransient } from "../../src/contract/transient.js";
import { type Append, getTaskId, requireSequence } from "../sql/adapter.js";
import { WHOLE_FORMS } from "../sql/history.js";
import type { LogAppend } from "../sql/records.js";
import { listRecords, makeAppendStatement, type PlacedAppend } from "./append-parameters.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { isTaken, mayPass } from "./errors.js";
import type { PostgresHistories } from "./histories.js";
import type { PostgresLeases } from "./leases.js";
import type { PostgresLog } from "./log.js";
import type { PostgresReader } from "./reader.js";
import type { PostgresStatements } from "./statements.js";
import type { TransientCheckpoints } from "./transient.js";
import { makeDamageError } from "./writer.js";

/** An append that {@link PostgresAppender.prepare} has prepared. */
export type PreparedAppend = Omit<PlacedAppend, "piece"> | LogAppend;

interface AppenderParts {
  readonly connection: PostgresConnection;
  readonly sql: PostgresStatements;
  readonly reader: PostgresReader;
  readonly histories: PostgresHistories;
  readonly leases: PostgresLeases;
  readonly transient: TransientCheckpoints;
  readonly log: PostgresLog;
}

/** Whether an append may be repeated: the ids of its checkpoint or events show what an earlier attempt has stored. */
export function isRepeatable(append: PreparedAppend): boolean {
  return "draft" in append || append.records.every(({ id }) => id !== undefined);
}

/** Appends checkpoints and records. Each append is all or nothing, and checks its condition in the same step. */
export class PostgresAppender {
  readonly #parts: AppenderParts;

  constructor(parts: AppenderParts) {
    this.#parts = parts;
  }

  /**
   * Bundles the task's deltas if there are enough of them, and finds the transient checkpoint that the append replaces.
   * If that checkpoint changes before the append, it isn't removed.
   */
  async prepare(append: Append | LogAppend): Promise<PreparedAppend> {
    if (!("draft" in append)) return append;
    const { draft, options } = append;
    await this.#parts.histories.foldIfDue(draft.taskId);
    if (options.replaces === undefined) return append;
    const known = this.#parts.transient.find(draft.taskId, options.replaces);
    if (known !== undefined) return { ...append, replaced: known };
    const stored = await this.#parts.reader.sealed(this.#parts.connection, draft.taskId, options.replaces);
    if (!stored || isCorrupt(stored) || !isTransient(stored)) return append;
    return { ...append, replaced: { sequence: stored.sequence, seals: [stored.seal] } };
  }

  /**
   * Appends to different tasks with one statement and one commit. Returns the last sequences of the stored appends by
   * task. For each task without a sequence, call {@link insertUnderLock}, which stores the append or throws the reason.
   * If this call throws, do the same for the repeatable appends (see {@link isRepeatable}).
   *
   * @param isLoaded - Whether `PostgresHistories.load` has just read the last text.
   */
  async insert(appends: readonly PreparedAppend[], isLoaded = false): Promise<ReadonlyMap<string, number>> {
    const placed = await Promise.all(appends.map((append) => this.#choosePiece(append, isLoaded)));
    try {
      const { connection } = this.#parts;
      const rows = appends.every(isRepeatable) ? connection.rows : connection.rowsOnce;
      const stored = await this.#insertRows(rows.bind(connection), placed);
      for (const append of placed) {
        if (stored.has(getTaskId(append))) await this.#trimBefore(append);
      }
      return stored;
    } catch (error) {
      if (error instanceof StorageError) throw error;
      // The server refused an append, usually because an id is taken, so it stored nothing.
      if (placed.length === 1 ? isTaken(error) : !mayPass(error)) return new Map();
      throw error;
    }
  }

  /**
   * Appends in a transaction that waits for the task's lock. If an earlier call stored the checkpoint or events, but
   * its answer was lost, returns their sequence.
   */
  async insertUnderLock(append: PreparedAppend): Promise<number> {
    const taskId = getTaskId(append);
    // The usual reason why the first append wasn't stored is that this process didn't have the task's last text.
    if ("draft" in append && (await this.#parts.histories.load(this.#parts.connection, append.draft))) {
      const sequence = (await this.insert([append], true)).get(taskId);
      if (sequence !== undefined) return sequence;
    }
    // If another process begins or removes the task during the first attempt, the second attempt sees the change.
    for (const isLast of [false, true]) {
      try {
        const tryInsert = (run: Statements) => this.#tryInsert(run, append);
        const { sequence, placed } = await this.#parts.connection.atomically(tryInsert, {
          twice: isRepeatable(append),
        });
        if (sequence === undefined) continue;
        if (placed !== undefined) await this.#trimBefore(placed);
        return sequence;
      } catch (error) {
        if (!isTaken(error)) throw error;
        // The taken key belongs to a checkpoint or record that the task's row doesn't count.
        if (isLast) throw makeDamageError(taskId);
      }
    }
    throw new StorageError(
      `Other writers kept beginning and removing task ${JSON.stringify(taskId)}. Nothing was stored; try again.`,
      { retryable: true },
    );
  }

  /** Checks the conditions and inserts under the task's lock, so that the conditions still hold at the insert. */
  async #tryInsert(
    run: Statements,
    append: PreparedAppend,
  ): Promise<{ sequence?: number | undefined; placed?: PlacedAppend | LogAppend }> {
    const taskId = getTaskId(append);
    const [[last, newest, event] = [0, 0, 0]] = await run.rows(this.#parts.sql.changes.lock, taskId);
    // The answer to the first call may have been lost before its commit was synced, or before it reached a synchronous
    // standby. The lock's commit waits for both, since the server's log has a single order.
    const stored = await this.#findStored(run, append);
    if (stored !== undefined) return { sequence: stored };
    await this.#parts.leases.check(run, taskId, append.condition);
    requireSequence(append, {
      lastSequence: Number(last),
      newestSequence: Number(newest),
      lastEvent: Number(event),
    });
    const isLoaded = "draft" in append && (await this.#parts.histories.load(run, append.draft));
    const placed = await this.#choosePiece(append, isLoaded);
    return { placed, sequence: (await this.#insertRows(run.rows, [placed])).get(taskId) };
  }

  /**
   * Returns the sequence if the append is already stored.
   *
   * @throws {CheckpointError} An id belongs to another checkpoint or event.
   */
  async #findStored(run: Statements, append: PreparedAppend): Promise<number | undefined> {
    if (!("draft" in append)) return this.#parts.log.matchEvents(run, append.taskId, append.records);
    const { draft } = append;
    const existing = await this.#parts.reader.get(draft.taskId, draft.id, run);
    if (existing !== undefined) return matchRetry(requireIntact(existing), draft);
    await this.#parts.log.matchEvents(run, draft.taskId, listRecords(append), true);
    return undefined;
  }

  async #choosePiece(append: PreparedAppend, isLoaded: boolean): Promise<PlacedAppend | LogAppend> {
    if (!("draft" in append)) return append;
    const { taskId, payload } = append.draft;
    return { ...append, piece: await this.#parts.histories.choosePiece(taskId, payload, isLoaded) };
  }

  async #insertRows(
    rowsOf: Statements["rows"],
    appends: readonly (PlacedAppend | LogAppend)[],
  ): Promise<ReadonlyMap<string, number>> {
    const stored = await rowsOf(...makeAppendStatement(this.#parts.sql, appends));
    const rows = new Map(stored.map(([taskId, ...row]) => [taskId, row]));
    const sequences = new Map<string, number>();
    for (const append of appends) {
      const taskId = getTaskId(append);
      const [last, seal] = rows.get(taskId) ?? [];
      if (last === undefined) continue;
      const sequence = Number(last);
      sequences.set(taskId, sequence);
      if (!("draft" in append)) continue;
      this.#parts.histories.stored(append.draft, append.piece, sequence);
      this.#parts.transient.note({ ...append.draft, sequence, seal: String(seal) });
    }
    return sequences;
  }

  /**
   * Removes unneeded pieces if the append has replaced a checkpoint and begun a new history. Failures are ignored,
   * because the append is stored, and the next removal of checkpoints also removes these pieces.
   */
  async #trimBefore(append: PlacedAppend | LogAppend): Promise<void> {
    if (!("draft" in append)) return;
    const { draft, replaced, piece } = append;
    const isFirstText = piece.after?.length === 0;
    if (replaced === undefined || !WHOLE_FORMS.includes(piece.form) || isFirstText) return;
    const trim = async (run: Statements): Promise<void> => {
      await run.rows(this.#parts.sql.changes.lock, draft.taskId);
      await run.change(this.#parts.sql.pieces.trim, draft.taskId);
    };
    await this.#parts.connection.atomically(trim, { twice: true }).catch(() => undefined);
  }
}
