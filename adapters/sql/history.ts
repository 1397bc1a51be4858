import { promisify } from "node:util";
import { deflateRaw, deflateRawSync, inflateRawSync } from "node:zlib";
import { isError } from "../../src/contract/errors.js";
import { bytesOf, deltaBetween, NumberReader, withDeltas } from "./delta.js";

/**
 * A history is a row of at most so many payloads, each stored as what changed since the one before it. The first is whole.
 * Every {@link FOLD} deltas become one bundle, which takes less space, is read at once, and has the number of the last.
 */
export const PLACES = 1024;

/** How a piece of a history is stored. */
export const FORM = {
  /** The payload itself. Nothing builds on it. */
  alone: 0,
  /** A text that others build on, deflated. */
  whole: 1,
  /** What changed since the text before it. */
  delta: 2,
  /** Several deltas, deflated. */
  bundle: 3,
  /** As `whole`, but not deflated. */
  plain: 4,
} as const;

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
export const SMALLEST_BYTES = 1024;
/** So many deltas become a bundle, or about so many bytes of them: that takes some 5 ms. */
export const FOLD = 64;
const FOLD_BYTES = 256 * 1024;
/** So many payloads in a row may be stored alone in a history that the next ones don't resemble any more. */
export const MOST_ALONE = 8;
/** What is smaller stays as it is. */
const LEAST_DEFLATED = 32 * 1024;
/** On the event loop, what is larger stays as it is: deflating takes some 10 ms a MB at this level, which is half of the usual. */
const ON_LOOP = { mostBytes: 2 * 1024 * 1024, level: 4 };

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
  const { mostBytes, level } = ON_LOOP;
  if (bytes.length < LEAST_DEFLATED || bytes.length > mostBytes) return plainOf(bytes);
  return { ...plainOf(bytes), form: FORM.whole, body: deflateRawSync(bytes, { level }) };
}

/** The same, with the work off the event loop. */
export async function wholeOffLoop(bytes: Buffer): Promise<TextPiece> {
  if (bytes.length < LEAST_DEFLATED) return plainOf(bytes);
  return { ...plainOf(bytes), form: FORM.whole, body: await promisify(deflateRaw)(bytes) };
}

function plainOf(bytes: Buffer): TextPiece {
  return { form: FORM.plain, body: bytes, text: { text: bytes, decoded: bytes.length, singles: 0, singleBytes: 0 } };
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
 * Whether a text that no delta gives is stored alone. What is much smaller may be of another kind, and the next one
 * resemble the one before it again.
 *
 * @param alone - How many payloads in a row were stored alone since `before`.
 */
export function staysAlone(before: HistoryText, bytes: Buffer, alone: number): boolean {
  return bytes.length * 2 < before.text.length && alone < MOST_ALONE;
}

/** Whether the deltas after the last bundle should become one. */
export function isFoldDue({ singles, singleBytes }: HistoryText): boolean {
  return singles >= FOLD || singleBytes >= FOLD_BYTES;
}

/** A bundle of deltas. */
export function bundleOf(deltas: readonly Piece[]): Piece {
  const number = deltas.at(-1)?.number ?? 0;
  const bodies = deltas.map(({ body }) => bufferOf(body));
  const places = deltas.flatMap((delta, index) => [number - delta.number, bodies[index]?.length ?? 0]);
  const bytes = Buffer.concat([bytesOf([deltas.length, ...places]), ...bodies]);
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
  // What stands before the last whole one may be damaged.
  const first = pieces.findLastIndex(({ form }) => form === FORM.whole || form === FORM.plain);
  const whole = pieces[first];
  if (whole === undefined) {
    throw new BrokenHistoryError(pieces.length === 0 ? "its payload is missing" : MISSING);
  }
  try {
    const after = pieces
      .slice(first + 1)
      .flatMap((piece) => (piece.form === FORM.bundle ? unfolded(piece, sizeBytes) : piece));
    const deltas = after.filter((delta) => delta.number <= number);
    if ((deltas.at(-1) ?? whole).number !== number) throw new BrokenHistoryError(MISSING);
    const bodies = deltas.map(({ body }) => bufferOf(body));
    const stored = bufferOf(whole.body);
    const base =
      whole.form === FORM.whole ? inflateRawSync(stored, { maxOutputLength: sizeBytes * MOST_DECODED }) : stored;
    const singles = pieces.length - 1 - pieces.findLastIndex(({ form }) => form !== FORM.delta);
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

/** The same; `undefined` if it can't be read. */
export function textIfIntact(number: number, pieces: readonly Piece[], sizeBytes: number): HistoryText | undefined {
  try {
    return textAt(number, pieces, sizeBytes);
  } catch (error) {
    if (error instanceof BrokenHistoryError) return undefined;
    throw error;
  }
}

function sizeOf(bodies: readonly Buffer[]): number {
  return bodies.reduce((sum, { length }) => sum + length, 0);
}

const MISSING = "a piece that its payload is made of is missing";

/** The deltas of a bundle. */
function unfolded({ number, body }: Piece, sizeBytes: number): readonly Piece[] {
  const maxOutputLength = sizeBytes * MOST_BUNDLED.times + MOST_BUNDLED.bytes;
  const bytes = inflateRawSync(bufferOf(body), { maxOutputLength });
  const reader = new NumberReader(bytes);
  const places = Array.from({ length: reader.count(2) }, () => [number - reader.next(), reader.next()] as const);
  let at = reader.at;
  return places.map(([place, length]) => {
    at += length;
    return { number: place, form: FORM.delta, body: bytes.subarray(at - length, at) };
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
