import { hash } from "node:crypto";
import { UTF8 } from "./file-io.js";

/**
 * If an escaped name is longer than this, it is cut and a hash is added. File systems allow 255 bytes, and the name
 * must leave room for a sequence and an extension.
 */
const MAX_ESCAPED_LENGTH = 180;
const PREFIX_LENGTH = 100;

const PLAIN = /^[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?$/;
/** Names of devices on Windows. If a file has such a name, with any extension, Windows opens the device instead. */
const DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/i;
const HASHED = /~[0-9a-f]{64}$/;

/**
 * Makes the name of an id's file or folder, which is the same on every system. The characters `[A-Za-z0-9._-]` stay as
 * they are, and each byte of any other character's UTF-8 becomes `%XX`. A leading or trailing dot and the first letter
 * of a Windows device name are also escaped. A name that is too long is cut and followed by `~` and the id's SHA-256. A
 * short id never gets such a name, since `~` itself is always escaped.
 *
 * Two ids never share a name. On a disk that ignores case, ids that differ only in case may share a folder, so each
 * record names its task.
 *
 * @param id - Well-formed Unicode, of any length.
 */
export function toFileName(id: string): string {
  const escaped = PLAIN.test(id) && !DEVICE.test(id) ? id : escapeId(id);
  if (escaped !== "" && escaped.length <= MAX_ESCAPED_LENGTH) return escaped;
  return `${escaped.slice(0, PREFIX_LENGTH).replace(/%[0-9A-F]?$/, "")}~${hash("sha256", id, "hex")}`;
}

/** Returns the id that has this name; `undefined` if the name is hashed, or isn't the name of any id. */
export function parseFileName(name: string): string | undefined {
  if (PLAIN.test(name) && name.length <= MAX_ESCAPED_LENGTH && !DEVICE.test(name)) return name;
  if (!/^[A-Za-z0-9._%-]+$/.test(name)) return undefined;
  const bytes = name.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  try {
    const id = UTF8.decode(Buffer.from(bytes, "latin1"));
    return toFileName(id) === name ? id : undefined;
  } catch {
    // The bytes aren't UTF-8, so toFileName didn't make this name.
    return undefined;
  }
}

/** Whether the name is hashed, so that only the record inside contains the id. */
export function isHashedName(name: string): boolean {
  return HASHED.test(name);
}

function escapeId(id: string): string {
  let name = Buffer.from(id)
    .toString("latin1")
    .replace(/[^A-Za-z0-9._-]/g, escapeByte);
  if (name.startsWith(".") || DEVICE.test(name)) name = escapeByte(name.charAt(0)) + name.slice(1);
  // The trailing dot is escaped, because Windows would drop it, and two ids would share a name.
  return name.endsWith(".") ? `${name.slice(0, -1)}%2E` : name;
}

/** @param byte - A character that stands for the byte with its code. */
function escapeByte(byte: string): string {
  return `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}

/** Returns a short digest that tells contents apart in file names. */
export function shortDigest(bytes: Uint8Array): string {
  return hash("sha256", bytes, "hex").slice(0, 16);
}
