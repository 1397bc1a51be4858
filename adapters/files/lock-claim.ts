import { hash, randomBytes } from "node:crypto";
import {
  closeSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  type Stats,
  unlinkSync,
  utimesSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { StorageError } from "../../src/contract/errors.js";
import { unrenewedClaims } from "./claim-sightings.js";
import { makeFile } from "./durable-write.js";
import { makeFolder } from "./make-folders.js";
import { codeOf } from "./storage-failure.js";
import { nameOf } from "./task-folder.js";

/** What a claim is made of: the file that will be committed, or a folder for any number of files. */
export type ClaimKind = "file" | "folder";

/** How a lock is taken. */
export interface ClaimOptions {
  readonly kind: ClaimKind;
  /**
   * Leaves the lock's folder there when the lock is free, which makes locks a good deal cheaper: disks are slow at
   * making folders.
   */
  readonly leavesFolder: boolean;
}

type Callback<Result> = (error: unknown, result?: Result) => void;

/**
 * One try to take a lock: the file system as proper-lockfile uses it. What is a lock file to proper-lockfile is a
 * claim here: a file or folder with a name that is never used again, inside the lock's folder. A claim holds the lock
 * if it was alone in there when its maker looked, having made it. Of two that claim at once, whoever looks second sees
 * the other: so there is one holder at most, and where both step back, they try again after pauses of random length.
 */
export class LockClaim {
  /** Leads somewhere only until the claim is given up, or the lock stolen. */
  readonly path: string;
  readonly #lockFolder: string;
  readonly #name: string;
  readonly #options: ClaimOptions;
  readonly #looksFirst: boolean;
  /** The claim's file, open. */
  #file: number | undefined;
  #state: "unmade" | "made" | "committed" = "unmade";
  #isHeld = false;
  #isChecked = false;
  #renewed = new Date();

  /** @param looksFirst - Makes no claim where it sees another's, which might make that one step back. */
  constructor(lockFolder: string, options: ClaimOptions, looksFirst: boolean) {
    this.#lockFolder = lockFolder;
    this.#options = options;
    this.#looksFirst = looksFirst;
    this.#name = `${THIS_PROCESS}${(claims++).toString(16).padStart(8, "0")}`;
    this.path = join(lockFolder, this.#name);
  }

  readonly mkdir = (_path: string, callback: Callback<void>): void => answer(callback, () => this.#take());

  readonly stat = (_path: string, callback: Callback<Pick<Stats, "mtime">>): void =>
    answer(callback, () => ({ mtime: this.#isHeld ? this.#ownTime() : this.#othersTime() }));

  readonly utimes = (_path: string, _accessed: Date, modified: Date, callback: Callback<void>): void =>
    answer(callback, () => {
      if (this.#isChecked) utimesSync(this.path, modified, modified);
      this.#renewed = modified;
    });

  /** proper-lockfile removes stale locks before it takes them, and its own afterwards, which is `giveUp`'s matter. */
  readonly rmdir = (_path: string, callback: Callback<void>): void =>
    answer(callback, () => {
      if (!this.#isHeld) this.#steal();
    });

  /** At the end of the process. */
  readonly rmdirSync = (): void => this.giveUp();

  /** The claim's file: from now on the caller's to close. `undefined` for a folder, and the second time. */
  takeFile(): number | undefined {
    const file = this.#file;
    this.#file = undefined;
    return file;
  }

  /** The claim's file has been renamed away, which freed the lock. */
  markCommitted(): void {
    this.#state = "committed";
  }

  isThere(): boolean {
    return lstatSync(this.path, { throwIfNoEntry: false }) !== undefined;
  }

  /** Frees the lock, if it is still held. It never touches another's claim. */
  giveUp(): void {
    const state = this.#state;
    this.#isHeld = false;
    this.#state = "unmade";
    claimsInUse.delete(this.#name);
    const file = this.takeFile();
    if (file !== undefined) closeSync(file);
    if (state === "unmade") return;
    try {
      if (state === "made") this.#remove();
      if (!this.#options.leavesFolder) removeIfEmpty(this.#lockFolder);
    } catch {
      // Stolen and deleted, as a rule. Else it stays, and others wait some seconds for it to go stale: what was done
      // under the lock is done, so this must not fail it.
    }
  }

  #remove(): void {
    if (this.#options.kind === "file") unlinkSync(this.path);
    else rmSync(this.path, { recursive: true });
  }

  #take(): void {
    refuseLink(this.#lockFolder);
    if (!(this.#looksFirst && namesIn(this.#lockFolder).length > 0) && this.#make()) {
      const inside = namesIn(this.#lockFolder);
      this.#isHeld = inside.length === 1 && inside[0] === this.#name;
      if (this.#isHeld) return;
      this.giveUp();
    }
    throw Object.assign(new Error(`${this.#lockFolder} is another's`), { code: "EEXIST" });
  }

  /** @returns False where the lock's folder went away meanwhile. */
  #make(): boolean {
    for (const isThere of [true, false]) {
      if (!isThere) makeFolder(this.#lockFolder);
      try {
        if (this.#options.kind === "file") this.#file = makeFile(this.path);
        else makeFolder(this.path);
        this.#state = "made";
        claimsInUse.add(this.#name);
        return true;
      } catch (error) {
        if (codeOf(error) !== "ENOENT") throw error;
      }
    }
    return false;
  }

  /** Not the file's own time, which changes as it is written. */
  #ownTime(): Date {
    // The first time is right after it was made, when it is as new as can be.
    if (this.#isChecked && !this.isThere()) throw noSuchLock(this.#lockFolder);
    this.#isChecked = true;
    return this.#renewed;
  }

  /** When the last of the other claims was renewed; long ago where all of them are stale. */
  #othersTime(): Date {
    const claims = new Map<string, number>();
    for (const name of namesIn(this.#lockFolder)) {
      const stats = lstatSync(join(this.#lockFolder, name), { throwIfNoEntry: false });
      if (stats) claims.set(name, stats.mtimeMs);
    }
    if (claims.size === 0) throw noSuchLock(this.#lockFolder);
    const unrenewed = unrenewedClaims(this.#lockFolder, claims);
    // A dead holder needn't be waited for. Should that be wrong, stealing is safe.
    const renewedMs = [...claims].map(([name, ms]) => (isDead(name) || unrenewed.has(name) ? 0 : ms));
    return new Date(Math.max(...renewedMs));
  }

  /** Renames the whole lock away, then deletes what was claimed in it: see FolderLock for why in this order. */
  #steal(): void {
    const stolen = `${this.#lockFolder}-${this.#name}`;
    renameSync(this.#lockFolder, stolen);
    try {
      rmSync(stolen, { recursive: true });
    } catch (error) {
      // Somebody made a claim in it just now, which doesn't hold: the lock's folder is another one by now.
      if (codeOf(error) !== "ENOTEMPTY") throw error;
    }
  }
}

/** Who has claims in a lock's folder, in the words of a message. */
export function describeHolders(lockFolder: string): string {
  const holders = namesIn(lockFolder).map((name) => {
    const { pid, machine } = parseHolder(name) ?? {};
    return machine === undefined ? `another program (${name})` : `process ${pid} on ${machine.replace(/\+.*/, "")}`;
  });
  return holders.length === 0 ? "others in turn" : holders.join(" and ");
}

/**
 * Removes what locks leave in a task's folder: the lock's folder itself, unless it is claimed, and stolen ones whose
 * thief was killed before it had deleted them.
 */
export function removeLockFolders(folder: string, lockName: string): void {
  for (const name of namesIn(folder)) {
    if (name.startsWith(`${lockName}-`)) rmSync(join(folder, name), { recursive: true, force: true });
  }
  removeIfEmpty(join(folder, lockName));
}

/** @returns False where it isn't empty, or isn't there. */
export function removeIfEmpty(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    if (["ENOTEMPTY", "EEXIST", "ENOENT"].includes(codeOf(error) ?? "")) return false;
    throw error;
  }
}

/** This machine's name and, where processes are numbered apart (containers), which numbering this is. */
const THIS_MACHINE = `${nameOf(hostname() || "unknown")}+${hash("sha256", pidNamespace(), "hex").slice(0, 8)}`;

/** With a count of claims it makes a name that is never used again, not even by a process of the same number. */
const THIS_PROCESS = `${process.pid}@${THIS_MACHINE}+${randomBytes(8).toString("hex")}`;
let claims = 0;
const claimsInUse = new Set<string>();

interface Holder {
  readonly pid: number;
  readonly machine: string;
}

function parseHolder(name: string): Holder | undefined {
  const [, pid, machine] = /^(\d+)@(.+)\+[0-9a-f]{24,}$/.exec(name) ?? [];
  return pid === undefined || machine === undefined ? undefined : { pid: Number(pid), machine };
}

/** Whether nobody holds the lock by this claim any more, for certain. */
export function isDead(name: string): boolean {
  if (name.startsWith(THIS_PROCESS)) return !claimsInUse.has(name);
  const holder = parseHolder(name);
  if (holder?.machine !== THIS_MACHINE) return false;
  try {
    process.kill(holder.pid, 0);
    return false;
  } catch (error) {
    return codeOf(error) === "ESRCH";
  }
}

function pidNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    // Only Linux has them.
    return "";
  }
}

/** A claim's file holds what will be committed: through a link it would be written wherever that leads. */
function refuseLink(lockFolder: string): void {
  if (!lstatSync(lockFolder, { throwIfNoEntry: false })?.isSymbolicLink()) return;
  throw new StorageError(
    `${lockFolder} is a symbolic link, which is not followed, where a lock belongs. Nothing was changed; remove it.`,
  );
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

function noSuchLock(path: string): Error {
  return Object.assign(new Error(`${path} is free`), { code: "ENOENT" });
}

function answer<Result>(callback: Callback<Result>, call: () => Result): void {
  let result: Result;
  try {
    result = call();
  } catch (error) {
    callback(error);
    return;
  }
  callback(null, result);
}
