/** A part of what turns a base into a text much like it. Edits are in the order of both. */
interface Edit {
  /** How many bytes of the base are left out. */
  readonly skip: number;
  /** How many bytes of the base follow. */
  readonly keep: number;
  /** What comes after those. */
  readonly insert: Uint8Array;
}

/** Two texts have a place in common if so many bytes are the same: what is shorter comes about by chance. */
const ANCHOR = 32;
/** And they surely go on alike from there if so many are. */
const SURELY = 512;
/** How many anchors are looked for in a window before a wider window is taken. */
const TRIES = 16;
const FIRST_WINDOW = 256;
/** What looking for an anchor costs beside looking through the window, in bytes. */
const TRY_BYTES = 1024;
/** How many bytes may be looked through: some 2 ms, and for each byte of the text about what JSON.stringify takes. */
const MOST_EFFORT = { inAll: 4 * 1024 * 1024, aByte: 4 };
/** Beyond that, the rest counts as new. */
const WIDEST_WINDOW = 1024 * 1024;
const BLOCK = 4096;

/**
 * What turns `base` into `text`: small where both are much alike, and in the same order, as one task's states are. First
 * how many edits there are, then three numbers of each, then all that they insert. `undefined` if it would have more than
 * `most` bytes.
 */
export function deltaBetween(base: Buffer, text: Buffer, most: number): Buffer | undefined {
  const edits = editsBetween(base, text, most);
  if (edits === undefined) return undefined;
  const lengths = edits.flatMap(({ skip, keep, insert }) => [skip, keep, insert.length]);
  const delta = Buffer.concat([bytesOf([edits.length, ...lengths]), ...edits.map(({ insert }) => insert)]);
  return delta.length <= most ? delta : undefined;
}

/**
 * The text that the deltas make of their base, each of what the one before it gives. Works from the last one back, so that
 * each byte of the text is copied once, from the insert or the base that it comes from.
 *
 * @param mostBytes - What the text may have.
 * @throws {RangeError} A delta is damaged, or belongs to another base.
 */
export function withDeltas(base: Buffer, deltas: readonly Buffer[], mostBytes: number): Buffer {
  const all = deltas.map(editsIn);
  let length = base.length;
  for (const { baseLength, textLength } of all) {
    if (baseLength !== length) throw new RangeError(MISFIT);
    length = textLength;
  }
  if (length > mostBytes) throw new RangeError(`it has ${length} bytes instead of ${mostBytes}`);
  if (deltas.length === 0) return base;
  const text = Buffer.allocUnsafe(length);
  let missing: readonly Span[] = [{ at: 0, from: 0, length }];
  for (const delta of all.reverse()) missing = afterInserts(text, missing, delta);
  for (const { at, from, length } of missing) base.copy(text, at, from, from + length);
  return text;
}

/** Bytes of a text that are still missing, and where the text that is looked at has them. */
interface Span {
  readonly at: number;
  readonly from: number;
  readonly length: number;
}

/** Copies what the delta inserts to where it is missing. Gives where the delta's base has the rest. */
function afterInserts(text: Buffer, missing: readonly Span[], { edits, inserts }: ReadDelta): readonly Span[] {
  const left: Span[] = [];
  let [next, base, position, inserted] = [0, 0, 0, 0];
  const each = (length: number, use: (at: number, offset: number, length: number) => void) => {
    const end = position + length;
    for (let span = missing[next]; span !== undefined && span.from < end; span = missing[next]) {
      const start = Math.max(span.from, position);
      const stop = Math.min(span.from + span.length, end);
      if (start < stop) use(span.at + start - span.from, start - position, stop - start);
      if (stop < span.from + span.length) break;
      next += 1;
    }
    position = end;
  };
  for (const { skip, keep, insert } of edits) {
    base += skip;
    each(keep, (at, offset, length) => {
      const before = left.at(-1);
      const from = base + offset;
      const isNext = before && before.at + before.length === at && before.from + before.length === from;
      if (isNext) left[left.length - 1] = { ...before, length: before.length + length };
      else left.push({ at, from, length });
    });
    base += keep;
    each(insert, (at, offset, length) => inserts.copy(text, at, inserted + offset, inserted + offset + length));
    inserted += insert;
  }
  return left;
}

const MISFIT = "a delta doesn't fit the text before it";

/** A delta taken apart: how many bytes each edit inserts, and the bytes of all of them. */
type ReadDelta = ReturnType<typeof editsIn>;

function editsIn(delta: Buffer) {
  const reader = new NumberReader(delta);
  const edits: { readonly skip: number; readonly keep: number; readonly insert: number }[] = [];
  let [inserted, baseLength, textLength] = [0, 0, 0];
  for (let left = reader.count(3); left > 0; left -= 1) {
    const [skip, keep, insert] = [reader.next(), reader.next(), reader.next()];
    edits.push({ skip, keep, insert });
    inserted += insert;
    baseLength += skip + keep;
    textLength += keep + insert;
  }
  const inserts = delta.subarray(reader.at);
  if (inserted !== inserts.length) throw new RangeError(MISFIT);
  return { edits, inserts, baseLength, textLength };
}

/** Numbers of at most 53 bits as bytes: seven bits each, the lowest first, the eighth says that more follow. */
export function bytesOf(numbers: readonly number[]): Buffer {
  const bytes: number[] = [];
  for (let value of numbers) {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
    bytes.push(value);
  }
  return Buffer.from(bytes);
}

/** Reads what {@link bytesOf} wrote. Its methods throw a RangeError where the bytes are damaged. */
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

  /** How many groups of numbers follow. */
  count(groupSize: number): number {
    const count = this.next();
    if (count * groupSize > this.#bytes.length) throw new RangeError("a delta ends too early");
    return count;
  }
}

/** The edits that turn `base` into `text`, unless they insert more than `most` bytes. Their inserts are views of `text`. */
function editsBetween(base: Buffer, text: Buffer, most: number): readonly Edit[] | undefined {
  const edits: Edit[] = [];
  const tail = sameAtEnd(base, text);
  const [baseEnd, textEnd] = [base.length - tail, text.length - tail];
  let [at, from] = [0, 0];
  let [skip, inserted] = [0, 0];
  let effort = MOST_EFFORT.inAll + text.length * MOST_EFFORT.aByte;
  for (;;) {
    const keep = sameAtStart(base.subarray(at, baseEnd), text.subarray(from, textEnd));
    at += keep;
    from += keep;
    const met = meet(base.subarray(at, baseEnd), text.subarray(from, textEnd), effort);
    effort -= met.effort;
    const insert = text.subarray(from, from + met.insert);
    if (keep + insert.length > 0 || skip > 0) edits.push({ skip, keep, insert });
    skip = met.skip;
    inserted += met.insert;
    if (inserted > most) return undefined;
    at += met.skip;
    from += met.insert;
    if (from === textEnd) break;
  }
  edits.push({ skip: skip + baseEnd - at, keep: tail, insert: text.subarray(0, 0) });
  return edits;
}

/** Where the two texts, which begin differently, go on alike. Without such a place, all of `text` is new. */
function meet(base: Buffer, text: Buffer, mostEffort: number) {
  let effort = 0;
  let best = { skip: base.length, insert: text.length };
  let longest = 0;
  const tooShort = base.length < ANCHOR || text.length < ANCHOR;
  for (let window = FIRST_WINDOW; longest === 0 && !tooShort; window *= 4) {
    const near = base.subarray(0, window);
    for (let insert = 0; insert < window && insert + ANCHOR <= text.length; insert += window / TRIES) {
      effort += near.length + TRY_BYTES;
      if (effort > mostEffort) return { ...best, effort };
      const skip = near.indexOf(text.subarray(insert, insert + ANCHOR));
      if (skip < 0) continue;
      // In rows that are much alike, an anchor also stands in the wrong row.
      const alike = sameAtStart(base.subarray(skip, skip + BLOCK), text.subarray(insert, insert + BLOCK));
      if (alike <= longest) continue;
      longest = alike;
      const back = sameAtEnd(base.subarray(0, skip), text.subarray(0, insert));
      best = { skip: skip - back, insert: insert - back };
      if (longest >= SURELY) break;
    }
    if (window >= WIDEST_WINDOW || (window >= base.length && window >= text.length)) break;
  }
  return { ...best, effort };
}

function sameAtStart(left: Buffer, right: Buffer): number {
  const most = Math.min(left.length, right.length);
  let same = 0;
  for (let size = BLOCK; same < most; ) {
    const end = Math.min(same + size, most);
    if (left.compare(right, same, end, same, end) === 0) same = end;
    else if (size > 32) size /= 8;
    else break;
  }
  while (same < most && left[same] === right[same]) same += 1;
  return same;
}

function sameAtEnd(left: Buffer, right: Buffer): number {
  const most = Math.min(left.length, right.length);
  let same = 0;
  for (let size = BLOCK; same < most; ) {
    const more = Math.min(size, most - same);
    const [l, r] = [left.length - same, right.length - same];
    if (left.compare(right, r - more, r, l - more, l) === 0) same += more;
    else if (size > 32) size /= 8;
    else break;
  }
  while (same < most && left[left.length - same - 1] === right[right.length - same - 1]) same += 1;
  return same;
}
