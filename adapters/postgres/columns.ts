import { hash } from "node:crypto";
import type { Payload } from "../../src/contract/checkpoint.js";

/**
 * Escapes a text for a column, since PostgreSQL's text can't contain U+0000. U+0000 and U+0001 become two characters
 * each; all other characters are kept. Escaped texts sort like the original ones, and have the same prefixes.
 */
export function toColumn(text: string): string {
  if (!text.includes("\0") && !text.includes("\x01")) return text;
  return text.replaceAll("\x01", "\x01\x02").replaceAll("\0", "\x01\x01");
}

export function fromColumn(stored: string): string {
  if (!stored.includes("\x01")) return stored;
  return stored.replaceAll("\x01\x01", "\0").replaceAll("\x01\x02", "\x01");
}

/** Computes the SHA-256 of an id. Ids are looked up by this digest, since an id may be too long for an index. */
export function digestId(id: string): Buffer {
  return hash("sha256", id, "buffer");
}

/**
 * Makes the value of the column `last_text`: the SHA-256 of the text, and 8 bytes of the SHA-256 of its checkpoint's
 * id.
 */
export function nameLastText(sha256: string, id: string): Buffer {
  return Buffer.concat([Buffer.from(sha256, "hex"), digestId(id).subarray(0, 8)]);
}

/** Returns a payload's body as bytes. Text becomes UTF-8. */
export function toBytes({ body }: Pick<Payload, "body">): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

const [BOOLEAN, BYTEA] = [16, 17];

/**
 * The parsers for columns of the adapter's statements: only `boolean` and `bytea` are parsed, all other values stay
 * texts.
 */
export const COLUMN_TYPES = {
  getTypeParser(oid: number): (text: string) => unknown {
    if (oid === BOOLEAN) return (text) => text === "t";
    return oid === BYTEA ? parseBytes : (text) => text;
  },
};

/** Parses a `bytea` in both formats of the setting `bytea_output`: `hex` and `escape`. */
function parseBytes(text: string): Buffer {
  if (text.startsWith("\\x")) return Buffer.from(text.slice(2), "hex");
  const unescaped = text.replace(/\\(\\|[0-7]{3})/g, (_, code: string) =>
    code === "\\" ? code : String.fromCharCode(Number.parseInt(code, 8)),
  );
  return Buffer.from(unescaped, "latin1");
}

/** Returns the number in a `bigint` column, which a driver may return as text. */
export function parseNumber(value: unknown): unknown {
  return typeof value === "string" || typeof value === "bigint" ? Number(value) : value;
}
