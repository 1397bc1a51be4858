const ENCODER = new TextEncoder();
/** Where texts of up to so many bytes are encoded, before they get memory of their own. */
const ROOM = Buffer.allocUnsafeSlow(64 * 1024);

/** A text's bytes, as `Buffer.from` gives them, in half the time: that counts the bytes first. */
export function utf8Of(text: string): Buffer {
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 > ROOM.length) return Buffer.from(text);
  return Buffer.from(ROOM.subarray(0, ENCODER.encodeInto(text, ROOM).written));
}
