import {
  type AppendCondition,
  type AppendOptions,
  type ExpectedTask,
  isCorrupt,
  matchRetry,
  nextSequence,
  requireNewest,
  requireUnchangedTasks,
} from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type Payload,
  type SealedSummary,
  type StatusChange,
  sealedParts,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { StorageError } from "../../src/contract/errors.js";
import { requireIntact } from "../../src/contract/header-index.js";
import { dueAtOf, isTransient } from "../../src/contract/transient.js";
import { FORM, WHOLE_FORMS } from "../sql/history.js";
import { columnsOf, HIGHEST, jsonOf, type SqlRow } from "../sql/rows.js";
import { idDigestOf, toColumn } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { updateDueAt } from "./due.js";
import { isTaken, mayPass } from "./errors.js";
import type { PayloadForm, PostgresHistories } from "./histories.js";
import type { PostgresLeases } from "./leases.js";
import type { PostgresReader } from "./reader.js";
import { DRAFT_COLUMNS, type PostgresStatements } from "./statements.js";
import type { Replaced, TransientCheckpoints } from "./transient.js";

/** The arguments of an append. */
export interface Append {
  readonly draft: CheckpointDraft;
  readonly condition: AppendCondition;
  readonly options: AppendOptions;
  /** The checkpoint that the append replaces, from {@link PostgresWriter.replacedBy}. */
  readonly replaced?: Replaced | undefined;
}

/** Changes the tables. Each call is all or nothing, and checks its condition in the same step. */
export class PostgresWriter {
  readonly #connection: PostgresConnection;
  readonly #sql: PostgresStatements;
  readonly #reader: PostgresReader;
  readonly #histories: PostgresHistories;
  readonly #leases: PostgresLeases;
  readonly #retryForMs: number;
  readonly #transient: TransientCheckpoints;

  constructor(
    connection: PostgresConnection,
    sql: PostgresStatements,
    parts: {
      readonly reader: PostgresReader;
      readonly histories: PostgresHistories;
      readonly leases: PostgresLeases;
      readonly transient: TransientCheckpoints;
    },
    { retryForMs }: { readonly retryForMs: number },
  ) {
    this.#connection = connection;
    this.#sql = sql;
    this.#reader = parts.reader;
    this.#histories = parts.histories;
    this.#leases = parts.leases;
    this.#transient = parts.transient;
    this.#retryForMs = retryForMs;
  }

  /**
   * Appends with one statement, in one round trip. If its answer is lost, the statement is repeated, and finds that
   * this same checkpoint has taken the id.
   */
  async append(append: Append): Promise<number> {
    const { draft, condition, options } = append;
    const { taskId, payload } = draft;
    if (this.#histories.isFoldDue(taskId)) await this.#histories.fold(taskId);
    let placed = await this.#histories.place(taskId, payload);
    const deadline = performance.now() + this.#retryForMs;
    let wasTaken = false;
    // There are at least two attempts, since the first may only show that another process has stored a text.
    for (let attempt = 0; attempt < 2 || performance.now() < deadline; attempt++) {
      const outcome = await this.#tryAppend(append, placed);
      if (typeof outcome === "number") return outcome;
      // If another process has added a text, or this process doesn't know the last text yet, the text is read, and the
      // append is tried again.
      if (placed.after !== undefined && (await this.#histories.load(taskId, payload, placed.after))) {
        placed = await this.#histories.place(taskId, payload, true);
        continue;
      }
      // The position is read before the checkpoint. In the other order, if another process stored the same draft in
      // between, it would look like a conflict.
      const [[last, newest] = [0, 0]] = await this.#connection.rows(this.#sql.position, taskId);
      const existing = await this.#reader.get(taskId, draft.id);
      if (existing !== undefined) {
        const same = matchRetry(requireIntact(existing), draft);
        // If the connection broke at the commit, a synchronous standby may not have the checkpoint yet. The commit of
        // this statement waits for the standby.
        await this.#connection.rows(this.#sql.lock, taskId);
        return same;
      }
      await this.#leases.check(this.#connection, taskId, condition);
      nextSequence(taskId, { lastSequence: Number(last), newestSequence: Number(newest) }, condition, options);
      // Another process has written to the task or removed it, so the append is tried again. But if the key is taken
      // twice, it belongs to a checkpoint that the task's row doesn't count.
      if (outcome === "taken" && wasTaken) throw damagedTask(taskId);
      wasTaken = outcome === "taken";
    }
    throw new StorageError(
      `Other writers kept changing task ${JSON.stringify(taskId)} for all ${this.#retryForMs} ms. Nothing was stored, and its ` +
        "checkpoints are intact. Try again.",
      { retryable: true },
    );
  }

  /**
   * The checkpoint that an append replaces, if it is a transient one. If it changes before the append, it isn't removed.
   */
  async replacedBy({ draft, options }: Append): Promise<Append["replaced"]> {
    if (options.replaces === undefined) return undefined;
    const known = this.#transient.find(draft.taskId, options.replaces);
    if (known !== undefined) return known;
    const found = await this.#reader.sealed(this.#connection, draft.taskId, options.replaces);
    if (!found || isCorrupt(found) || !isTransient(found)) return undefined;
    return { sequence: found.sequence, seals: [found.seal] };
  }

  isFoldDue({ draft }: Append): boolean {
    return this.#histories.isFoldDue(draft.taskId);
  }

  /**
   * Appends to many tasks with one statement and one commit. Returns the sequences of the stored checkpoints by task.
   * For each draft without a sequence, call {@link append}, which stores it or says why it can't.
   */
  async appendMany(appends: readonly Append[]): Promise<ReadonlyMap<unknown, number>> {
    const placed = await Promise.all(
      appends.map(async (append) => {
        const { taskId, payload } = append.draft;
        return { ...append, piece: await this.#histories.place(taskId, payload) };
      }),
    );
    const bodies = Buffer.allocUnsafe(placed.reduce((bytes, { piece }) => bytes + byteLengthOf(piece), 0));
    let start = 0;
    const rows = placed.map(({ draft, condition, piece, replaced }) => {
      const { columns, before, after } = describedBy(draft);
      const { form, body } = piece;
      const length = byteLengthOf(piece);
      const dueAt = dueAtOf(draft);
      if (typeof body === "string") bodies.write(body, start);
      else bodies.set(body, start);
      start += length;
      const described = columns.map((value) => (typeof value === "string" ? toColumn(value) : value));
      return {
        ...Object.fromEntries(DRAFT_COLUMNS.map((name, at) => [name, described[at]])),
        // PostgreSQL counts from 1.
        ...{ task_id: toColumn(draft.taskId), is_text: isText(draft.payload), start: start - length + 1, length },
        ...{ id_digest: idDigestOf(draft.id).toString("hex"), before, after },
        ...{ expected: condition.expectedSequence, token: condition.fencingToken },
        ...{
          form,
          last_text: piece.after?.toString("hex"),
          due_at: dueAt === undefined ? undefined : toColumn(dueAt),
          replaced: replaced?.sequence,
          replaced_seal: replaced?.seals.join(" "),
        },
      };
    });
    const isFenced = appends.some(({ condition }) => condition.fencingToken !== undefined);
    const isReplacing = appends.some(({ replaced }) => replaced !== undefined);
    const { acrossTasks: sql } = this.#sql;
    const unfenced = isReplacing ? sql.appendManyReplacing : sql.appendMany;
    const fenced = isReplacing ? sql.appendManyReplacingUnderLeases : sql.appendManyUnderLeases;
    const statement = isFenced ? fenced : unfenced;
    try {
      const stored = await this.#connection.rows(statement, JSON.stringify(rows), bodies);
      const rowOf = new Map(stored.map(([taskId, ...row]) => [taskId, row]));
      for (const { draft, piece, replaced } of placed) {
        const row = rowOf.get(draft.taskId);
        if (row === undefined) continue;
        this.#stored(draft, piece, row);
        if (replaced) await this.#trimBefore(draft.taskId, piece);
      }
      return new Map(stored.map(([taskId, sequence]) => [taskId, Number(sequence)]));
    } catch (error) {
      // The server refused one of the appends, usually because its id is taken. So nothing was stored, and the caller
      // makes each append by itself.
      if (mayPass(error)) throw error;
      return new Map();
    }
  }

  async #tryAppend(append: Append, placed: PayloadForm): Promise<number | "taken" | undefined> {
    const { draft, condition, options, replaced } = append;
    const { expectedSequence = null, fencingToken } = condition;
    const { sequence = null } = options;
    const values = [...valuesOf(draft, placed), expectedSequence, sequence, placed.form, placed.after ?? null];
    values.push(dueAtOf(draft) ?? null);
    if (replaced) values.push(replaced.sequence, replaced.seals.join(" "));
    try {
      const unfenced = replaced ? this.#sql.appendReplacing : this.#sql.append;
      const fenced = replaced ? this.#sql.appendReplacingUnderLease : this.#sql.appendUnderLease;
      const { first, next } = fencingToken === undefined ? unfenced : fenced;
      const token = fencingToken === undefined ? [] : [fencingToken];
      const [given] = await this.#connection.rows(placed.form === FORM.delta ? next : first, ...values, ...token);
      if (given === undefined) return undefined;
      this.#stored(draft, placed, given);
      if (replaced) await this.#trimBefore(draft.taskId, placed);
      return Number(given[0]);
    } catch (error) {
      if (!isTaken(error)) throw error;
      return "taken";
    }
  }

  #stored(draft: CheckpointDraft, placed: PayloadForm, [sequence, seal]: SqlRow): void {
    this.#histories.stored(draft, placed, Number(sequence));
    this.#transient.note({ ...draft, sequence: Number(sequence), seal: String(seal) });
  }

  /**
   * Removes unneeded pieces after a text has begun a new history. Failures are ignored, because the append is stored,
   * and the next removal of checkpoints removes the pieces too.
   */
  async #trimBefore(taskId: string, { form, after }: PayloadForm): Promise<void> {
    const isFirstText = after?.length === 0;
    if (!WHOLE_FORMS.includes(form) || isFirstText) return;
    const trim = async (run: Statements): Promise<void> => {
      await run.rows(this.#sql.lock, taskId);
      await run.change(this.#sql.trim, taskId);
    };
    await this.#connection.atomically(trim, { twice: true }).catch(() => undefined);
  }

  async setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition: AppendCondition | undefined,
  ): Promise<boolean> {
    return this.#change(taskId, id, condition, async (record, run) => {
      await this.#requireNewest(run, taskId, condition);
      const { sequence, status, error, seal } = withStatus(record, change);
      await run.change(this.#sql.setStatus, taskId, sequence, status, jsonOf(error) ?? null, seal);
      const row = await run.rows(this.#sql.setTaskStatus, taskId, sequence, status);
      await updateDueAt(run, this.#sql, taskId, row);
      return true;
    });
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    return this.#change(taskId, id, undefined, async (record, run) => {
      if (record.payload.sha256 !== expectedSha256) return false;
      const { sequence, sizeBytes, seal } = withPayload(record, payload);
      const described = [sizeBytes, payload.encoding, payload.sha256, seal, isText(payload), bytesIn(payload)];
      await run.change(this.#sql.replacePayload, taskId, sequence, ...described);
      await run.change(this.#sql.trim, taskId);
      return true;
    });
  }

  async remove(
    taskId: string,
    ids: readonly string[] | "all",
    condition: AppendCondition | undefined,
  ): Promise<number> {
    return this.#connection.atomically(async (run) => {
      await this.#leases.check(run, taskId, condition);
      if (!(await this.#lock(run, taskId))) {
        requireNewest(taskId, 0, condition);
        return 0;
      }
      await this.#requireNewest(run, taskId, condition);
      if (ids === "all") return run.change(this.#sql.removeAll, taskId);
      const removed = await run.rows(this.#sql.removeSome, taskId, ids.map(idDigestOf));
      if (removed.length > 0) {
        const row = await run.rows(this.#sql.shortenTask, taskId, removed.length);
        await updateDueAt(run, this.#sql, taskId, row);
      }
      if (removed.some(([hasPiece]) => hasPiece === true)) await run.change(this.#sql.trim, taskId);
      return removed.length;
    });
  }

  async removePrefix(prefix: string, expected: readonly ExpectedTask[] | undefined): Promise<number> {
    const { lockTasks, newestOfTasks, removePrefix } = this.#sql.acrossTasks;
    return this.#connection.atomically(async (run) => {
      // Only these tasks are changed, since a task that begins after this isn't locked.
      const locked = await run.rows(lockTasks, prefix, prefix + HIGHEST);
      if (expected !== undefined) {
        const rows = await run.rows(newestOfTasks, prefix, prefix + HIGHEST);
        const found = rows.map(([taskId, newest]) => ({ taskId: String(taskId), newestSequence: Number(newest) }));
        requireUnchangedTasks(prefix, found, expected);
      }
      return run.change(removePrefix, locked.flat());
    });
  }

  #change(
    taskId: string,
    id: string,
    condition: AppendCondition | undefined,
    change: (record: SealedSummary, run: Statements) => Promise<boolean>,
  ): Promise<boolean> {
    this.#transient.forget(taskId);
    return this.#connection.atomically(async (run) => {
      await this.#leases.check(run, taskId, condition);
      if (!(await this.#lock(run, taskId))) return false;
      const found = await this.#reader.sealed(run, taskId, id);
      return found !== undefined && change(requireIntact(found), run);
    });
  }

  /**
   * Locks the task's row. Returns false if there is no such task. Then the caller must not change the task, because
   * others may begin it, and it isn't locked.
   */
  async #lock(run: Statements, taskId: string): Promise<boolean> {
    const [row] = await run.rows(this.#sql.lock, taskId);
    if (row !== undefined) return true;
    // A statement sees a single moment. If it finds checkpoints but no row of the task, the task is damaged: a task that
    // others have just begun would have both.
    const [[last, , , , , , checkpoints] = []] = await run.rows(this.#sql.taskRow, taskId);
    if (last === null && Number(checkpoints) > 0) throw damagedTask(taskId);
    return false;
  }

  async #requireNewest(run: Statements, taskId: string, condition: AppendCondition | undefined): Promise<void> {
    if (condition?.expectedSequence === undefined) return;
    const [[newest] = []] = await run.rows(this.#sql.newest, taskId);
    requireNewest(taskId, Number(newest ?? 0), condition);
  }
}

function damagedTask(taskId: string): StorageError {
  return new StorageError(
    `The row of task ${JSON.stringify(taskId)} is damaged: it doesn't count all of the task's checkpoints. Nothing was ` +
      "changed, and the checkpoints are intact. Run `waymark repair` to rebuild the row.",
  );
}

function valuesOf(draft: CheckpointDraft, placed: PayloadForm): readonly unknown[] {
  const { columns, before, after } = describedBy(draft);
  const described = [idDigestOf(draft.id), ...columns, before, after];
  return [draft.taskId, isText(draft.payload), bytesIn(placed), ...described];
}

function describedBy(draft: CheckpointDraft) {
  const [before, after] = sealedParts(draft);
  return { columns: columnsOf(draft).map((value) => value ?? null), before, after };
}

function byteLengthOf({ body }: Pick<Payload, "body">): number {
  return typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
}

function bytesIn({ body }: Pick<Payload, "body">): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

function isText({ body }: Payload): boolean {
  return typeof body === "string";
}
