import { dirname, join, relative, sep } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { RecordFinding, StorageFinding } from "../../src/contract/adapter.js";
import type { JsonObject } from "../../src/contract/checkpoint.js";
import type { FolderLock } from "./folder-lock.js";
import { attempt, decodeText, parseObject } from "./sealed-record.js";
import { makeStoreFolder } from "./store-folders.js";
import { readStored, UnreadableError } from "./stored-file.js";

/**
 * The folder below a store's root that damaged files are moved to. No task's folder has this name, since a leading dot is
 * always escaped there: a task may be called `quarantine`.
 */
export const QUARANTINE = ".quarantine";

/** Far more than a reason takes. */
const MAX_NOTE_BYTES = 1024 ** 2;

/** What is told of a file in quarantine. */
type Reported = Pick<StorageFinding, "location" | "reason" | "taskId" | "id" | "sequence"> &
  Pick<RecordFinding, "createdAt">;

/** The part of the quarantine that one task's damaged files are moved to, in one repair. */
export class Quarantine {
  readonly #root: string;
  readonly #folder: string;
  readonly #lock: FolderLock | undefined;
  /** What a dry run would have put there. */
  readonly #planned = new Map<string, Buffer>();

  /**
   * @param folderName - The task's folder.
   * @param lock - The lock of that folder; without one, nothing is written, as for a dry run.
   */
  constructor(root: string, folderName: string, lock: FolderLock | undefined) {
    this.#root = root;
    this.#folder = join(root, QUARANTINE, folderName);
    this.#lock = lock;
  }

  /**
   * Copies damaged bytes to quarantine, with a note of what is wrong with them beside it, and resolves once both are on the
   * disk: then the original may be taken away. Where somebody was killed in between, the same bytes are there already, and
   * aren't stored twice.
   *
   * @returns The copy's path.
   * @throws {LockLostError}
   * @throws {StorageError} A link or a file stands in the place of the folder: nothing was moved.
   */
  async keep(fileName: string, bytes: Buffer, finding: Reported): Promise<string> {
    // A planted link would lead what is moved out of the store.
    if (this.#lock) for (const path of [dirname(this.#folder), this.#folder]) await makeStoreFolder(path);
    const note = noteOf(this.#root, finding);
    const path = await this.#freePath(join(this.#folder, fileName), bytes, note);
    const reason = `${JSON.stringify({ ...note, quarantinedAt: new Date().toISOString() }, undefined, 2)}\n`;
    await this.#write(path, bytes);
    await this.#write(reasonPath(path), Buffer.from(reason));
    return path;
  }

  async #write(path: string, content: Buffer): Promise<void> {
    if (this.#lock) await this.#lock.write(path, content, { firstInFolder: false });
    else this.#planned.set(path, content);
  }

  /**
   * The path, or one like it, where both it and its reason's are free, or hold what will be there. A record's file may be
   * named as another one's reason.
   */
  async #freePath(path: string, bytes: Buffer, note: JsonObject): Promise<string> {
    for (let copy = 1; ; copy++) {
      const candidate = copy === 1 ? path : `${path}.${copy}`;
      const isFree = await this.#isFree(candidate, (there) => there.equals(bytes), bytes.length);
      if (isFree && (await this.#isFree(reasonPath(candidate), (there) => isNote(there, note), MAX_NOTE_BYTES))) {
        return candidate;
      }
    }
  }

  /**
   * Whether nothing is there, or what `isOurs`.
   *
   * @param maxBytes - What is larger isn't ours.
   */
  async #isFree(path: string, isOurs: (there: Buffer) => boolean, maxBytes: number): Promise<boolean> {
    try {
      const there = this.#planned.get(path) ?? (await readStored(path, maxBytes));
      return there === undefined || isOurs(there);
    } catch (error) {
      // A link, a folder or a pipe, or a larger file.
      if (error instanceof UnreadableError) return false;
      throw error;
    }
  }
}

function noteOf(root: string, { reason, taskId, id, sequence, createdAt, location }: Reported): JsonObject {
  // From the root on, with the same separator everywhere: the whole store may be moved.
  const from = relative(root, location).split(sep).join("/");
  const known = { taskId, id, sequence, createdAt };
  return { from, ...Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined)), reason };
}

function reasonPath(path: string): string {
  return `${path}.reason.json`;
}

/** Whether it is that note, whenever it was written. */
function isNote(there: Buffer, note: JsonObject): boolean {
  const found = attempt(() => parseObject(decodeText(there)));
  if (found instanceof UnreadableError) return false;
  const { quarantinedAt, ...rest } = found;
  return typeof quarantinedAt === "string" && isDeepStrictEqual(rest, note);
}
