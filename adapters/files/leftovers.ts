import { type Dirent, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { LeftoverFinding } from "../../src/contract/adapter.js";
import { isDead } from "./lock-claim.js";
import { codeOf } from "./storage-failure.js";
import { statsOf } from "./stored-file.js";

/** A living writer renews its lock every few seconds. */
const CERTAINLY_STALE_MS = 60_000;

/** What killed writers have left in a task's folder: their claims of its lock, and locks that they had stolen. */
export function leftoversIn(folder: string, lockName: string, taskId: string | undefined): LeftoverFinding[] {
  const lockFolder = join(folder, lockName);
  const claims = entriesOf(lockFolder).map(({ name }) => ({ path: join(lockFolder, name), claim: name }));
  const stolen = entriesOf(folder)
    .filter(({ name }) => name.startsWith(`${lockName}-`))
    .map(({ name }) => ({ path: join(folder, name), claim: name.slice(lockName.length + 1) }));
  return [...claims, ...stolen].flatMap(({ path, claim }) => {
    const modifiedMs = lastModified(path);
    if (modifiedMs === undefined || !(isDead(claim) || modifiedMs < Date.now() - CERTAINLY_STALE_MS)) return [];
    const known = taskId === undefined ? undefined : { taskId };
    const modifiedAt = new Date(modifiedMs).toISOString();
    return [
      { kind: "leftover", location: path, reason: "a write that was killed left it behind", ...known, modifiedAt },
    ];
  });
}

/**
 * Removes stolen locks. Claims needn't be removed: whoever takes the lock steals them.
 *
 * @param path - Of a leftover, in its task's folder.
 */
export function removeLeftover(path: string): void {
  rmSync(path, { recursive: true, force: true });
}

export function isOlder({ modifiedAt }: LeftoverFinding, thanMs: number): boolean {
  return Date.parse(modifiedAt) <= Date.now() - thanMs;
}

/** Its own time, and those of what is in it. */
function lastModified(path: string): number | undefined {
  const stats = statsOf(path);
  if (stats === undefined || !stats.isDirectory()) return stats?.mtimeMs;
  return Math.max(stats.mtimeMs, ...entriesOf(path).map(({ name }) => statsOf(join(path, name))?.mtimeMs ?? 0));
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return [];
    throw error;
  }
}
