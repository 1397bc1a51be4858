import { hash } from "node:crypto";
import { basename, dirname, join, relative, sep } from "node:path";
import type { DamagedFinding } from "../../src/contract/findings.js";
import { isFolder, makeFolders } from "./file-io.js";
import type { FolderLock } from "./lock.js";

/**
 * Damaged records are moved to this folder below a store's root. No task's folder has this name, since a task's leading
 * dot is escaped.
 */
const QUARANTINE = ".quarantine";

/**
 * Writes damaged bytes into quarantine, with the reason beside them. Resolves once both files are on the disk. Then the
 * caller may remove the original. The copy's name is made from its content, so a repair after a kill doesn't store it
 * twice.
 *
 * @param folder - The task's folder.
 * @param lock - The lock of the task's folder. Without it nothing is written, as in a dry run.
 * @returns The path in quarantine.
 * @throws {LockLostError} The lock was stolen.
 * @throws {StorageError} The quarantine is a link.
 */
export async function keepInQuarantine(
  folder: string,
  bytes: Uint8Array,
  finding: DamagedFinding,
  lock: FolderLock | undefined,
): Promise<string> {
  const root = dirname(folder);
  const { kind: _kind, location, ...rest } = finding;
  // If the location is a line of a file, only the file's name is used.
  const stem = basename(location).replace(/\.json( .*)?$/, "");
  const to = join(root, QUARANTINE, basename(folder), `${stem}-${digestOf(bytes)}.json`);
  for (const own of [dirname(dirname(to)), dirname(to)]) isFolder(own);
  if (lock === undefined) return to;
  // The location is stored relative to the root and with "/", since the whole store may be moved, also to another
  // system.
  const from = relative(root, location).split(sep).join("/");
  const reason = { from, ...rest, quarantinedAt: new Date().toISOString() };
  await makeFolders(dirname(to));
  await lock.write(to, bytes);
  await lock.write(`${to}.reason.json`, Buffer.from(`${JSON.stringify(reason, undefined, 2)}\n`));
  return to;
}

/** A short digest that tells contents apart in file names. */
export function digestOf(bytes: Uint8Array): string {
  return hash("sha256", bytes, "hex").slice(0, 16);
}
