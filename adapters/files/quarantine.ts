import { hash } from "node:crypto";
import { basename, dirname, join, relative, sep } from "node:path";
import type { DamagedFinding } from "../../src/contract/findings.js";
import { isFolder, makeFolders } from "./file-io.js";
import type { FolderLock } from "./lock.js";

/**
 * The folder below a store's root that damaged records are moved to. No task's folder has this name, since a leading
 * dot is always escaped there: a task may be called `quarantine`.
 */
const QUARANTINE = ".quarantine";

/**
 * Puts damaged bytes into quarantine, with the reason beside them, and resolves once both are on the disk: then the
 * caller may take the original away. The copy's name tells its content, so a kill in between doesn't store it twice.
 *
 * @param folder - The task's folder.
 * @param lock - The lock of that folder. Without it nothing is done, as for a dry run.
 * @returns Where it is now.
 * @throws {LockLostError | StorageError} The second if the quarantine is a link.
 */
export async function keepInQuarantine(
  folder: string,
  bytes: Uint8Array,
  finding: DamagedFinding,
  lock: FolderLock | undefined,
): Promise<string> {
  const root = dirname(folder);
  const { kind: _kind, location, ...rest } = finding;
  // For a line of a file, use the file's name.
  const stem = basename(location).replace(/\.json( .*)?$/, "");
  const to = join(root, QUARANTINE, basename(folder), `${stem}-${digestOf(bytes)}.json`);
  for (const own of [dirname(dirname(to)), dirname(to)]) isFolder(own);
  if (lock === undefined) return to;
  // From the root on, with the same separator everywhere: the whole store may be moved.
  const from = relative(root, location).split(sep).join("/");
  const reason = { from, ...rest, quarantinedAt: new Date().toISOString() };
  await makeFolders(dirname(to));
  await lock.write(to, bytes);
  await lock.write(`${to}.reason.json`, Buffer.from(`${JSON.stringify(reason, undefined, 2)}\n`));
  return to;
}

/** Tells contents apart in names. */
export function digestOf(bytes: Uint8Array): string {
  return hash("sha256", bytes, "hex").slice(0, 16);
}
