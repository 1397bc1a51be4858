import { hash } from "node:crypto";
import type { Payload, SealedSummary } from "../../src/contract/checkpoint.js";
import { utf8Of } from "../../src/contract/utf8.js";
import {
  bundleOf,
  deltaAfter,
  FORM,
  type HistoryText,
  isCompared,
  isFoldDue,
  type Piece,
  PLACES,
  staysAlone,
  textAt,
  textIfIntact,
  wholeOffLoop,
} from "../sql/history.js";
import { Remembered, type RememberedText } from "../sql/remembered.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { isDenied } from "./errors.js";
import type { PostgresStatements } from "./statements.js";

/** What is stored of a payload. */
export interface PlacedPiece {
  readonly form: number;
  readonly body: string | Uint8Array;
  /** The digest of the task's last text, on which the piece builds; empty: it must have none. Otherwise it may have any. */
  readonly after?: Buffer;
  /** For the next one, once this one is stored. */
  readonly text?: HistoryText;
  /** The number of the whole text that a delta is of. A whole text has its own. */
  readonly first?: number;
}

/** The last text of a task. */
interface TaskText extends RememberedText {
  /** The number of the whole one. */
  readonly first: number;
  /** How many payloads in a row were stored alone since. */
  readonly alone: number;
}

const NO_TEXT = Buffer.alloc(0);

/**
 * Payloads as pieces of their task's history. A piece has its checkpoint's sequence as its number, and outlives the
 * checkpoint for as long as others are made of it. The task's row has the digest of the last text, so that an append sees
 * in the same statement whether another process has added one meanwhile.
 */
export class PostgresHistories {
  readonly #connection: PostgresConnection;
  readonly #sql: PostgresStatements;
  /** By task. */
  readonly #remembered = new Remembered<string, TaskText>();

  constructor(connection: PostgresConnection, sql: PostgresStatements) {
    this.#connection = connection;
    this.#sql = sql;
  }

  /** What to store of a payload. `isLoaded`: {@link load} has just looked. */
  async place(taskId: string, { body }: Payload, isLoaded = false): Promise<PlacedPiece> {
    if (!isCompared(body)) return { form: FORM.alone, body };
    const bytes = utf8Of(body);
    const before = this.#remembered.get(taskId);
    if (before !== undefined) {
      const isLong = before.number - before.first >= PLACES - 1;
      const delta = isLong ? undefined : deltaAfter(before, bytes);
      if (delta !== undefined) return { ...delta, after: Buffer.from(before.sha256, "hex"), first: before.first };
      if (staysAlone(before, bytes, before.alone)) return { form: FORM.alone, body };
    }
    const whole = await wholeOffLoop(bytes);
    return before || isLoaded ? whole : { ...whole, after: NO_TEXT };
  }

  /** The payload is stored under that sequence. */
  stored(taskId: string, { text, first }: PlacedPiece, sequence: number, sha256: string): void {
    const before = this.#remembered.get(taskId);
    if (text) this.#remember(taskId, text, { number: sequence, first: first ?? sequence, sha256 });
    else if (before) this.#remembered.set(taskId, { ...before, alone: before.alone + 1 });
  }

  /** Whether the next delta should find the ones before it in a bundle. */
  isFoldDue(taskId: string): boolean {
    const text = this.#remembered.get(taskId);
    return text !== undefined && isFoldDue(text);
  }

  /** Makes one bundle of the deltas after the last one. */
  async fold(taskId: string): Promise<void> {
    const fold = async (run: Statements) => {
      await run.rows(this.#sql.lock, taskId);
      const rows = await run.rows(this.#sql.deltas, taskId);
      const deltas = rows.map(([number, form, body]) => ({ number: Number(number), form: Number(form), body }));
      const [first] = deltas;
      // Another process may have done it.
      if (first === undefined) return;
      const { number, body } = bundleOf(deltas);
      await run.change(this.#sql.fold, taskId, first.number, number, body);
    };
    try {
      await this.#connection.atomically(fold, { twice: true });
    } catch (error) {
      // Who may only append has a history of deltas, which is somewhat larger.
      if (!isDenied(error)) throw error;
    }
    const text = this.#remembered.get(taskId);
    if (text) this.#remembered.set(taskId, { ...text, singles: 0, singleBytes: 0 });
  }

  /** Remembers the task's last text, for the payload that comes next, if it can be read. `false`: it has the digest `after`. */
  async load(taskId: string, { body }: Payload, after: Buffer): Promise<boolean> {
    const [[last, pieces, sizeBytes] = []] = await this.#connection.rows(this.#sql.lastText, taskId);
    if ((last ?? "") === after.toString("hex")) return false;
    // Somebody else in this process may have looked meanwhile.
    if (typeof last === "string" && this.#remembered.get(taskId)?.sha256 === last) return true;
    const all = piecesIn(pieces);
    const number = all.at(-1)?.number ?? 0;
    // Where its checkpoint is gone, nothing says its size, and a much larger text would be of no use.
    const text = textIfIntact(number, all, Number(sizeBytes ?? 2 * body.length));
    // A damaged text would make every text after it another one.
    if (text !== undefined && hash("sha256", text.text) === last) {
      this.#remember(taskId, text, { number, first: all[0]?.number ?? number, sha256: last });
    } else this.#remembered.delete(taskId);
    return true;
  }

  /** Reads the task's last text anew before the next save. */
  forget(taskId: string): void {
    this.#remembered.delete(taskId);
  }

  /** The text that needn't be read. */
  knownOf(taskId: string): RememberedText | undefined {
    return this.#remembered.get(taskId);
  }

  /**
   * The text of a checkpoint, of the pieces that the reader's statement gives.
   *
   * @throws {BrokenHistoryError} It can't be read.
   */
  textOf({ sequence, sizeBytes }: SealedSummary, pieces: unknown): string {
    return textAt(sequence, piecesIn(pieces), sizeBytes).text.toString();
  }

  /** The same of a task's newest checkpoint, which the next payload probably resembles. */
  newestTextOf({ taskId, sequence, sizeBytes, payload: { sha256 } }: SealedSummary, pieces: unknown): string {
    const all = piecesIn(pieces);
    const text = textAt(sequence, all, sizeBytes);
    this.#remember(taskId, text, { number: sequence, first: all[0]?.number ?? sequence, sha256 });
    return text.text.toString();
  }

  #remember(taskId: string, text: HistoryText, place: Pick<TaskText, "number" | "first" | "sha256">): void {
    this.#remembered.set(taskId, { ...text, ...place, alone: 0 });
  }
}

/** Each piece: its number (8 bytes), form (4), length (4), body. */
function piecesIn(bytes: unknown): readonly Piece[] {
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
