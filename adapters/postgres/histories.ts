import { hash } from "node:crypto";
import type { CheckpointDraft, Payload, SealedSummary } from "../../src/contract/checkpoint.js";
import { encodeUtf8 } from "../../src/contract/utf8.js";
import {
  type CachedText,
  deltaAfter,
  FORM,
  folded,
  type HistoryText,
  isCompared,
  isFoldDue,
  lastTextAt,
  makeBundle,
  makeWholeOffLoop,
  type Piece,
  PLACES,
  staysStandalone,
  TextCache,
  textAt,
} from "../sql/history.js";
import { nameLastText } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { isDenied } from "./errors.js";
import type { PostgresStatements } from "./statements.js";

/** The form in which a payload is stored. */
export interface PayloadForm {
  readonly form: number;
  readonly body: string | Uint8Array;
  /**
   * The name of the task's last text, on which the piece builds. The append fails if the task has another last text by
   * then. Empty if the task must have no text; `undefined` if any text is allowed.
   */
  readonly after?: Buffer;
  readonly text?: HistoryText;
  /** The number of the whole text on which a delta builds; `undefined` for a whole text. */
  readonly first?: number;
}

interface TaskText extends CachedText {
  /** The value of the column `last_text`. */
  readonly name: Buffer;
  /** The number of the whole text on which this text builds. */
  readonly first: number;
  /** The number of payloads that were stored outside the history after this text. */
  readonly standaloneCount: number;
}

const NO_TEXT = Buffer.alloc(0);

/**
 * Stores payloads as pieces of their task's history. A piece's number is its checkpoint's sequence. A removed
 * checkpoint's piece is kept as long as other pieces build on it. The task's row names the last text by the SHA-256 of
 * the text and a part of the SHA-256 of its checkpoint's id, so that an append's own statement detects a text that
 * another process has added. The name includes the id because another process may store the same text again, as a delta
 * on a text that this process hasn't read.
 */
export class PostgresHistories {
  readonly #connection: PostgresConnection;
  readonly #sql: PostgresStatements;
  readonly #texts = new TextCache<string, TaskText>();

  constructor(connection: PostgresConnection, sql: PostgresStatements) {
    this.#connection = connection;
    this.#sql = sql;
  }

  /**
   * Chooses the form in which a payload is stored. @param isLoaded - True if {@link load} has just read the last text.
   */
  async choosePiece(taskId: string, { body }: Payload, isLoaded = false): Promise<PayloadForm> {
    if (!isCompared(body)) return { form: FORM.standalone, body };
    const bytes = encodeUtf8(body);
    const before = this.#texts.get(taskId);
    if (before !== undefined) {
      const delta = before.number - before.first < PLACES - 1 ? deltaAfter(before, bytes) : undefined;
      if (delta !== undefined) return { ...delta, after: before.name, first: before.first };
      if (staysStandalone(before, bytes, before.standaloneCount)) return { form: FORM.standalone, body };
    }
    const whole = await makeWholeOffLoop(bytes);
    return before || isLoaded ? whole : { ...whole, after: NO_TEXT };
  }

  stored({ taskId, id, payload: { sha256 } }: CheckpointDraft, { text, first }: PayloadForm, sequence: number): void {
    const before = this.#texts.get(taskId);
    if (text) {
      this.#cache(taskId, text, { number: sequence, first: first ?? sequence, sha256, name: nameLastText(sha256, id) });
    } else if (before) this.#texts.set(taskId, { ...before, standaloneCount: before.standaloneCount + 1 });
  }

  /** Makes a bundle of the task's single deltas, if there are enough of them. */
  async foldIfDue(taskId: string): Promise<void> {
    const known = this.#texts.get(taskId);
    if (known === undefined || !isFoldDue(known)) return;
    const fold = async (run: Statements) => {
      await run.rows(this.#sql.changes.lock, taskId);
      const rows = await run.rows(this.#sql.pieces.deltas, taskId);
      const deltas = rows.map(([number, form, body]) => ({ number: Number(number), form: Number(form), body }));
      const [first] = deltas;
      // If there are no deltas, another process has made the bundle.
      if (first === undefined) return;
      const { number, body } = makeBundle(deltas);
      await run.change(this.#sql.pieces.fold, taskId, first.number, number, body);
    };
    try {
      await this.#connection.atomically(fold, { twice: true });
    } catch (error) {
      // If the role may only append, the deltas stay single and take somewhat more space.
      if (!isDenied(error)) throw error;
    }
    const text = this.#texts.get(taskId);
    if (text) this.#texts.set(taskId, folded(text));
  }

  /**
   * Reads and caches the task's last text for the next payload, unless the text is damaged. Returns false if the
   * cached text is still the last one, or if the payload needs none.
   */
  async load(run: Statements, { taskId, payload: { body } }: CheckpointDraft): Promise<boolean> {
    if (!isCompared(body)) return false;
    const known = this.#texts.get(taskId)?.name ?? NO_TEXT;
    const [[last, pieces, sizeBytes] = []] = await run.rows(this.#sql.pieces.lastText, taskId);
    const name = Buffer.isBuffer(last) ? last : NO_TEXT;
    if (name.equals(known)) return false;
    const all = parsePieces(pieces);
    const number = all.at(-1)?.number ?? 0;
    const text = lastTextAt(number, all, sizeBytes === null ? undefined : Number(sizeBytes), body.length);
    // The digest is checked, because a damaged text would change every text that builds on it.
    const sha256 = text && hash("sha256", text.text);
    if (text !== undefined && sha256 !== undefined && name.toString("hex").startsWith(sha256)) {
      this.#cache(taskId, text, { number, first: all[0]?.number ?? number, sha256, name });
    } else this.#texts.delete(taskId);
    return true;
  }

  forget(taskId: string): void {
    this.#texts.delete(taskId);
  }

  getCached(taskId: string): CachedText | undefined {
    return this.#texts.get(taskId);
  }

  /**
   * Makes a checkpoint's text from the pieces that the reader's statement returns.
   *
   * @throws {BrokenHistoryError} The text can't be made.
   */
  joinText({ sequence, sizeBytes }: SealedSummary, pieces: unknown): string {
    return textAt(sequence, parsePieces(pieces), sizeBytes).text.toString();
  }

  /**
   * Like {@link joinText}, but for a task's newest checkpoint. Caches the text, since the next payload probably
   * resembles it.
   */
  joinNewestText({ taskId, id, sequence, sizeBytes, payload: { sha256 } }: SealedSummary, pieces: unknown): string {
    const all = parsePieces(pieces);
    const text = textAt(sequence, all, sizeBytes);
    this.#cache(taskId, text, {
      number: sequence,
      first: all[0]?.number ?? sequence,
      sha256,
      name: nameLastText(sha256, id),
    });
    return text.text.toString();
  }

  #cache(taskId: string, text: HistoryText, at: Pick<TaskText, "number" | "first" | "sha256" | "name">): void {
    this.#texts.set(taskId, { ...text, ...at, standaloneCount: 0 });
  }
}

/** Parses the bytes of pieces. Each piece has its number (8 bytes), form (4), length (4) and body. */
function parsePieces(bytes: unknown): readonly Piece[] {
  const pieces: Piece[] = [];
  if (!Buffer.isBuffer(bytes)) return pieces;
  for (let at = 0; at < bytes.length; ) {
    const body = at + 16;
    const end = body + bytes.readUInt32BE(at + 12);
    const number = Number(bytes.readBigInt64BE(at));
    pieces.push({ number, form: bytes.readInt32BE(at + 8), body: bytes.subarray(body, end) });
    at = end;
  }
  return pieces;
}
