import { lstatSync, readdirSync, rmSync, type Stats } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { LeftoverFinding, RepairStep } from "../../src/contract/adapter.js";
import { storageFailure } from "../files/storage-failure.js";

/** Nobody takes as long to make a database. */
const STALE_DRAFT_MS = 60_000;

/**
 * Databases that were being made when their maker was killed: plain files alone. A folder or a link of such a name is
 * somebody else's.
 *
 * @throws {StorageError} One of them can't be looked at.
 */
export function draftsBeside(path: string): LeftoverFinding[] {
  const start = `${basename(path)}.new-`;
  return namesIn(dirname(path))
    .filter((name) => name.startsWith(start) && /^\d+-[0-9a-f]{12}(-wal|-shm)?$/.test(name.slice(start.length)))
    .flatMap((name) => {
      const location = join(dirname(path), name);
      const stats = statsOf(location);
      if (!stats?.isFile() || stats.mtimeMs > Date.now() - STALE_DRAFT_MS) return [];
      // Some file systems keep times that no Date can hold.
      const modifiedAt = new Date(Math.max(stats.mtimeMs, 0)).toISOString();
      return [{ kind: "leftover", location, reason: "a killed process was making a database here", modifiedAt }];
    });
}

/** What fails here is told, and no reason to leave damaged rows where they are. */
export function removeDraft(finding: LeftoverFinding): RepairStep {
  const { location } = finding;
  try {
    rmSync(location, { force: true });
    return { action: "removed", finding };
  } catch (error) {
    const failure = storageFailure(error, { doing: "remove what a killed process has left", path: location });
    return { action: "left", finding, advice: failure instanceof Error ? failure.message : String(failure) };
  }
}

function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw storageFailure(error, { doing: "look for what killed processes have left", path, isRead: true });
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    // Then there is no database either, or opening it says why not.
    return [];
  }
}
