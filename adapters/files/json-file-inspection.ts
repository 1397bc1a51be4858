import { join } from "node:path";
import type { NumberingFinding, RefusedFinding, StorageFinding } from "../../src/contract/adapter.js";
import { damageIn } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import { CheckpointFolder } from "./checkpoint-folder.js";
import {
  CHECKPOINT_OPENING,
  type CheckpointFile,
  isCheckpointFileName,
  knownByName,
  NUMBERING_FILE,
  readCheckpoint,
  readHead,
  readNumbering,
  sequenceOfRenamed,
} from "./json-file-format.js";
import { type RecordHead, storedCheckpoint } from "./sealed-record.js";
import { codeOf } from "./storage-failure.js";
import { readStart, UnreadableError } from "./stored-file.js";
import { entryNames, foreignReason, isForeign, isOwner } from "./task-scan.js";

/** One checkpoint file, and what is wrong with it. */
export interface InspectedFile {
  readonly file: CheckpointFile;
  readonly path: string;
  readonly sizeBytes: number;
  readonly finding: StorageFinding | undefined;
  /** The bytes themselves are damaged: not the disk that is to give them, nor a permission. */
  readonly isMovable: boolean;
}

/** One task's folder as verification and repair look at it: every file on its own, whatever is wrong with the others. */
export class FolderInspection {
  readonly path: string;
  /** Whose it is, as far as its name or anything in it tells. */
  readonly taskId: string | undefined;
  /** The oldest first. */
  readonly files: readonly CheckpointFile[];
  readonly #folder: CheckpointFolder;
  readonly #twins: ReadonlyMap<CheckpointFile, readonly CheckpointFile[]>;
  readonly #known: { readonly taskId?: string };

  private constructor(path: string, taskId: string | undefined, folder: CheckpointFolder) {
    this.path = path;
    this.taskId = taskId;
    this.files = folder.files();
    this.#folder = folder;
    this.#twins = olderTwins(this.files);
    this.#known = taskId === undefined ? {} : { taskId };
  }

  static of(path: string, named: string | undefined): FolderInspection {
    const folder = new CheckpointFolder(path, named);
    return new FolderInspection(path, named ?? ownerOf(path, folder.files()), folder);
  }

  /** @returns `undefined` where it has been removed meanwhile. */
  async inspect(file: CheckpointFile, quick: boolean): Promise<InspectedFile | undefined> {
    const path = join(this.path, file.name);
    const found = { location: path, ...this.#known, ...knownByName(file) };
    const inspected = (sizeBytes: number, finding?: StorageFinding, isMovable = true) => ({
      ...{ file, path, sizeBytes, finding, isMovable: isMovable && finding?.kind === "record" },
    });
    let head: RecordHead | undefined;
    try {
      head = readHead(path, file);
      if (head === undefined) return undefined;
      const { createdAt, sizeBytes } = head;
      if (!isOwner(head.taskId, this.path)) {
        const reason = foreignReason(head.taskId);
        // In a folder whose name differs in case alone it may be read as what it is, on a disk that tells no cases apart.
        return isForeign(head.taskId, this.path)
          ? inspected(sizeBytes, { kind: "record", ...found, reason, createdAt })
          : inspected(sizeBytes, { kind: "stray", ...found, reason });
      }
      const content = quick ? undefined : await readCheckpoint(path, file);
      const reason = content && damageIn(storedCheckpoint(content));
      if (reason !== undefined) return inspected(sizeBytes, { kind: "record", ...found, reason, createdAt });
      const twin = this.#twins.get(file)?.find((other) => this.#folder.holdsIntact(other));
      if (twin === undefined) return inspected(sizeBytes);
      const stray = `it has the sequence or the id of ${twin.name}, which is intact too: one of them was copied there`;
      return inspected(sizeBytes, { kind: "stray", ...found, reason: stray });
    } catch (error) {
      if (error instanceof UnsupportedFormatError) {
        return inspected(0, { kind: "refused", ...found, reason: error.message });
      }
      const reason = whyUnreadable(error);
      const createdAt = head?.createdAt ?? hintOf(path, /"createdAt":"(\d{4}-[\dT:.-]{1,30}Z)"/);
      const known = createdAt === undefined ? found : { ...found, createdAt };
      return inspected(head?.sizeBytes ?? 0, { kind: "record", ...known, reason }, error instanceof UnreadableError);
    }
  }

  /** What is wrong with the file that keeps the last sequence. */
  async numbering(): Promise<NumberingFinding | RefusedFinding | undefined> {
    const path = join(this.path, NUMBERING_FILE);
    const found = { location: path, ...this.#known };
    const wrong = (reason: string): NumberingFinding => ({ kind: "numbering", ...found, reason });
    try {
      const numbering = await readNumbering(path);
      if (numbering === undefined || isOwner(numbering.taskId, this.path)) return undefined;
      return wrong(foreignReason(numbering.taskId));
    } catch (error) {
      if (error instanceof UnsupportedFormatError) return { kind: "refused", ...found, reason: error.message };
      if (error instanceof UnreadableError) return wrong(error.message);
      throw error;
    }
  }

  /** Files of ours under names that no checkpoint has: nothing looks for them. */
  strays(): StorageFinding[] {
    return entryNames(this.path)
      .filter((name) => !isCheckpointFileName(name) && name !== NUMBERING_FILE)
      .filter((name) => sequenceOfRenamed(name) > 0 || isOurs(join(this.path, name)))
      .map((name) => ({
        kind: "stray",
        location: join(this.path, name),
        reason: "it seems to hold a checkpoint, or a numbering, under a name that none has: nothing reads it",
        ...this.#known,
      }));
  }
}

/**
 * Why a file can't be read: what is wrong with it, or what the system answers for this one file.
 *
 * @throws What says nothing of the file: too many are open, or a bug.
 */
export function whyUnreadable(error: unknown): string {
  if (error instanceof UnreadableError) return error.message;
  const code = codeOf(error) ?? "";
  if (!OF_ONE_FILE.has(code)) throw error;
  return `the system can't read it: ${code}`;
}

const OF_ONE_FILE = new Set(["EIO", "EACCES", "EPERM"]);

/** Whether the file begins as this adapter's do. */
export function isOurs(path: string): boolean {
  try {
    return readStart(path)?.subarray(0, CHECKPOINT_OPENING.length).equals(CHECKPOINT_OPENING) ?? false;
  } catch (error) {
    whyUnreadable(error);
    return false;
  }
}

/** A name that is hashed doesn't tell the id; but whether an id is the one can be told. */
function ownerOf(folder: string, files: readonly CheckpointFile[]): string | undefined {
  for (const name of [...files.map((file) => file.name).reverse(), NUMBERING_FILE]) {
    const taskId = hintOf(join(folder, name), /"taskId":("(?:[^"\\]|\\.)*")/);
    const parsed = taskId === undefined ? undefined : parseText(taskId);
    if (parsed !== undefined && isOwner(parsed, folder)) return parsed;
  }
  return undefined;
}

/** For each file those before it whose names tell the same sequence or the same id. */
function olderTwins(files: readonly CheckpointFile[]): ReadonlyMap<CheckpointFile, readonly CheckpointFile[]> {
  const bySequence = new Map<number, CheckpointFile>();
  const byId = new Map<string, CheckpointFile>();
  const twins = new Map<CheckpointFile, CheckpointFile[]>();
  for (const file of files) {
    const found = [bySequence.get(file.sequence), byId.get(file.idName)].filter((twin) => twin !== undefined);
    if (found.length > 0) twins.set(file, found);
    bySequence.set(file.sequence, file);
    byId.set(file.idName, file);
  }
  return twins;
}

/** What a file that may be damaged seems to say. */
function hintOf(path: string, pattern: RegExp): string | undefined {
  try {
    const bytes = readStart(path);
    return bytes && pattern.exec(bytes.toString("utf8"))?.[1];
  } catch (error) {
    whyUnreadable(error);
    return undefined;
  }
}

function parseText(json: string): string | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}
