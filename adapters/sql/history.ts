import { promisify, types } from "node:util";
import {
  type BrotliOptions,
  brotliCompress,
  brotliCompressSync,
  brotliDecompressSync,
  constants,
  deflateRawSync,
  inflateRawSync,
} from "node:zlib";
import { isError } from "../../src/contract/errors.js";
import { deltaBetween, encodeNumbers, NumberReader, withDeltas } from "./delta.js";

/**
 * How many payloads a history may have. A history is a run of payloads: the first one is stored whole, each later one
 * as a delta from the previous payload. Every {@link FOLD} deltas become one bundle, which takes less space and a
 * single read. A bundle has the number of its last delta.
 */
export const PLACES = 1024;

/** The forms in which payloads are stored. */
export const FORM = {
  /** The payload itself. Nothing builds on it. */
  standalone: 0,
  /** A text that others build on. */
  plain: 1,
  /** A text that others build on, compressed by Brotli. */
  packed: 2,
  /** The changes since the previous text. */
  delta: 3,
  /** Several deltas, deflated. */
  bundle: 4,
} as const;

/** The forms of whole texts, with which a history may begin. */
export const WHOLE_FORMS: readonly number[] = [FORM.plain, FORM.packed];

/** A row of the table of payloads. */
export interface Piece {
  readonly number: number;
  readonly form: number;
  readonly body: unknown;
}

/** A text of a history, and the cost of reading it. */
export interface HistoryText {
  readonly text: Buffer;
  /** The bytes to decode for this text: those of the whole text on which it builds, and of all deltas since. */
  readonly decoded: number;
  /** The number of deltas after the last bundle. They have `singleBytes` bytes in total. */
  readonly singles: number;
  readonly singleBytes: number;
}

/** A piece is damaged or missing, so no text that builds on it can be read. */
export class BrokenHistoryError extends Error {}

/** The size from which texts are compared with others. For smaller texts, a comparison costs more than it saves. */
const MIN_COMPARED_BYTES = 1024;

/** Whether a payload is a text that is compared with others. */
export function isCompared(body: string | Uint8Array): body is string {
  return typeof body === "string" && body.length >= MIN_COMPARED_BYTES;
}

/**
 * This many single deltas become a bundle, or fewer if they have {@link FOLD_BYTES}. Making a bundle takes about 5 ms.
 */
export const FOLD = 64;
const FOLD_BYTES = 256 * 1024;
/**
 * After this many texts in a row were stored standalone, outside the history, the next text that doesn't become a delta
 * begins a new history.
 */
export const MAX_STANDALONE = 8;
/** Texts smaller than this aren't compressed. */
const MIN_PACKED = 32 * 1024;
/** Larger texts aren't compressed on the event loop: 1 MB takes about 4 ms. */
const MAX_PACKED_ON_LOOP = 8 * 1024 * 1024;
/**
 * Brotli's quality. At this quality, the result is as small as deflate's in a third of the time, and repeated states in
 * a text are found.
 */
const QUALITY = 3;

/** To read a text, at most this many times its size may be decoded, not counting later texts in its bundle. */
const MAX_DECODED = 2;
/**
 * The maximum size of a bundle: `bytes` plus `times` the size of its text. A bundle may contain the deltas that its
 * texts need, {@link FOLD_BYTES}, and one more delta that is no larger than the previous text. On PostgreSQL, it may
 * contain several more deltas if several processes save before one of them makes the bundle.
 */
const MAX_BUNDLED = { times: 16, bytes: 16 * FOLD_BYTES };

/** A text's stored form, and the text with which the next one is compared. */
export interface TextPiece {
  readonly form: number;
  readonly body: Buffer;
  readonly text: HistoryText;
}

/** Makes the piece of a whole text, which begins a history. */
export function makeWhole(bytes: Buffer): TextPiece {
  const isPacked = bytes.length >= MIN_PACKED && bytes.length <= MAX_PACKED_ON_LOOP;
  return isPacked
    ? wholeIn(FORM.packed, brotliCompressSync(bytes, brotliOptions(bytes)), bytes)
    : wholeIn(FORM.plain, bytes, bytes);
}

/** Like {@link makeWhole}, but compresses off the event loop. */
export async function makeWholeOffLoop(bytes: Buffer): Promise<TextPiece> {
  if (bytes.length < MIN_PACKED) return wholeIn(FORM.plain, bytes, bytes);
  return wholeIn(FORM.packed, await promisify(brotliCompress)(bytes, brotliOptions(bytes)), bytes);
}

function wholeIn(form: number, body: Buffer, bytes: Buffer): TextPiece {
  return { form, body, text: { text: bytes, decoded: bytes.length, singles: 0, singleBytes: 0 } };
}

/** Returns Brotli's options. The window is as large as the text, which limits the memory. */
function brotliOptions({ length }: Buffer): BrotliOptions {
  const window = Math.min(Math.ceil(Math.log2(length)), constants.BROTLI_MAX_WINDOW_BITS);
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = constants;
  return {
    params: { [BROTLI_PARAM_QUALITY]: QUALITY, [BROTLI_PARAM_LGWIN]: window, [BROTLI_PARAM_SIZE_HINT]: length },
  };
}

/**
 * Makes the delta for a text after `before`. Returns `undefined` if a delta saves too little, or if reading the text
 * would decode more than {@link MAX_DECODED} times its size.
 */
export function deltaAfter(before: HistoryText, bytes: Buffer): TextPiece | undefined {
  const most = Math.min(bytes.length / 2, bytes.length * MAX_DECODED - before.decoded);
  const delta = most > 0 ? deltaBetween(before.text, bytes, most) : undefined;
  if (delta === undefined) return undefined;
  return {
    form: FORM.delta,
    body: delta,
    text: {
      text: bytes,
      decoded: before.decoded + delta.length,
      singles: before.singles + 1,
      singleBytes: before.singleBytes + delta.length,
    },
  };
}

/**
 * Whether a text that doesn't become a delta is stored standalone, instead of beginning a new history. A text much
 * smaller than `text` may be of another kind, and the next text may resemble `text` again. But if a delta can turn the
 * smaller text into `text`, the next text may build on the smaller text, so the smaller text begins a history.
 *
 * @param standaloneCount - The number of payloads that were stored standalone since the history's last text.
 */
export function staysStandalone({ text }: HistoryText, bytes: Buffer, standaloneCount: number): boolean {
  const isSmaller = bytes.length * 2 < text.length && standaloneCount < MAX_STANDALONE;
  return isSmaller && deltaBetween(bytes, text, text.length / 2) === undefined;
}

/** Whether the deltas after the last bundle should become a bundle. */
export function isFoldDue({ singles, singleBytes }: HistoryText): boolean {
  return singles >= FOLD || singleBytes >= FOLD_BYTES;
}

/** Returns the text as it is after its single deltas became a bundle. */
export function folded<Text extends HistoryText>(text: Text): Text {
  return { ...text, singles: 0, singleBytes: 0 };
}

/** Makes a bundle of deltas. */
export function makeBundle(deltas: readonly Piece[]): Piece {
  const number = deltas.at(-1)?.number ?? 0;
  const bodies = deltas.map(({ body }) => toBuffer(body));
  const places = deltas.flatMap((delta, index) => [number - delta.number, bodies[index]?.length ?? 0]);
  const bytes = Buffer.concat([encodeNumbers([deltas.length, ...places]), ...bodies]);
  return { number, form: FORM.bundle, body: deflateRawSync(bytes) };
}

/**
 * Makes the text with this number.
 *
 * @param pieces - The history's pieces in order, up to the piece with this number or to the bundle that contains it.
 * @param sizeBytes - The size limit of the text. No piece is inflated beyond what a text of this size may need.
 * @throws {BrokenHistoryError} The text's piece, or a piece on which it builds, is damaged or missing.
 */
export function textAt(number: number, pieces: readonly Piece[], sizeBytes: number): HistoryText {
  // Pieces before the last whole text aren't needed, so they may be damaged.
  const first = pieces.findLastIndex(({ form }) => WHOLE_FORMS.includes(form));
  const whole = pieces[first];
  if (whole === undefined) {
    throw new BrokenHistoryError(pieces.length === 0 ? "its payload is missing" : MISSING);
  }
  try {
    const after = pieces.slice(first + 1).flatMap((piece) => (isDelta(piece) ? piece : unfolded(piece, sizeBytes)));
    const deltas = after.filter((delta) => delta.number <= number);
    if ((deltas.at(-1) ?? whole).number !== number) throw new BrokenHistoryError(MISSING);
    const bodies = deltas.map(({ body }) => toBuffer(body));
    const stored = toBuffer(whole.body);
    const base =
      whole.form === FORM.plain ? stored : brotliDecompressSync(stored, { maxOutputLength: sizeBytes * MAX_DECODED });
    const singles = pieces.length - 1 - pieces.findLastIndex((piece) => !isDelta(piece));
    return {
      text: withDeltas(base, bodies, sizeBytes),
      decoded: base.length + sumLengths(bodies),
      singles,
      singleBytes: sumLengths(bodies.slice(bodies.length - singles)),
    };
  } catch (cause) {
    if (cause instanceof BrokenHistoryError) throw cause;
    throw new BrokenHistoryError(
      `a piece of its payload is damaged: ${isError(cause) ? cause.message : String(cause)}`,
      { cause },
    );
  }
}

/**
 * Returns the last text of a history, with which the next text is compared; `undefined` if it can't be read.
 *
 * @param sizeBytes - The text's size according to its checkpoint. If it isn't known, the text may have at most twice
 *   the next text's size, since a larger text would be useless.
 */
export function lastTextAt(
  number: number,
  pieces: readonly Piece[],
  sizeBytes: number | undefined,
  nextBytes: number,
): HistoryText | undefined {
  try {
    return textAt(number, pieces, sizeBytes ?? 2 * nextBytes);
  } catch (error) {
    if (error instanceof BrokenHistoryError) return undefined;
    throw error;
  }
}

/** Whether a piece is a single delta. */
export function isDelta({ form }: Pick<Piece, "form">): boolean {
  return form === FORM.delta;
}

function sumLengths(deltas: readonly Buffer[]): number {
  return deltas.reduce((sum, { length }) => sum + length, 0);
}

const MISSING = "a piece of its payload is missing";

/** Returns the deltas of a bundle. */
function unfolded({ number, body }: Piece, sizeBytes: number): readonly Piece[] {
  const bytes = inflateRawSync(toBuffer(body), {
    maxOutputLength: sizeBytes * MAX_BUNDLED.times + MAX_BUNDLED.bytes,
  });
  const reader = new NumberReader(bytes);
  const places = Array.from({ length: reader.count(2) }, () => ({
    number: number - reader.next(),
    length: reader.next(),
  }));
  let at = reader.at;
  return places.map(({ length, ...place }) => {
    at += length;
    return { ...place, form: FORM.delta, body: bytes.subarray(at - length, at) };
  });
}

/** Returns the bytes of a piece. @throws {RangeError} The body isn't bytes. */
export function toBuffer(body: unknown): Buffer {
  if (types.isUint8Array(body)) return Buffer.from(body.buffer, body.byteOffset, body.length);
  throw new RangeError("it isn't bytes");
}

/** The limit for all cached texts together. A single text is cached even if it is larger. */
const MAX_CACHED_BYTES = 32 * 1024 * 1024;

/** A text with the number and digest of its checkpoint. */
export interface CachedText extends HistoryText {
  readonly number: number;
  readonly sha256: string;
}

/**
 * Caches the last text of each history, for comparison with the next text. The key is the adapter's key for the
 * history. The least recently used text is dropped first.
 */
export class TextCache<Key, Text extends CachedText = CachedText> {
  readonly #texts = new Map<Key, Text>();
  #bytes = 0;

  get(key: Key): Text | undefined {
    return this.#texts.get(key);
  }

  set(key: Key, text: Text): void {
    this.delete(key);
    this.#texts.set(key, text);
    this.#bytes += text.text.length;
    for (const oldest of this.#texts.keys()) {
      if (this.#bytes <= MAX_CACHED_BYTES || this.#texts.size === 1) break;
      this.delete(oldest);
    }
  }

  clear(): void {
    this.#texts.clear();
    this.#bytes = 0;
  }

  delete(key: Key): void {
    this.#bytes -= this.#texts.get(key)?.text.length ?? 0;
    this.#texts.delete(key);
  }
}
