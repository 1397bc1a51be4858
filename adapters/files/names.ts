import { hash } from "node:crypto";

/** Longer escaped names are cut and hashed. File systems take 255 bytes; a sequence and an extension are added. */
const MAX_ESCAPED_LENGTH = 180;
const PREFIX_LENGTH = 100;

const PLAIN = /^[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?$/;
/** Device names of Windows, which opens the device instead of such a file, whatever its extension. */
const DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/i;
const HASHED = /~[0-9a-f]{64}$/;

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The name of an id's file or folder, the same on every system. `[A-Za-z0-9._-]` stay as they are, and each other byte
 * of the UTF-8 becomes `%XX`. A leading or trailing dot is escaped too, and the first letter of a Windows device name.
 * A name that is too long is cut and followed by `~` and the id's SHA-256. No short id has such a name, since `~`
 * itself is always escaped.
 *
 * Two ids never share a name. On a disk that ignores case, ids that differ in case alone may share a folder, so each
 * record names its task.
 *
 * @param id - Well-formed Unicode, of any length.
 */
export function nameOf(id: string): string {
  const escaped = PLAIN.test(id) && !DEVICE.test(id) ? id : escapeId(id);
  if (escaped !== "" && escaped.length <= MAX_ESCAPED_LENGTH) return escaped;
  const prefix = escaped.slice(0, PREFIX_LENGTH).replace(/%[0-9A-F]?$/, "");
  return `${prefix}~${hash("sha256", id, "hex")}`;
}

/** The id that has this name; `undefined` if the name is hashed, or no id has it. */
export function idOf(name: string): string | undefined {
  if (PLAIN.test(name) && name.length <= MAX_ESCAPED_LENGTH && !DEVICE.test(name)) return name;
  if (!/^[A-Za-z0-9._%-]+$/.test(name)) return undefined;
  const bytes = name.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  let id: string;
  try {
    id = UTF8.decode(Buffer.from(bytes, "latin1"));
  } catch {
    // Not UTF-8, so nameOf didn't make this name.
    return undefined;
  }
  return nameOf(id) === name ? id : undefined;
}

/** Whether the name is hashed: only the record inside tells the id. */
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
