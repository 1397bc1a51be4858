// @ts-check
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";

const INSTALLED = fileURLToPath(new URL("../node_modules", import.meta.url));

/**
 * Yields endless messages of realistic text: the READMEs of the installed packages in order, cut into pieces. Runs on
 * the same installation get the same messages. After some 2 MB, the text begins again.
 *
 * @param {number} bytes - The UTF-8 bytes of each message; up to 3 fewer where a character would be cut.
 * @returns {Generator<string, never>}
 */
export function* messages(bytes) {
  const text = readmes();
  const encoder = new TextEncoder();
  const room = new Uint8Array(bytes);
  for (let start = 0; ; ) {
    const { read, written } = encoder.encodeInto(text.slice(start, start + bytes), room);
    start += read;
    if (start < text.length) yield new TextDecoder().decode(room.subarray(0, written));
    else start = 0;
  }
}

/**
 * Returns the READMEs sorted by path, because file systems list files in any order. Skips links, because they lead to
 * this project's own READMEs, which change.
 */
function readmes() {
  return readdirSync(INSTALLED, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name === "README.md")
    .map((entry) => join(entry.parentPath, entry.name).slice(INSTALLED.length).replaceAll(sep, "/"))
    .filter((path) => !path.startsWith("/."))
    .toSorted()
    .map((path) => readFileSync(INSTALLED + path, "utf8"))
    .join("\n");
}
