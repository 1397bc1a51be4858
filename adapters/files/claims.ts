import { randomBytes } from "node:crypto";
import { closeSync, lstatSync, openSync, readlinkSync, unlinkSync, utimesSync } from "node:fs";
import { hostname } from "node:os";
import { basename, join } from "node:path";
import { makeFolder } from "./durable-write.js";
import { codeOf } from "./failure.js";
import { nameOf } from "./names.js";
import { namesIn } from "./read-file.js";

// What the folder of a lock holds: claims, which are empty files, and a folder of files of whom held the lock last.

/** A claim that was not renewed for so long is stale. */
const STALE_MS = 5_000;
/** A living holder renews its claim many times meanwhile. */
const CERTAINLY_STALE_MS = 60_000;
const FILES = ".files";
/** Process numbers mean something only on one machine, and in a container of it. */
const MACHINE = `${nameOf(hostname() || "unknown")}+${pidNamespace()}`;
/** Tells this process, or a worker thread of it, from all others, also from a later one with its number. */
const INSTANCE = randomBytes(8).toString("hex");
/** The claims of this process: what else bears its name is a claim that it couldn't remove. */
const inUse = new Set<string>();
let count = 0;

/** A name for an owner of locks that no other one has. */
export function newOwner(): string {
  return `${process.pid}@${MACHINE}+${INSTANCE}+${count++}`;
}

/** What the folder is named that an owner writes files in. It is in the lock's folder until another holds the lock. */
export function filesFolderOf(owner: string): string {
  return `${owner}${FILES}`;
}

export function isClaim(name: string): boolean {
  return !name.endsWith(FILES);
}

/** Makes a claim with a name that is never used again. @throws The system's ENOENT, where there is nothing to lock. */
export function makeClaim(lockFolder: string, owner: string): string {
  const claim = join(lockFolder, `${owner}-${count++}`);
  const make = (): void => closeSync(openSync(claim, "wx", 0o600));
  try {
    make();
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
    makeFolder(lockFolder);
    make();
  }
  inUse.add(basename(claim));
  return claim;
}

/** Never fails: where it isn't gone already, it is stale soon. */
export function removeClaim(claim: string): void {
  inUse.delete(basename(claim));
  try {
    unlinkSync(claim);
  } catch {
    // Stolen, as a rule.
  }
}

/** Never fails: if it was stolen, the next commit fails. */
export function renewClaim(claim: string): void {
  const now = new Date();
  try {
    utimesSync(claim, now, now);
  } catch {
    // Stolen, as a rule.
  }
}

/** Whether nobody holds the lock by this claim any more. Should that be wrong, stealing is safe. */
export function isStale(claim: string, staleMs = STALE_MS): boolean {
  const stats = lstatSync(claim, { throwIfNoEntry: false });
  return stats !== undefined && (isDead(basename(claim)) || Math.abs(Date.now() - stats.mtimeMs) > staleMs);
}

/** What killed processes left of a lock: claims, and locks that they had stolen. */
export function abandonedIn(folder: string, lockName: string): string[] {
  const lockFolder = join(folder, lockName);
  const claims = namesIn(lockFolder).filter(isClaim);
  const thefts = namesIn(folder).filter((name) => name.startsWith(`${lockName}-`));
  const paths = [...claims.map((name) => join(lockFolder, name)), ...thefts.map((name) => join(folder, name))];
  return paths.filter((path) => isStale(path, CERTAINLY_STALE_MS));
}

/** Whether the process that a claim is named for has ended, as far as this machine can tell. */
function isDead(claim: string): boolean {
  const [, pid, machine, instance] = /(\d+)@(.+)\+([0-9a-f]{16})\+\d+-\d+$/.exec(claim) ?? [];
  if (machine !== MACHINE) return false;
  if (instance === INSTANCE) return !inUse.has(claim);
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return codeOf(error) === "ESRCH";
  }
}

/** Containers number their processes apart. Only Linux tells which numbering this is. */
function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "";
  } catch {
    return "";
  }
}
