import type { CheckpointSummary, Payload, SealedSummary } from "../../src/contract/checkpoint.js";
import { encodeUtf8 } from "../../src/contract/utf8.js";
import {
  type CachedText,
  deltaAfter,
  FORM,
  folded,
  type HistoryText,
  isCompared,
  isDelta,
  isFoldDue,
  lastTextAt,
  makeBundle,
  makeWhole,
  type Piece,
  PLACES,
  staysStandalone,
  TextCache,
  textAt,
} from "../sql/history.js";
import { numberOr0 } from "../sql/rows.js";
import type { SqliteConnection } from "./connection.js";
import { toHex } from "./rows.js";

const LAST = `
  SELECT max(number) FROM (
    SELECT max(number) AS number FROM waymark_payloads WHERE number BETWEEN ? AND ?
    UNION ALL SELECT max(number) FROM waymark_checkpoints WHERE number BETWEEN ? AND ?)`;
/** Finds a history's last number, and its last text with the text's checkpoint. */
const END = `
  SELECT (${LAST}), p.number, c.id, c.sha256, c.size_bytes FROM (SELECT 1)
  LEFT JOIN waymark_payloads p ON p.number = (
    SELECT number FROM waymark_payloads WHERE number BETWEEN ? AND ? AND form > 0 ORDER BY number DESC LIMIT 1)
  LEFT JOIN waymark_checkpoints c ON c.number = p.number`;
const PIECES = `
  SELECT number, form, body FROM waymark_payloads WHERE form > 0 AND number >= ?
    AND number <= (SELECT min(number) FROM waymark_payloads WHERE form > 0 AND number BETWEEN ? AND ?) ORDER BY number`;
const INSERT = "INSERT INTO waymark_payloads (number, form, body) VALUES (?, ?, ?)";
const REMOVE = "DELETE FROM waymark_payloads WHERE form > 0 AND number BETWEEN ? AND ?";
/**
 * Removes all pieces that are newer than the newest piece still needed, which may be a bundle whose own number belongs
 * to a text that isn't needed.
 */
const REMOVE_AFTER = `
  DELETE FROM waymark_payloads WHERE form > 0 AND number BETWEEN ? AND ? AND number > (
    SELECT CASE WHEN last IS NULL THEN 0
      ELSE (SELECT min(number) FROM waymark_payloads WHERE form > 0 AND number BETWEEN last AND ?) END
    FROM (SELECT max(number) AS last FROM waymark_checkpoints WHERE number BETWEEN ? AND ? AND number NOT IN (
      SELECT number FROM waymark_payloads WHERE form = 0 AND number BETWEEN ? AND ?)))`;
const REMOVE_STANDALONE = "DELETE FROM waymark_payloads WHERE number = ? AND form = 0";

interface NumberedText extends HistoryText {
  readonly number: number;
}

/**
 * A text with its checkpoint's id. The id is needed because another process may store the same text again under the
 * same number, as a delta on another text.
 */
type NamedText = CachedText & Pick<CheckpointSummary, "id">;

/** The checkpoint to which a text belongs. */
interface Named extends Pick<CheckpointSummary, "id"> {
  readonly payload: Pick<Payload, "sha256">;
}

/** A payload's place, and its stored form. */
export interface PlacedPiece extends Piece {
  readonly text?: HistoryText;
}

/** Stores payloads as pieces of histories. All methods work in the caller's transaction. */
export class SqliteHistories {
  readonly #database: SqliteConnection;
  /** The cached last texts, by the first number of their history. */
  readonly #texts = new TextCache<number, NamedText>();

  constructor(database: SqliteConnection) {
    this.#database = database;
  }

  /**
   * Chooses a place for a new payload. The place is in the history of the preceding checkpoint, in the newest history
   * (whose checkpoints may be other forks of the same state), or in a new history.
   *
   * @param nearBy - The number of the checkpoint that the payload follows, if there is one.
   */
  choosePiece({ body }: Payload, nearBy: unknown): PlacedPiece {
    const near = typeof nearBy === "number" ? nearBy : undefined;
    if (!isCompared(body)) {
      const next = near === undefined ? undefined : numberAfter(this.#last(toRowids(near)));
      return { number: next ?? this.#newHistory(), form: FORM.standalone, body };
    }
    const bytes = encodeUtf8(body);
    const { next, before } = this.#end(near, bytes);
    const piece = deltaAt(next, before, bytes) ?? (near === undefined ? undefined : this.#inNewest(next, bytes));
    if (piece) return piece;
    if (next === undefined || before === undefined) return { number: next ?? this.#newHistory(), ...makeWhole(bytes) };
    if (staysStandalone(before, bytes, next - before.number - 1)) return { number: next, form: FORM.standalone, body };
    return { number: this.#newHistory(), ...makeWhole(bytes) };
  }

  insert({ number, form, body, text }: PlacedPiece, checkpoint: Named): void {
    this.#database.run(INSERT, number, form, body);
    if (text === undefined) return;
    const isDue = isFoldDue(text);
    if (isDue) this.#fold(number);
    // If the transaction is rolled back, `#end` doesn't find the checkpoint, and ignores this text.
    this.#cache(number, isDue ? folded(text) : text, checkpoint);
  }

  /**
   * Reads a checkpoint's payload that is stored as part of a history. @throws {BrokenHistoryError} The payload can't be
   * read.
   */
  readText(number: number, checkpoint: SealedSummary): string {
    const { payload, sizeBytes } = checkpoint;
    const history = findHistory(number);
    const cached = this.#texts.get(history);
    if (cached?.number === number && cached.sha256 === payload.sha256) return cached.text.toString();
    const found = textAt(number, this.#pieces(number), sizeBytes);
    if (number >= (cached?.number ?? 0)) this.#cache(number, found, checkpoint);
    return found.text.toString();
  }

  /**
   * Removes the pieces that no checkpoint needs any more. Call this after removing the checkpoints with these numbers.
   */
  trim(numbers: readonly number[]): void {
    // No text builds on a payload that is stored standalone, so it can be removed at once.
    this.trimTexts(numbers.filter((number) => this.#database.run(REMOVE_STANDALONE, number) === 0));
  }

  /** Like {@link trim}, but only for checkpoints without standalone payloads. */
  trimTexts(numbers: readonly number[]): void {
    for (const history of new Set(numbers.map(findHistory))) {
      const [first, last] = toRowids(history);
      this.#database.run(REMOVE_AFTER, first, last, last, first, last, first, last);
    }
  }

  /** Drops all cached texts, so that they are read again. */
  forget(): void {
    this.#texts.clear();
  }

  /** The highest number in use; 0 if no number is in use. */
  get newest(): number {
    return this.#last([1, Number.MAX_SAFE_INTEGER]);
  }

  #newHistory(): number {
    return findHistory(this.newest + PLACES);
  }

  #inNewest(next: number | undefined, bytes: Buffer): PlacedPiece | undefined {
    const newest = this.#end(this.newest, bytes);
    return newest.next === next ? undefined : deltaAt(newest.next, newest.before, bytes);
  }

  /** Returns the highest number in use in a range; 0 if no number is in use. */
  #last([first, last]: Range): number {
    return numberOr0(this.#database.one(LAST, first, last, first, last)?.[0]);
  }

  /**
   * Finds the end of the history that has the number `near`.
   *
   * @returns `next` is the number for the next payload, unless the history is full. `before` is the text with which
   *   that payload is compared, if there is one that can be read.
   */
  #end(
    near: number | undefined,
    bytes: Buffer,
  ): { readonly next?: number | undefined; readonly before?: NumberedText } {
    if (near === undefined || near === 0) return {};
    const range = toRowids(near);
    const [last, number, id, sha256, sizeBytes] = this.#database.one(END, ...range, ...range, ...range) ?? [];
    const next = numberAfter(numberOr0(last));
    if (next === undefined || typeof number !== "number") return { next };
    const cached = this.#texts.get(findHistory(near));
    // The cached text's id and digest are compared, because another process may have replaced the stored text.
    if (cached?.number === number && cached.id === id && cached.sha256 === toHex(sha256)) {
      return { next, before: cached };
    }
    const size = typeof sizeBytes === "number" ? sizeBytes : undefined;
    const text = lastTextAt(number, this.#pieces(number), size, bytes.length);
    return text ? { next, before: { ...text, number } } : { next };
  }

  #pieces(number: number): readonly Piece[] {
    const [first, end] = toRowids(number);
    return this.#database
      .all(PIECES, first, number, end)
      .map(([at, form, body]) => ({ number: numberOr0(at), form: numberOr0(form), body }));
  }

  /** Makes one bundle of the single deltas up to this number. */
  #fold(number: number): void {
    const pieces = this.#pieces(number);
    const deltas = pieces.slice(pieces.findLastIndex((piece) => !isDelta(piece)) + 1);
    const bundle = makeBundle(deltas);
    this.#database.run(REMOVE, deltas[0]?.number ?? number, number);
    this.#database.run(INSERT, bundle.number, bundle.form, bundle.body);
  }

  #cache(number: number, text: HistoryText, { id, payload: { sha256 } }: Named): void {
    this.#texts.set(findHistory(number), { ...text, number, id, sha256 });
  }
}

function deltaAt(number: number | undefined, before: HistoryText | undefined, bytes: Buffer): PlacedPiece | undefined {
  const piece = before && deltaAfter(before, bytes);
  return number !== undefined && piece ? { number, ...piece } : undefined;
}

/** The first and the last number of a range. */
type Range = readonly [first: number, last: number];

/** Returns the next number in the same history; `undefined` if the history is full. */
function numberAfter(last: number): number | undefined {
  return last % PLACES > 0 ? last + 1 : undefined;
}

/**
 * Returns the first number of this number's history. The first history has the numbers 1 to {@link PLACES}, and so on.
 */
function findHistory(number: number): number {
  return number - ((number - 1) % PLACES);
}

/** Returns the range of this number's history. */
export function toRowids(number: number): Range {
  const first = findHistory(number);
  return [first, first + PLACES - 1];
}
