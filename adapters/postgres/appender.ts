import { matchRetry, nextSequence } from "../../src/contract/adapter.js";
import { sealedParts } from "../../src/contract/checkpoint.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { StorageError } from "../../src/contract/errors.js";
import { requireIntact } from "../../src/contract/header-index.js";
import { findDueTime, isTransient } from "../../src/contract/transient.js";
import type { Append as SqlAppend } from "../sql/adapter.js";
import { toBuffer, WHOLE_FORMS } from "../sql/history.js";
import { listColumns } from "../sql/rows.js";
import { bytesIn, digestId, lastTextName, toColumn } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { isTaken, mayPass } from "./errors.js";
import type { PayloadForm, PostgresHistories } from "./histories.js";
import type { PostgresLeases } from "./leases.js";
import type { PostgresReader } from "./reader.js";
import { DRAFT_COLUMNS } from "./statements/append.js";
import type { PostgresStatements } from "./statements.js";
import type { Replaced, TransientCheckpoints } from "./transient.js";
import { damagedTask } from "./writer.js";

/** An append that {@link PostgresAppender.prepare} has prepared. */
export interface Append extends SqlAppend {
  /** The checkpoint that the append replaces. */
  readonly replaced?: Replaced | undefined;
}

/** An append whose payload has the form in which it is stored. */
interface PlacedAppend extends Append {
  readonly piece: PayloadForm;
}

interface AppenderParts {
  readonly connection: PostgresConnection;
  readonly sql: PostgresStatements;
  readonly reader: PostgresReader;
  readonly histories: PostgresHistories;
  readonly leases: PostgresLeases;
  readonly transient: TransientCheckpoints;
}

/** Appends checkpoints. Each append is all or nothing, and checks its condition in the same step. */
export class PostgresAppender {
  readonly #parts: AppenderParts;

  constructor(parts: AppenderParts) {
    this.#parts = parts;
  }

  /**
   * Bundles the task's deltas if that is due, and finds the checkpoint that the append replaces, if it is a transient one.
   * If that one changes before the append, it isn't removed.
   */
  async prepare(append: SqlAppend): Promise<Append> {
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
   * Appends to different tasks with one statement and one commit. Returns the sequences of the stored checkpoints by
   * task. For each task without a sequence, call {@link insertUnderLock}, which stores the draft or tells why it can't.
   *
   * @param isLoaded - Whether `PostgresHistories.load` has just read the last text.
   */
  async insert(appends: readonly Append[], isLoaded = false): Promise<ReadonlyMap<string, number>> {
    const placed = await Promise.all(appends.map((append) => this.#place(append, isLoaded)));
    try {
      const stored = await this.#insertRows(this.#parts.connection, placed);
      for (const append of placed) {
        if (stored.has(append.draft.taskId)) await this.#trimBefore(append);
      }
      return stored;
    } catch (error) {
      // The server refused an append, usually because its id is taken, so it stored nothing.
      if (placed.length === 1 ? isTaken(error) : !mayPass(error)) return new Map();
      throw error;
    }
  }

  /**
   * Appends in a transaction that waits for the task's lock. If the draft was stored by a call whose answer was lost,
   * returns its sequence.
   */
  async insertUnderLock(append: Append): Promise<number> {
    const { draft } = append;
    // If this process doesn't know the task's last text, that was the only reason in most cases.
    if (await this.#parts.histories.load(this.#parts.connection, draft)) {
      const sequence = (await this.insert([append], true)).get(draft.taskId);
      if (sequence !== undefined) return sequence;
    }
    // If another process begins or removes the task during the first attempt, the second one finds it so.
    for (const isLast of [false, true]) {
      try {
        const tryInsert = (run: Statements) => this.#tryInsert(run, append);
        const { sequence, placed } = await this.#parts.connection.atomically(tryInsert, { twice: true });
        if (sequence === undefined) continue;
        if (placed !== undefined) await this.#trimBefore(placed);
        return sequence;
      } catch (error) {
        if (!isTaken(error)) throw error;
        // The key belongs to a checkpoint that the task's row doesn't count.
        if (isLast) throw damagedTask(draft.taskId);
      }
    }
    throw new StorageError(
      `Other writers kept beginning and removing task ${JSON.stringify(draft.taskId)}. Nothing was stored; try again.`,
      { retryable: true },
    );
  }

  /** Inserts under the task's lock, so that the conditions which are checked first still hold. */
  async #tryInsert(run: Statements, append: Append): Promise<{ sequence?: number | undefined; placed?: PlacedAppend }> {
    const { draft, condition, options } = append;
    const { taskId, id } = draft;
    const [[last, newest] = [0, 0]] = await run.rows(this.#parts.sql.changes.lock, taskId);
    const existing = await this.#parts.reader.get(taskId, id, run);
    // If the connection broke at the commit, a synchronous standby may not have the checkpoint yet. The commit of the
    // lock waits for the standby.
    if (existing !== undefined) return { sequence: matchRetry(requireIntact(existing), draft) };
    await this.#parts.leases.check(run, taskId, condition);
    nextSequence(taskId, { lastSequence: Number(last), newestSequence: Number(newest) }, condition, options);
    const placed = await this.#place(append, await this.#parts.histories.load(run, draft));
    return { placed, sequence: (await this.#insertRows(run, [placed])).get(taskId) };
  }

  async #place(append: Append, isLoaded: boolean): Promise<PlacedAppend> {
    const { taskId, payload } = append.draft;
    return { ...append, piece: await this.#parts.histories.place(taskId, payload, isLoaded) };
  }

  async #insertRows(run: Statements, appends: readonly PlacedAppend[]): Promise<ReadonlyMap<string, number>> {
    const stored = await run.rows(...this.#statementFor(appends));
    const rows = new Map(stored.map(([taskId, ...row]) => [taskId, row]));
    const sequences = new Map<string, number>();
    for (const { draft, piece } of appends) {
      const [sequence, seal] = rows.get(draft.taskId) ?? [];
      if (sequence === undefined) continue;
      sequences.set(draft.taskId, Number(sequence));
      this.#parts.histories.stored(draft, piece, Number(sequence));
      this.#parts.transient.note({ ...draft, sequence: Number(sequence), seal: String(seal) });
    }
    return sequences;
  }

  #statementFor(appends: readonly PlacedAppend[]): readonly [text: string, ...values: unknown[]] {
    const isFenced = appends.some(({ condition }) => condition.fencingToken !== undefined);
    const isReplacing = appends.some(({ replaced }) => replaced !== undefined);
    const parts = isReplacing ? (isFenced ? "fencedReplacing" : "replacing") : isFenced ? "fenced" : "plain";
    const rows = appends.map(describeAppend);
    const [row] = rows;
    if (rows.length > 1 || row === undefined)
      return [this.#parts.sql.acrossTasks.append[parts], ...packParameters(rows)];
    const { text, names } = this.#parts.sql.append[parts];
    return [text, ...names.map((name) => row[name] ?? null)];
  }

  /**
   * Removes unneeded pieces if the append has replaced a checkpoint and begun a new history. Failures are ignored,
   * because the append is stored, and the next removal of checkpoints removes the pieces too.
   */
  async #trimBefore({ draft, replaced, piece }: PlacedAppend): Promise<void> {
    const isFirstText = piece.after?.length === 0;
    if (replaced === undefined || !WHOLE_FORMS.includes(piece.form) || isFirstText) return;
    const trim = async (run: Statements): Promise<void> => {
      await run.rows(this.#parts.sql.changes.lock, draft.taskId);
      await run.change(this.#parts.sql.pieces.trim, draft.taskId);
    };
    await this.#parts.connection.atomically(trim, { twice: true }).catch(() => undefined);
  }
}

/** The values of an append by the names in `statements/append.ts`. */
function describeAppend({
  draft,
  condition,
  options,
  replaced,
  piece,
}: PlacedAppend): Readonly<Record<string, unknown>> {
  const { taskId, id, payload } = draft;
  const [before, after] = sealedParts(draft);
  return {
    ...Object.fromEntries(listColumns(draft).map((value, at) => [DRAFT_COLUMNS[at], value])),
    task_id: taskId,
    is_text: typeof payload.body === "string",
    id_digest: toHex(digestId(id)),
    before,
    after,
    task_due_at: findDueTime(draft),
    chosen: options.sequence,
    expected: condition.expectedSequence,
    token: condition.fencingToken,
    form: piece.form,
    builds_on: piece.after && toHex(piece.after),
    last_text: piece.text && toHex(lastTextName(payload.sha256, id)),
    replaced: replaced?.sequence,
    replaced_seals: replaced?.seals.join(" "),
    body: bytesIn(piece),
  };
}

/** The parameters of an append to many tasks: the rows as JSON without their bodies, and all bodies. */
function packParameters(rows: readonly Readonly<Record<string, unknown>>[]): readonly [json: string, bodies: Buffer] {
  const bodies = rows.map(({ body }) => toBuffer(body));
  let end = 0;
  const described = rows.map((row, at) => {
    // PostgreSQL counts bytes from 1.
    const body_start = end + 1;
    const body_length = bodies[at]?.length ?? 0;
    end += body_length;
    return { ...row, body: undefined, body_start, body_length };
  });
  const json = JSON.stringify(described, (_, value) => (typeof value === "string" ? toColumn(value) : value));
  return [json, Buffer.concat(bodies)];
}

/** Bytes as PostgreSQL parses them in JSON and in a parameter. */
function toHex(bytes: Buffer): string {
  return `\\x${bytes.toString("hex")}`;
}
