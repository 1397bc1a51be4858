import { hash } from "node:crypto";

/** The longest name made by escaping alone. File systems take 255 bytes, and a sequence and an extension come on top. */
const MAX_ESCAPED_LENGTH = 180;
/** How much of a longer id stays readable before its hash. */
const PREFIX_LENGTH = 100;

const PLAIN = /^[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?$/;
/** Windows opens the device instead of a file of such a name, whatever extension it has. */
const DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/i;
const HASHED = /~[0-9a-f]{64}$/;

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The name of the file or folder that belongs to an id, the same on every system: `[A-Za-z0-9._-]` as they are, each
 * other byte of its UTF-8 as `%XX`. A leading or trailing dot is escaped, and the first letter of a Windows device
 * name. A name that is too long is cut and followed by `~` and the id's SHA-256; since `~` itself is always escaped,
 * such a name is never that of a short id.
 *
 * Two ids never share a name. Two that differ in case alone may share a folder on a disk that doesn't tell them apart:
 * so the records inside name their task.
 *
 * @param id - Well-formed Unicode of any length.
 */
export function nameOf(id: string): string {
  const escaped = PLAIN.test(id) && !DEVICE.test(id) ? id : escapeId(id);
  if (escaped !== "" && escaped.length <= MAX_ESCAPED_LENGTH) return escaped;
  const prefix = escaped.slice(0, PREFIX_LENGTH).replace(/%[0-9A-F]?$/, "");
  return `${prefix}~${hash("sha256", id, "hex")}`;
}

/** The id that has this name; `undefined` where the name is hashed, or is no id's name at all. */
export function idOf(name: string): string | undefined {
  if (PLAIN.test(name) && name.length <= MAX_ESCAPED_LENGTH && !DEVICE.test(name)) return name;
  if (!/^[A-Za-z0-9._%-]+$/.test(name)) return undefined;
  const bytes = name.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  let id: string;
  try {
    id = UTF8.decode(Buffer.from(bytes, "latin1"));
  } catch {
    // Not UTF-8, so not a name that nameOf makes.
    return undefined;
  }
  return nameOf(id) === name ? id : undefined;
}

/** Whether the name is one of those that only the record inside can tell the id of. */
export function isHashedName(name: string): boolean {
  return HASHED.test(name);
}

function escapeId(id: string): string {
  let name = "";
  for (const byte of Buffer.from(id, "utf8")) {
    const character = String.fromCharCode(byte);
    name += /[A-Za-z0-9._-]/.test(character) ? character : escapeByte(byte);
  }
  if (name.startsWith(".") || DEVICE.test(name)) name = escapeByte(name.charCodeAt(0)) + name.slice(1);
  // Windows drops a trailing dot, which would make two ids one.
  return name.endsWith(".") ? `${name.slice(0, -1)}%2E` : name;
}

function escapeByte(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
}
