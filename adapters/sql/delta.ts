/** One of the edits that turn a base into a similar text. Edits follow the order of the text. */
interface Edit {
  /** The distance in the base from the end of the previous edit's kept bytes to the start of this edit's kept bytes. */
  readonly skip: number;
  /** The number of bytes of the base that are kept. */
  readonly keep: number;
  /** The bytes that follow the kept ones. */
  readonly insert: Uint8Array;
}

/** The length in bytes of a match that marks a common place of two texts. Shorter matches are coincidences. */
const ANCHOR = 32;
/** The length in bytes of a match that certainly isn't a coincidence. */
const SURELY = 512;
/** The number of anchors that are searched for in a window before a wider window is used. */
const TRIES = 16;
const FIRST_WINDOW = 256;
/** If this window has no match, the whole base is searched. */
const WIDEST_WINDOW = 16 * 1024;
/** The fixed cost of a search for an anchor, in bytes, added to the bytes searched. */
const TRY_BYTES = 1024;
/**
 * A search stops after this many bytes: `inAll`, which takes 2 ms, plus `aByte` for each byte of the text, which takes
 * about as long as JSON.stringify.
 */
const MAX_EFFORT = { inAll: 4 * 1024 * 1024, aByte: 4 };
/** If the rest of the text is below both limits, it is stored without a search, which would take longer. */
const SMALL_CHANGE = { bytes: 1024, share: 1 / 8 };
/** The largest block that is compared at once, in bytes. Must be a power of 8. */
const BLOCK = 4096;

/**
 * Makes the delta that turns `base` into `text`. The delta is small if most of the text occurs in the base, at any
 * place and any number of times. The delta contains the base's length, the number of edits, three numbers for each
 * edit, and all inserted bytes. Returns `undefined` if the delta would have more than `most` bytes.
 */
export function deltaBetween(base: Buffer, text: Buffer, most: number): Buffer | undefined {
  const edits = editsBetween(base, text, most);
  if (edits === undefined) return undefined;
  const numbers = edits.flatMap(({ skip, keep, insert }) => [skip < 0 ? -2 * skip - 1 : 2 * skip, keep, insert.length]);
  const delta = Buffer.concat([
    encodeNumbers([base.length, edits.length, ...numbers]),
    ...edits.map(({ insert }) => insert),
  ]);
  return delta.length <= most ? delta : undefined;
}

/**
 * Applies the deltas to their base, one after another, and returns the resulting text. Works backwards from the last
 * delta and copies each byte of the text once, from an insert or the base. The texts in between therefore take no
 * memory, even if a damaged delta makes them huge.
 *
 * @param mostBytes - The size limit of the text.
 * @throws {RangeError} A delta is damaged, or belongs to another base.
 */
export function withDeltas(base: Buffer, deltas: readonly Buffer[], mostBytes: number): Buffer {
  const all = deltas.map(partsIn);
  let length = base.length;
  for (const { baseLength, textLength } of all) {
    if (baseLength !== length) throw new RangeError(MISFIT);
    length = textLength;
  }
  if (length > mostBytes) throw new RangeError(`it has ${length} bytes, more than ${mostBytes}`);
  if (deltas.length === 0) return base;
  const text = Buffer.allocUnsafe(length);
  let missing: readonly Span[] = [{ at: 0, from: 0, length }];
  for (const delta of all.reverse()) missing = afterInserts(text, missing, delta);
  for (const { at, from, length } of missing) base.copy(text, at, from, from + length);
  return text;
}

/**
 * Bytes that are still missing in the last text. They go to `at` in the last text, and come from `from` in the text
 * that the current delta makes.
 */
interface Span {
  readonly at: number;
  readonly from: number;
  readonly length: number;
}

/** Copies the delta's inserts to the missing spans. Returns the spans that come from the delta's base. */
function afterInserts(text: Buffer, missing: readonly Span[], { parts, inserts }: DeltaParts): readonly Span[] {
  const left: Span[] = [];
  for (const span of missing) {
    const end = span.from + span.length;
    for (let from = span.from; from < end; ) {
      const part = partAt(parts, from);
      const [at, start] = [span.at + from - span.from, part.from + from - part.start];
      const length = Math.min(end, part.end) - from;
      if (part.isInserted) inserts.copy(text, at, start, start + length);
      else addTo(left, { at, from: start, length });
      from += length;
    }
  }
  return left;
}

function addTo(spans: Span[], span: Span): void {
  const before = spans.at(-1);
  const isNext = before && before.at + before.length === span.at && before.from + before.length === span.from;
  if (isNext) spans[spans.length - 1] = { ...before, length: before.length + span.length };
  else spans.push(span);
}

/** Returns the part that contains the byte at `position`. */
function partAt(parts: readonly Part[], position: number): Part {
  let [low, high] = [0, parts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if ((parts[middle]?.start ?? 0) <= position) low = middle;
    else high = middle - 1;
  }
  // There is always a part, because the parts cover the whole text.
  return parts[low] as Part;
}

const MISFIT = "a delta doesn't fit the text before it";

/** Bytes of a text, and their source: the delta's inserts or its base. */
interface Part {
  readonly start: number;
  readonly end: number;
  readonly from: number;
  readonly isInserted: boolean;
}

/** A parsed delta. Its parts cover each byte of the text once, in order. */
interface DeltaParts {
  readonly parts: readonly Part[];
  readonly inserts: Buffer;
  readonly baseLength: number;
  readonly textLength: number;
}

function partsIn(bytes: Buffer): DeltaParts {
  const reader = new NumberReader(bytes);
  const baseLength = reader.next();
  const parts: Part[] = [];
  let [inserted, base, furthest, position] = [0, 0, 0, 0];
  const add = (length: number, from: number, isInserted: boolean) => {
    const end = position + length;
    if (length > 0) parts.push({ start: position, end, from, isInserted });
    position = end;
  };
  for (let left = reader.count(3); left > 0; left -= 1) {
    const skip = reader.next();
    base += skip % 2 === 0 ? skip / 2 : -(skip + 1) / 2;
    if (base < 0) throw new RangeError(MISFIT);
    const [keep, insert] = [reader.next(), reader.next()];
    add(keep, base, false);
    add(insert, inserted, true);
    base += keep;
    furthest = Math.max(furthest, base);
    inserted += insert;
  }
  const inserts = bytes.subarray(reader.at);
  const isSafe = Number.isSafeInteger(position) && Number.isSafeInteger(furthest);
  if (!isSafe || furthest > baseLength || inserted !== inserts.length) throw new RangeError(MISFIT);
  return { parts, inserts, baseLength, textLength: position };
}

/**
 * Encodes numbers of at most 53 bits. Each byte has seven bits of the number, the lowest first. Its eighth bit is set
 * if more bytes follow.
 */
export function encodeNumbers(numbers: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(8 * numbers.length);
  let length = 0;
  for (let value of numbers) {
    for (; value >= 128; value = Math.floor(value / 128)) bytes[length++] = (value % 128) + 128;
    bytes[length++] = value;
  }
  return bytes.subarray(0, length);
}

/** Reads numbers that {@link encodeNumbers} wrote. Its methods throw a RangeError if the bytes are damaged. */
export class NumberReader {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  next(): number {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = this.#bytes[this.at];
      if (byte === undefined || unit > 2 ** 46) throw new RangeError("a delta ends too early");
      this.at += 1;
      value += (byte % 128) * unit;
      if (byte < 128) return value;
    }
  }

  /** Reads the number of groups that follow. */
  count(groupSize: number): number {
    const count = this.next();
    if (count * groupSize > this.#bytes.length) throw new RangeError("a delta ends too early");
    return count;
  }
}

/**
 * Returns the edits that turn `base` into `text`; `undefined` if they insert more than `most` bytes. The inserts are
 * views of `text`.
 */
function editsBetween(base: Buffer, text: Buffer, most: number): readonly Edit[] | undefined {
  const edits: Edit[] = [];
  const tail = sameAtEnd(base, text);
  const [baseEnd, textEnd] = [base.length - tail, text.length - tail];
  let [at, from, skip, inserted] = [0, 0, 0, 0];
  const effort = { left: MAX_EFFORT.inAll + text.length * MAX_EFFORT.aByte };
  const smallChange = Math.min(SMALL_CHANGE.bytes, text.length * SMALL_CHANGE.share);
  while (from < textEnd) {
    const keep = sameAtStart(base.subarray(at), text.subarray(from, textEnd));
    at += keep;
    from += keep;
    const rest = text.subarray(from, textEnd);
    const isSmall = rest.length <= smallChange;
    const met = isSmall
      ? undefined
      : (meetAhead(base.subarray(at, baseEnd), rest, effort) ?? meetAnywhere(base, at, rest, effort));
    const insert = rest.subarray(0, met?.insert);
    if (keep + insert.length > 0 || skip !== 0) edits.push({ skip, keep, insert });
    skip = met?.skip ?? 0;
    inserted += insert.length;
    if (inserted > most) return undefined;
    at += skip;
    from += insert.length;
  }
  edits.push({ skip: skip + baseEnd - at, keep: tail, insert: text.subarray(0, 0) });
  return edits;
}

/** The place from which a base and a text match again: at the offset `skip` in the base and `insert` in the text. */
interface Meeting {
  readonly skip: number;
  readonly insert: number;
}

/** Looks for the next meeting nearby. In a text of similar rows, this is the next row. */
function meetAhead(base: Buffer, text: Buffer, effort: { left: number }): Meeting | undefined {
  let best: Meeting | undefined;
  let longest = 0;
  const tooShort = base.length < ANCHOR || text.length < ANCHOR;
  for (let window = FIRST_WINDOW; best === undefined && !tooShort; window *= 4) {
    const near = base.subarray(0, window);
    for (let insert = 0; insert < window && insert + ANCHOR <= text.length; insert += window / TRIES) {
      effort.left -= near.length + TRY_BYTES;
      if (effort.left < 0) return best;
      const found = near.indexOf(text.subarray(insert, insert + ANCHOR));
      if (found < 0) continue;
      // Among similar rows, an anchor also occurs in wrong rows, so the longest match wins.
      const alike = sameAtStart(base.subarray(found, found + BLOCK), text.subarray(insert, insert + BLOCK));
      if (alike <= longest) continue;
      longest = alike;
      best = findBeginning(base, found, text, insert);
      if (longest >= SURELY) break;
    }
    if (window >= WIDEST_WINDOW || (window >= base.length && window >= text.length)) break;
  }
  return best;
}

/**
 * Searches the whole base for a long stretch of the text. Short stretches are inserted instead, since a text with many
 * edits takes long to read. Anchors are taken at doubling distances, so a stretch is found if it is about as long as
 * the text before it.
 */
function meetAnywhere(base: Buffer, at: number, text: Buffer, effort: { left: number }): Meeting | undefined {
  for (let insert = 0; insert + SURELY <= text.length; insert = Math.max(ANCHOR, insert * 2)) {
    effort.left -= base.length + TRY_BYTES;
    if (effort.left < 0) break;
    const found = base.indexOf(text.subarray(insert, insert + ANCHOR));
    if (found < 0) continue;
    if (sameAtStart(base.subarray(found, found + SURELY), text.subarray(insert, insert + SURELY)) < SURELY) continue;
    const { skip, ...rest } = findBeginning(base, found, text, insert);
    return { skip: skip - at, ...rest };
  }
  return undefined;
}

/** Returns the beginning of the common stretch around a common place. */
function findBeginning(base: Buffer, found: number, text: Buffer, insert: number): Meeting {
  const back = sameAtEnd(base.subarray(0, found), text.subarray(0, insert));
  return { skip: found - back, insert: insert - back };
}

function sameAtStart(left: Buffer, right: Buffer): number {
  const most = Math.min(left.length, right.length);
  let same = countSameBlocks(most, (from, to) => left.compare(right, from, to, from, to) === 0);
  while (same < most && left[same] === right[same]) same += 1;
  return same;
}

function sameAtEnd(left: Buffer, right: Buffer): number {
  const [l, r] = [left.length, right.length];
  const most = Math.min(l, r);
  let same = countSameBlocks(most, (from, to) => left.compare(right, r - to, r - from, l - to, l - from) === 0);
  while (same < most && left[l - same - 1] === right[r - same - 1]) same += 1;
  return same;
}

/**
 * Counts equal bytes block by block, up to `most`. The callers count the last few bytes one by one, which is faster.
 */
function countSameBlocks(most: number, isSame: (from: number, to: number) => boolean): number {
  let same = 0;
  for (let size = BLOCK; size > 32; size /= 8) {
    while (same < most && isSame(same, Math.min(same + size, most))) same = Math.min(same + size, most);
  }
  return same;
}
