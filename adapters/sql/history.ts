import { promisify } from "node:util";
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
import { bytesOfNumbers, deltaBetween, NumberReader, type StoredDelta, withDeltas } from "./delta.js";

/**
 * A history is a row of at most so many payloads, each stored as what changed since the one before it. The first is whole.
 * Every {@link FOLD} deltas become one bundle, which takes less space, is read at once, and has the number of the last.
 */
export const PLACES = 1024;

/** How a piece of a history is stored. Version 1 of the tables has 0 to 4. */
export const FORM = {
  /** A text, compressed by Brotli. Nothing builds on it. */
  alonePacked: -1,
  /** The payload itself. Nothing builds on it. */
  alone: 0,
  /** A text that others build on, deflated. Version 1 alone writes it, as the next two. */
  deflated: 1,
  /** The changes since the text before it: see {@link StoredDelta}. */
  deltaInOrder: 2,
  /** Several such deltas, deflated. */
  bundleInOrder: 3,
  /** A text that others build on. */
  plain: 4,
  /** The changes since the text before it. */
  delta: 5,
  /** Several deltas, of either kind, deflated. */
  bundle: 6,
  /** A text that others build on, compressed by Brotli. */
  packed: 7,
} as const;

/** The forms of the texts that a history may begin with. */
export const WHOLE_FORMS: readonly number[] = [FORM.deflated, FORM.plain, FORM.packed];
/** The forms of a delta by itself. */
export const DELTA_FORMS: readonly number[] = [FORM.deltaInOrder, FORM.delta];
/** The forms of several deltas. */
export const BUNDLE_FORMS: readonly number[] = [FORM.bundleInOrder, FORM.bundle];

/** A row of the payloads. */
export interface Piece {
  readonly number: number;
  readonly form: number;
  readonly body: unknown;
}

/** A text of a history, and what was read for it. */
export interface HistoryText {
  readonly text: Buffer;
  /** The bytes of the whole text that it is made of, and of all deltas since. */
  readonly decoded: number;
  /** The deltas after the last bundle: how many, and their bytes. */
  readonly singles: number;
  readonly singleBytes: number;
}

/** A piece is damaged or missing, so no text after it can be read. */
export class BrokenHistoryError extends Error {}

/** Smaller texts aren't compared with others: that costs more than it saves. */
const SMALLEST_BYTES = 1024;

/** Whether a payload is a text of a history. */
export function isCompared(body: string | Uint8Array): body is string {
  return typeof body === "string" && body.length >= SMALLEST_BYTES;
}

/** So many deltas become a bundle, or about so many bytes of them: that takes some 5 ms. */
export const FOLD = 64;
const FOLD_BYTES = 256 * 1024;
/** So many payloads in a row may be stored alone in a history that the next ones don't resemble any more. */
export const MOST_ALONE = 8;
/** Texts smaller than this aren't compressed. */
const LEAST_PACKED = 32 * 1024;
/** On the event loop, larger texts aren't compressed: 1 MB takes some 4 ms. */
const MOST_PACKED_ON_LOOP = 8 * 1024 * 1024;
/** Results are as small as deflated ones, in a third of the time, and states that repeat in the text are found. */
const QUALITY = 3;

/** To read a text, at most so many times its size is decoded, but for what comes after it in its bundle. */
const MOST_DECODED = 2;
/**
 * A bundle has what its texts need, {@link FOLD_BYTES}, and a delta that is no larger than the text before it; on
 * PostgreSQL some more of those, if several processes save before one of them makes the bundle.
 */
const MOST_BUNDLED = { times: 16, bytes: 16 * FOLD_BYTES };

/** How a text is stored, and what the next one is compared with. */
export interface TextPiece {
  readonly form: number;
  readonly body: Buffer;
  readonly text: HistoryText;
}

/** A text that a history begins with. */
export function wholeOf(bytes: Buffer): TextPiece {
  return isPackedOnLoop(bytes) ? wholeIn(FORM.packed, packed(bytes), bytes) : wholeIn(FORM.plain, bytes, bytes);
}

/** The same, with the work off the event loop. */
export async function wholeOffLoop(bytes: Buffer): Promise<TextPiece> {
  if (bytes.length < LEAST_PACKED) return wholeIn(FORM.plain, bytes, bytes);
  return wholeIn(FORM.packed, await promisify(brotliCompress)(bytes, brotliFor(bytes)), bytes);
}

function wholeIn(form: number, body: Buffer, bytes: Buffer): TextPiece {
  return { form, body, text: { text: bytes, decoded: bytes.length, singles: 0, singleBytes: 0 } };
}

/** A text that nothing builds on. */
export function aloneOf(text: string, bytes: Buffer): Pick<Piece, "form"> & { readonly body: string | Buffer } {
  return isPackedOnLoop(bytes) ? { form: FORM.alonePacked, body: packed(bytes) } : { form: FORM.alone, body: text };
}

/** The payload that {@link aloneOf} stored. @throws {BrokenHistoryError} It is damaged. */
export function loneBody({ form, body }: Omit<Piece, "number">, sizeBytes: number): unknown {
  if (form !== FORM.alonePacked) return body;
  try {
    return brotliDecompressSync(bufferOf(body), { maxOutputLength: sizeBytes }).toString();
  } catch (cause) {
    throw new BrokenHistoryError(`its payload is damaged: ${messageOf(cause)}`, { cause });
  }
}

function isPackedOnLoop({ length }: Buffer): boolean {
  return length >= LEAST_PACKED && length <= MOST_PACKED_ON_LOOP;
}

function packed(bytes: Buffer): Buffer {
  return brotliCompressSync(bytes, brotliFor(bytes));
}

/** A window of the text's size, and its memory. */
function brotliFor({ length }: Buffer): BrotliOptions {
  const window = Math.min(Math.ceil(Math.log2(length)), constants.BROTLI_MAX_WINDOW_BITS);
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = constants;
  return {
    params: { [BROTLI_PARAM_QUALITY]: QUALITY, [BROTLI_PARAM_LGWIN]: window, [BROTLI_PARAM_SIZE_HINT]: length },
  };
}

/** A text after `before`, as a delta. `undefined` where that wouldn't pay, or more than {@link MOST_DECODED} would be decoded. */
export function deltaAfter(before: HistoryText, bytes: Buffer): TextPiece | undefined {
  const most = Math.min(bytes.length / 2, bytes.length * MOST_DECODED - before.decoded);
  const delta = most > 0 ? deltaBetween(before.text, bytes, most) : undefined;
  if (delta === undefined) return undefined;
  const decoded = before.decoded + delta.length;
  const [singles, singleBytes] = [before.singles + 1, before.singleBytes + delta.length];
  return { form: FORM.delta, body: delta, text: { text: bytes, decoded, singles, singleBytes } };
}

/**
 * Whether a text that no delta gives is stored alone. A much smaller text may be of another kind, and the next one may
 * resemble `text` again. If a delta can turn the smaller text into `text`, the next one may build on it too.
 *
 * @param alone - How many payloads in a row were stored alone since `before`.
 */
export function staysAlone({ text }: HistoryText, bytes: Buffer, alone: number): boolean {
  const isSmaller = bytes.length * 2 < text.length && alone < MOST_ALONE;
  return isSmaller && deltaBetween(bytes, text, text.length / 2) === undefined;
}

/** Whether the deltas after the last bundle should become one. */
export function isFoldDue({ singles, singleBytes }: HistoryText): boolean {
  return singles >= FOLD || singleBytes >= FOLD_BYTES;
}

/** The same text once they are one. */
export function folded<Text extends HistoryText>(text: Text): Text {
  return { ...text, singles: 0, singleBytes: 0 };
}

/** A bundle of deltas. */
export function bundleOf(deltas: readonly Piece[]): Piece {
  const number = deltas.at(-1)?.number ?? 0;
  const bodies = deltas.map(({ body }) => bufferOf(body));
  const places = deltas.flatMap((delta, index) => [number - delta.number, delta.form, bodies[index]?.length ?? 0]);
  const bytes = Buffer.concat([bytesOfNumbers([deltas.length, ...places]), ...bodies]);
  return { number, form: FORM.bundle, body: deflateRawSync(bytes) };
}

/**
 * The text at a number.
 *
 * @param pieces - The history's, in order, up to the one with that number or to the bundle that holds it.
 * @param sizeBytes - The most bytes that the text has. No piece is inflated beyond what such a text may need.
 * @throws {BrokenHistoryError} A piece before it, or its own, is damaged or missing.
 */
export function textAt(number: number, pieces: readonly Piece[], sizeBytes: number): HistoryText {
  // Pieces before the last whole one aren't needed, so they may be damaged.
  const first = pieces.findLastIndex(({ form }) => WHOLE_FORMS.includes(form));
  const whole = pieces[first];
  if (whole === undefined) {
    throw new BrokenHistoryError(pieces.length === 0 ? "its payload is missing" : MISSING);
  }
  try {
    const after = pieces.slice(first + 1).flatMap((piece) => (isDelta(piece) ? piece : unfolded(piece, sizeBytes)));
    const deltas = after.filter((delta) => delta.number <= number);
    if ((deltas.at(-1) ?? whole).number !== number) throw new BrokenHistoryError(MISSING);
    const bodies = deltas.map(storedDelta);
    const base = unpacked(whole, sizeBytes * MOST_DECODED);
    const singles = pieces.length - 1 - pieces.findLastIndex((piece) => !isDelta(piece));
    return {
      text: withDeltas(base, bodies, sizeBytes),
      decoded: base.length + sizeOf(bodies),
      singles,
      singleBytes: sizeOf(bodies.slice(bodies.length - singles)),
    };
  } catch (cause) {
    if (cause instanceof BrokenHistoryError) throw cause;
    throw new BrokenHistoryError(`a piece that its payload is made of is damaged: ${messageOf(cause)}`, { cause });
  }
}

/**
 * The last text of a history, which the next one is compared with; `undefined` if it can't be read.
 *
 * @param sizeBytes - The size that its checkpoint says. Without it, a text over twice the next one's size is useless.
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

/** Whether a piece is one delta by itself. */
export function isDelta({ form }: Pick<Piece, "form">): boolean {
  return DELTA_FORMS.includes(form);
}

function unpacked({ form, body }: Piece, maxOutputLength: number): Buffer {
  const stored = bufferOf(body);
  if (form === FORM.plain) return stored;
  return (form === FORM.deflated ? inflateRawSync : brotliDecompressSync)(stored, { maxOutputLength });
}

function storedDelta({ form, body }: Piece): StoredDelta {
  return { bytes: bufferOf(body), isInOrder: form === FORM.deltaInOrder };
}

function sizeOf(deltas: readonly StoredDelta[]): number {
  return deltas.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

const MISSING = "a piece that its payload is made of is missing";

/** The deltas of a bundle. */
function unfolded({ number, form, body }: Piece, sizeBytes: number): readonly Piece[] {
  const maxOutputLength = sizeBytes * MOST_BUNDLED.times + MOST_BUNDLED.bytes;
  const bytes = inflateRawSync(bufferOf(body), { maxOutputLength });
  const reader = new NumberReader(bytes);
  const isInOrder = form === FORM.bundleInOrder;
  const places = Array.from({ length: reader.count(isInOrder ? 2 : 3) }, () => ({
    number: number - reader.next(),
    form: isInOrder ? FORM.deltaInOrder : reader.next(),
    length: reader.next(),
  }));
  let at = reader.at;
  return places.map(({ length, ...place }) => {
    at += length;
    return { ...place, body: bytes.subarray(at - length, at) };
  });
}

/** The bytes of a piece. @throws {RangeError} It has none. */
export function bufferOf(body: unknown): Buffer {
  if (body instanceof Uint8Array) return Buffer.from(body.buffer, body.byteOffset, body.length);
  throw new RangeError("it isn't bytes");
}

function messageOf(error: unknown): string {
  return isError(error) ? error.message : String(error);
}
