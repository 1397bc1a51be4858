import { dirname, join, relative, sep } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { RecordFinding, StorageFinding } from "../../src/adapter.js";
import type { JsonObject } from "../../src/checkpoint.js";
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

/**
 * Copies damaged bytes to quarantine, with a note of what is wrong with them beside it, and resolves once both are on the
 * disk: then the original may be taken away. Where somebody was killed in between, the same bytes are there already, and
 * aren't stored twice.
 *
 * @param folderName - The task's folder, under its lock.
 * @returns The copy's path.
 * @throws {LockLostError}
 * @throws {StorageError} A link or a file stands in the place of the folder: nothing was moved.
 */
export async function quarantine(
  lock: FolderLock,
  place: { readonly root: string; readonly folderName: string; readonly fileName: string },
  bytes: Uint8Array,
  finding: Reported,
): Promise<string> {
  const { root, folderName, fileName } = place;
  const folder = join(root, QUARANTINE, folderName);
  // A planted link would lead what is moved out of the store.
  for (const path of [dirname(folder), folder]) await makeStoreFolder(path);
  const note = noteOf(root, finding);
  const path = await freePath(join(folder, fileName), bytes, note);
  const text = `${JSON.stringify({ ...note, quarantinedAt: new Date().toISOString() }, undefined, 2)}\n`;
  await lock.write(path, bytes, { firstInFolder: false });
  await lock.write(reasonPath(path), Buffer.from(text), { firstInFolder: false });
  return path;
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

/** Where bytes would be put, as far as can be told beforehand. */
export function quarantinePath(root: string, folderName: string, fileName: string): string {
  return join(root, QUARANTINE, folderName, fileName);
}

/**
 * The path, or one like it, where both it and its reason's are free, or hold what will be there. A record's file may be
 * named as another one's reason.
 */
async function freePath(path: string, bytes: Uint8Array, note: JsonObject): Promise<string> {
  for (let copy = 1; ; copy++) {
    const candidate = copy === 1 ? path : `${path}.${copy}`;
    const isFreeForBytes = await isFree(candidate, (there) => there.equals(bytes), bytes.length);
    if (isFreeForBytes && (await isFree(reasonPath(candidate), (there) => isNote(there, note), MAX_NOTE_BYTES))) {
      return candidate;
    }
  }
}

/** Whether it is that note, whenever it was written. */
function isNote(there: Buffer, note: JsonObject): boolean {
  const found = attempt(() => parseObject(decodeText(there)));
  if (found instanceof UnreadableError) return false;
  const { quarantinedAt, ...rest } = found;
  return typeof quarantinedAt === "string" && isDeepStrictEqual(rest, note);
}

/**
 * Whether nothing is there, or what `isOurs`.
 *
 * @param maxBytes - What is larger isn't ours.
 */
async function isFree(path: string, isOurs: (there: Buffer) => boolean, maxBytes: number): Promise<boolean> {
  try {
    const there = await readStored(path, maxBytes);
    return there === undefined || isOurs(there);
  } catch (error) {
    // A link, a folder or a pipe, or a larger file.
    if (error instanceof UnreadableError) return false;
    throw error;
  }
}
