import { linkSync } from "node:fs";
import { dirname } from "node:path";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { syncFolder } from "./durable-write.js";
import type { FolderLock } from "./folder-lock.js";
import { codeOf } from "./storage-failure.js";

/** A file that could not be read, and where it is now. */
export interface SetAside {
  /** What it was named. */
  readonly path: string;
  readonly movedTo: string;
  /** Why it could not be read. */
  readonly reason: string;
}

/**
 * Gives what can't be read another name beside its own, `<name>.damaged-<time>`, so that its own is free again. Resolves
 * once that is durable; whatever happens on the way, the file has one of its names or both. Only under a claim of the
 * kind `folder`.
 *
 * @throws {CheckpointCorruptError} It can't get another name; it is untouched.
 * @throws {LockLostError} It has both names; or somebody else has taken its place meanwhile, and that one is untouched.
 */
export async function setAside(lock: FolderLock, path: string, reason: string): Promise<SetAside> {
  const movedTo = linkBeside(path, reason);
  // Not by a rename, which a holder whose lock was stolen could do to what the thief has written there.
  await syncFolder(dirname(path));
  lock.discard(path);
  await syncFolder(dirname(path));
  return { path, movedTo, reason };
}

function linkBeside(path: string, reason: string): string {
  const stem = `${path}.damaged-${new Date().toISOString().replace(/[:.]/g, "-")}`;
  for (let n = 1; ; n++) {
    const name = n === 1 ? stem : `${stem}-${n}`;
    try {
      linkSync(path, name);
      return name;
    } catch (cause) {
      if (codeOf(cause) === "EEXIST") continue;
      throw new CheckpointCorruptError(
        `${path} can't be read: ${reason}. It could not be set aside (${codeOf(cause)}), and was left untouched: ` +
          "move it away, then try again.",
        { cause },
      );
    }
  }
}
