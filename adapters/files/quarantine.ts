import { hash } from "node:crypto";
import { linkSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { DamagedFinding } from "../../src/contract/findings.js";
import { makeFolders, syncFolder } from "./durable-write.js";
import { codeOf } from "./failure.js";
import type { FolderLock } from "./lock.js";
import { statsOf } from "./read-file.js";

/**
 * The folder below a store's root that damaged records are moved to. No task's folder has this name, since a leading
 * dot is always escaped there: a task may be called `quarantine`.
 */
const QUARANTINE = ".quarantine";

/** What is moved: a file as it is, or a record out of a file. */
export type Movable = { readonly path: string } | { readonly record: Uint8Array };

/**
 * Puts what is damaged into quarantine, with the reason beside it, and resolves once both are on the disk: then the
 * caller may take the original away. After a kill in between, the same again stores nothing twice.
 *
 * @param folderName - The task's folder.
 * @param lock - Of that folder. Without it nothing is done, as for a dry run.
 * @returns Where it is now.
 * @throws {LockLostError}
 */
export async function keepInQuarantine(
  root: string,
  folderName: string,
  what: Movable,
  finding: DamagedFinding,
  lock: FolderLock | undefined,
): Promise<string> {
  const folder = join(root, QUARANTINE, folderName);
  const to =
    "record" in what
      ? join(folder, `record-${hash("sha256", what.record, "hex").slice(0, 16)}.json`)
      : freeName(join(folder, basename(what.path)), what.path);
  if (lock === undefined) return to;
  await makeFolders(folder);
  if ("record" in what) await lock.write(to, what.record);
  else link(what.path, to);
  const { kind: _kind, location, ...rest } = finding;
  // From the root on, with the same separator everywhere: the whole store may be moved.
  const from = relative(root, location).split(sep).join("/");
  const reason = { from, ...rest, quarantinedAt: new Date().toISOString() };
  await lock.write(`${to}.reason.json`, Buffer.from(`${JSON.stringify(reason, undefined, 2)}\n`));
  return to;
}

/** A file that could not be read, and where it is now. */
export interface SetAside {
  /** What it was named. */
  readonly path: string;
  readonly movedTo: string;
  /** Why it could not be read. */
  readonly reason: string;
}

/**
 * Gives a file that can't be read another name beside its own, `<name>.damaged-<time>`, so that its own is free again,
 * and resolves once that is durable. Whatever happens on the way, the file has one of its names, or both.
 *
 * @throws {CheckpointCorruptError} It can't get another name; it is untouched.
 * @throws {LockLostError}
 */
export async function setAside(lock: FolderLock, path: string, reason: string): Promise<SetAside> {
  const movedTo = freeName(`${path}.damaged-${new Date().toISOString().replace(/[:.]/g, "-")}`, path);
  try {
    link(path, movedTo);
  } catch (cause) {
    throw new CheckpointCorruptError(
      `${path} can't be read: ${reason}. It could not be set aside (${codeOf(cause)}), and was left untouched: ` +
        "move it away, then try again.",
      { cause },
    );
  }
  // Not by a rename: after a theft of the lock it would move what the thief has written there.
  await syncFolder(dirname(path));
  lock.remove(path);
  await syncFolder(dirname(path));
  return { path, movedTo, reason };
}

/** The name, or one like it, that nothing else has than this very file. */
function freeName(name: string, path: string): string {
  const own = statsOf(path)?.ino;
  for (let copy = 1; ; copy++) {
    const candidate = copy === 1 ? name : `${name}.${copy}`;
    const there = statsOf(candidate)?.ino;
    if (there === undefined || there === own) return candidate;
  }
}

function link(path: string, to: string): void {
  try {
    linkSync(path, to);
  } catch (error) {
    // It is there already, since a kill came between this and the removal of the first name.
    if (codeOf(error) !== "EEXIST") throw error;
  }
}
