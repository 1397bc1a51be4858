// @ts-check

/** Bytes with a meaning in some format, and numbers at the ends of ranges. */
const INTERESTING = [
  ...[
    "\0",
    "\n",
    "\r\n",
    "\ufeff",
    "\u2028",
    '"',
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "`",
    "```\n",
    "#",
  ],
  ...[
    "null",
    "true",
    "-0",
    "1e400",
    "-1e400",
    "9007199254740993",
    "1".repeat(400),
    "NaN",
    '"__proto__":',
    '"constructor":',
  ],
  ...[
    '{"$waymark":"Map","value":[]}',
    '{"$waymark":"BigInt","value":"0x1"}',
    '"seal":',
    '"state":',
    "&a ",
    "*a",
    "<<: ",
    "!!js ",
  ],
  ...["> ", "- ", "* ", "[](", "](", "<", "&amp;", "%00", "\u001b[2J", "\u202e"],
].map((text) => Buffer.from(text));
const LONE_BYTES = [0x00, 0x1f, 0x7f, 0x80, 0xbf, 0xc0, 0xe2, 0xf0, 0xfe, 0xff];
/** A depth that exhausts the stack of any recursion. */
const MANY = 100_000;
const MAX_BYTES = 1024 * 1024;

/**
 * Returns the input with a number. It depends only on the seed and the corpus, so that an input that ended a worker can
 * be made again.
 *
 * @param {readonly Buffer[]} corpus
 * @param {number} seed
 * @param {number} index
 */
export function inputOf(corpus, seed, index) {
  const random = randomFrom(seed, index);
  const pick = (/** @type {number} */ below) => Math.floor(random() * below);
  const one = (/** @type {readonly Buffer[]} */ of) => of[pick(of.length)] ?? Buffer.alloc(0);
  /** @type {Buffer} */
  let bytes = Buffer.from(one(corpus));
  for (let left = 1 + pick(4); left > 0; left--) bytes = mutated(bytes, pick, () => one(corpus));
  return bytes.length <= MAX_BYTES ? bytes : bytes.subarray(0, MAX_BYTES);
}

/**
 * @param {Buffer} bytes
 * @param {(below: number) => number} pick
 * @param {() => Buffer} another
 */
function mutated(bytes, pick, another) {
  const at = pick(bytes.length + 1);
  const end = Math.min(bytes.length, at + 1 + pick(pick(4) === 0 ? bytes.length + 1 : 8));
  const piece = bytes.subarray(at, end);
  const around = (/** @type {Uint8Array} */ middle, to = at) =>
    Buffer.concat([bytes.subarray(0, at), middle, bytes.subarray(to)]);
  switch (pick(10)) {
    case 0: {
      const flipped = Buffer.from(bytes);
      if (at < bytes.length) flipped[at] = (bytes[at] ?? 0) ^ (1 << pick(8));
      return flipped;
    }
    case 1:
      return around(Buffer.of(LONE_BYTES[pick(LONE_BYTES.length)] ?? 0), end);
    case 2:
      return around(INTERESTING[pick(INTERESTING.length)] ?? Buffer.alloc(0));
    case 3:
      return around(INTERESTING[pick(INTERESTING.length)] ?? Buffer.alloc(0), end);
    case 4:
      return around(Buffer.alloc(0), end);
    case 5:
      return bytes.subarray(0, at);
    case 6: {
      const other = another();
      return around(other.subarray(pick(other.length + 1)), pick(2) === 0 ? end : bytes.length);
    }
    case 7:
      return around(Buffer.concat(Array.from({ length: 2 + pick(20) }, () => piece)), end);
    case 8: {
      // Inserts so many opening brackets and the like that any recursion fails.
      const opening = ["[", '{"a":', "> ", "- ", '{"$waymark":"Set","value":[', "{", "*", "`"].map((text) =>
        Buffer.from(text),
      );
      const unit = pick(4) === 0 ? piece.subarray(0, 8) : (opening[pick(opening.length)] ?? piece);
      return around(
        Buffer.alloc(pick(6) === 0 ? MANY * Math.max(1, Math.min(unit.length, 6)) : 4096, unit.length > 0 ? unit : "["),
      );
    }
    default: {
      const target = pick(bytes.length + 1);
      return Buffer.concat([bytes.subarray(0, target), piece, bytes.subarray(target)]);
    }
  }
}

/**
 * Returns a generator of numbers from 0 to 1 that depend only on `seed` and `index` (mulberry32).
 *
 * @param {number} seed
 * @param {number} index
 */
function randomFrom(seed, index) {
  let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
