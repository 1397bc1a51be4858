const ENCODER = new TextEncoder();
/** Texts of up to so many UTF-16 units are encoded in a room that is used again. */
const MOST_UNITS = 1024 * 1024;
let room = Buffer.allocUnsafeSlow(64 * 1024);

/** A text's bytes, as `Buffer.from` gives them, in half the time: that counts the bytes first. */
export function utf8Of(text: string): Buffer {
  return Buffer.from(text.length > MOST_UNITS ? text : viewOfUtf8(text));
}

/** The same of a text of up to 1 MB, for as long as no other text is encoded. */
export function viewOfUtf8(text: string): Buffer {
  // A unit takes at most three bytes. Fresh memory is slow, so states that grow don't get a new room for each.
  if (text.length * 3 > room.length) room = Buffer.allocUnsafeSlow(Math.max(text.length * 3, room.length * 2));
  return room.subarray(0, ENCODER.encodeInto(text, room).written);
}
