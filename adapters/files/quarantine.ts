import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { DamagedFinding } from "../../src/contract/findings.js";
import { makeFolders, syncFolder } from "./durable-write.js";
import type { FolderLock } from "./lock.js";
import { readStored, UnreadableError } from "./read-file.js";

/**
 * The folder below a store's root that damaged records are moved to. No task's folder has this name, since a leading
 * dot is always escaped there: a task may be called `quarantine`.
 */
const QUARANTINE = ".quarantine";

/** What is moved: a file as it is, or a record out of a file. */
export type Movable = { readonly path: string } | { readonly record: Uint8Array };

/**
 * Puts what is damaged into quarantine, with the reason beside it, and resolves once both are on the disk: then the
 * caller may take the original away. Its name tells the content, so after a kill in between nothing is stored twice.
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
  const isRecord = "record" in what;
  const bytes = isRecord ? what.record : ((await readStored(what.path)) ?? new Uint8Array());
  const stem = isRecord ? "record" : basename(what.path, ".json");
  const to = join(root, QUARANTINE, folderName, `${stem}-${digestOf(bytes)}.json`);
  if (lock === undefined) return to;
  const { kind: _kind, location, ...rest } = finding;
  // From the root on, with the same separator everywhere: the whole store may be moved.
  const from = relative(root, location).split(sep).join("/");
  const reason = { from, ...rest, quarantinedAt: new Date().toISOString() };
  await makeFolders(dirname(to));
  await lock.write(to, bytes);
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
 * and resolves once that is durable. Whatever happens on the way, it has one of its names, or both.
 *
 * @throws {CheckpointCorruptError} It is no file; it is untouched.
 * @throws {LockLostError}
 */
export async function setAside(lock: FolderLock, path: string, reason: string): Promise<SetAside> {
  try {
    const bytes = (await readStored(path)) ?? new Uint8Array();
    const name = `${path}.damaged-${new Date().toISOString().replace(/[:.]/g, "-")}`;
    const movedTo = existsSync(name) ? `${name}-${digestOf(bytes)}` : name;
    await lock.write(movedTo, bytes);
    lock.remove(path);
    await syncFolder(dirname(path));
    return { path, movedTo, reason };
  } catch (cause) {
    if (!(cause instanceof UnreadableError)) throw cause;
    throw new CheckpointCorruptError(
      `${path} can't be read: ${reason}. It was left untouched: move it away, then try again.`,
      { cause },
    );
  }
}

function digestOf(bytes: Uint8Array): string {
  return hash("sha256", bytes, "hex").slice(0, 16);
}
