import { realpathSync, type Stats, statSync } from "node:fs";
import { dirname } from "node:path";
import type { StorageWarning } from "../src/contract/adapter.js";

const STICKY = 0o1000;
const GROUP_AND_OTHERS_WRITE = 0o022;
const OTHERS_WRITE = 0o002;

/**
 * Who else can write to a store, as far as permissions tell: access lists and mounts can say more. On Windows, where
 * there is no such mode, nothing is known.
 *
 * @param files - In that folder. What isn't there is passed over.
 */
export function exposuresOf(folder: string, files: readonly string[] = []): StorageWarning[] {
  if (process.getuid === undefined) return [];
  const uid = process.getuid();
  const found = [folder, ...files].flatMap((path) => ownExposure(path, uid));
  return [...found, ...foldersAbove(folder).flatMap(exposureFromAbove)];
}

function ownExposure(path: string, uid: number): StorageWarning[] {
  const stats = statsOf(path);
  if (stats === undefined) return [];
  const { mode } = stats;
  if ((mode & GROUP_AND_OTHERS_WRITE) !== 0) {
    const advice =
      (mode & STICKY) !== 0 && stats.isDirectory()
        ? "Give the store a folder of its own."
        : `Run \`chmod go-w ${quoted(path)}\`.`;
    return [warning(path, `can be written by others than its owner (its mode is ${octal(mode)})`, advice)];
  }
  if (stats.uid === uid || stats.uid === 0) return [];
  const advice = `Run \`chown ${uid} ${quoted(path)}\`, or run this as that user.`;
  return [warning(path, `belongs to another user (${stats.uid}, and this process runs as ${uid})`, advice)];
}

/** Whoever may rename a folder above the store can put another store in its place. A sticky one, as /tmp, forbids it. */
function exposureFromAbove(path: string): StorageWarning[] {
  const mode = statsOf(path)?.mode ?? 0;
  if ((mode & OTHERS_WRITE) === 0 || (mode & STICKY) !== 0) return [];
  const what = `above the store can be written by anybody (its mode is ${octal(mode)})`;
  return [warning(path, what, `Run \`chmod o-w ${quoted(path)}\`.`)];
}

function warning(path: string, what: string, advice: string): StorageWarning {
  const why = "Whoever can write a store can change what is resumed from it: its checksums are no signatures.";
  return { path, message: `${path} ${what}. ${why} ${advice}` };
}

function foldersAbove(folder: string): string[] {
  const above: string[] = [];
  for (let path = realPathOf(folder); path !== dirname(path); path = dirname(path)) above.push(dirname(path));
  return above;
}

function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // Not there yet.
    return path;
  }
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    // Not there, or not to be seen: whoever opens it says so.
    return undefined;
  }
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}

/** For a shell. */
function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
