import { hash } from "node:crypto";

/**
 * The form of a text in a column: PostgreSQL's text can't hold U+0000. It and U+0001 become two characters; every other
 * text, nearly all there are, stays as it is. The order of code points stays, and so does what is a prefix of what.
 */
export function toColumn(text: string): string {
  if (!text.includes("\0") && !text.includes("\x01")) return text;
  return text.replaceAll("\x01", "\x01\x02").replaceAll("\0", "\x01\x01");
}

/** The text that a column holds. */
export function fromColumn(stored: string): string {
  if (!stored.includes("\x01")) return stored;
  return stored.replaceAll("\x01\x01", "\0").replaceAll("\x01\x02", "\x01");
}

/** The SHA-256 that an id is found by: the id itself may be longer than a key. */
export function idDigestOf(id: string): Buffer {
  return hash("sha256", id, "buffer");
}

/** How many bytes of it stand in the column `last_text`, after the digest of the text. */
export const LAST_TEXT_ID_BYTES = 8;

/** The column `last_text`, for the text of the checkpoint with that id. */
export function lastTextName(sha256: string, id: string): Buffer {
  return Buffer.concat([Buffer.from(sha256, "hex"), idDigestOf(id).subarray(0, LAST_TEXT_ID_BYTES)]);
}

/** The number of a `bigint` column, as any driver gives it. */
export function numberIn(value: unknown): unknown {
  return typeof value === "string" || typeof value === "bigint" ? Number(value) : value;
}
