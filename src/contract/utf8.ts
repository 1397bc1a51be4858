const ENCODER = new TextEncoder();
/** Texts of up to this many UTF-16 units are encoded in a reused buffer. */
const MAX_UNITS = 1024 * 1024;
let room = Buffer.allocUnsafeSlow(64 * 1024);

/** Returns a text's bytes like `Buffer.from`, but in half the time, since it doesn't count the bytes first. */
export function encodeUtf8(text: string): Buffer {
  if (text.length > MAX_UNITS) return Buffer.from(text);
  // A unit takes at most three bytes. If the buffer grows, it at least doubles. Otherwise a growing state would need
  // new memory at each save, which is slow.
  if (text.length * 3 > room.length) room = Buffer.allocUnsafeSlow(Math.max(text.length * 3, room.length * 2));
  return Buffer.from(room.subarray(0, ENCODER.encodeInto(text, room).written));
}
