import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type CorruptRecord, isCorrupt } from "../../src/contract/adapter.js";
import { type CheckpointSummary, type StoredCheckpoint, summaryOf } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, UnsupportedFormatError } from "../../src/contract/errors.js";
import {
  type CheckpointFile,
  checkpointFileNameEnd,
  compareCheckpointFileNames,
  isCheckpointFileName,
  knownByName,
  NUMBERING_FILE,
  parseCheckpointFileName,
  readCheckpoint,
  readHead,
  readNumbering,
  sequenceOfRenamed,
} from "./json-file-format.js";
import { isCounted } from "./numbering-recovery.js";
import { type EmbeddedRecord, storedCheckpoint } from "./sealed-record.js";
import { codeOf } from "./storage-failure.js";
import { UnreadableError } from "./stored-file.js";
import { nameOf } from "./task-folder.js";
import { assertSameTask, foreignReason, isForeign, isOwner, type TaskContents } from "./task-scan.js";

/** What was looked for, what stands in its place where it can't be read, or nothing where it is gone. */
export type Found<Item> = Item | CorruptRecord | undefined;

/** One task's folder with a file for each checkpoint, as it was when it was listed. */
export class CheckpointFolder {
  readonly #path: string;
  readonly #taskId: string | undefined;
  /** Of checkpoints, in no order. They are taken apart where it is needed: each save lists all of them. */
  readonly #names: string[] = [];
  readonly #newest: CheckpointFile | undefined;
  /** Whether it keeps the sequence of a newest checkpoint that was removed. */
  readonly hasNumbering: boolean = false;
  /** The highest sequence of files that are checkpoints' no longer, going by their names; 0 for none. */
  readonly #renamedSequence: number = 0;

  /** @param taskId - Whose it is, if that is known. */
  constructor(path: string, taskId: string | undefined) {
    this.#path = path;
    this.#taskId = taskId;
    let newest: string | undefined;
    for (const name of namesIn(path)) {
      if (isCheckpointFileName(name)) {
        this.#names.push(name);
        if (newest === undefined || compareCheckpointFileNames(name, newest) > 0) newest = name;
      } else {
        // Whatever has another form of name is somebody else's, or was given that name by somebody.
        this.hasNumbering ||= name === NUMBERING_FILE;
        this.#renamedSequence = Math.max(this.#renamedSequence, sequenceOfRenamed(name));
      }
    }
    this.#newest = newest === undefined ? undefined : parseCheckpointFileName(newest);
  }

  get count(): number {
    return this.#names.length;
  }

  get newestName(): string | undefined {
    return this.#newest?.name;
  }

  /** A damaged newest file counts: its name says which sequence it has. 0 for none. */
  get newestSequence(): number {
    return this.#newest?.sequence ?? 0;
  }

  /** The highest sequence that the name of a file tells which somebody has given that name; 0 for none. */
  get renamedSequence(): number {
    return this.#renamedSequence;
  }

  /**
   * The highest sequence that was given, as far as what is intact here and the numbering tell for certain; a damaged
   * checkpoint's name counts where counting may have come to it.
   *
   * @param kept - What the numbering keeps.
   */
  lastCounted(kept: number): number {
    let counted: number | undefined;
    const higher: number[] = [];
    for (const file of this.#newestFirst()) {
      if (file.sequence <= kept) break;
      if (this.#isIntact(file)) {
        counted = file.sequence;
        break;
      }
      higher.push(file.sequence);
    }
    const known = counted ?? kept;
    return higher.find((sequence) => isCounted(sequence, known)) ?? known;
  }

  /** The oldest first. */
  files(): CheckpointFile[] {
    return this.#names.toSorted(compareCheckpointFileNames).map(parseCheckpointFileName);
  }

  /** The newest file of that id; where more have its name, the one that can be read. */
  find(id: string): CheckpointFile | undefined {
    const idName = nameOf(id);
    const end = checkpointFileNameEnd(idName);
    // Another id may end like it.
    const found = this.#names.filter((name) => name.endsWith(end) && parseCheckpointFileName(name).idName === idName);
    if (found.length > 1) found.sort(compareCheckpointFileNames).reverse();
    const files = found.map(parseCheckpointFileName);
    return files.length > 1 ? (files.find((file) => this.holdsIntact(file)) ?? files[0]) : files[0];
  }

  /** Whether the file's head can be read, and is one of this task's. */
  holdsIntact(file: CheckpointFile): boolean {
    const found = this.#summary(file);
    return found !== undefined && !isCorrupt(found) && isOwner(found.taskId, this.#path);
  }

  pathOf(file: CheckpointFile): string {
    return join(this.#path, file.name);
  }

  /** @throws {StorageError} It is that of a task whose folder this disk takes for this one. */
  async read(file: CheckpointFile): Promise<Found<StoredCheckpoint>> {
    try {
      const content = await readCheckpoint(this.pathOf(file), file);
      if (content === undefined) return undefined;
      this.#assertOurs(content.head, this.pathOf(file));
      return storedCheckpoint(content);
    } catch (error) {
      return this.#corruptOrThrow(file, error);
    }
  }

  /** @throws {StorageError} It is that of a task whose folder this disk takes for this one. */
  readSummary(file: CheckpointFile): Found<CheckpointSummary> {
    const found = this.#summary(file);
    if (found === undefined || isCorrupt(found)) return found;
    try {
      this.#assertOurs(found, this.pathOf(file));
      return found;
    } catch (error) {
      return this.#corruptOrThrow(file, error);
    }
  }

  /**
   * A checkpoint that a write goes by; `undefined` where it is gone.
   *
   * @throws {CheckpointCorruptError}
   * @throws {StorageError} It is that of a task whose folder this disk takes for this one.
   */
  async readToChange(file: CheckpointFile): Promise<EmbeddedRecord | undefined> {
    const path = this.pathOf(file);
    try {
      const content = await readCheckpoint(path, file);
      if (content) this.#assertOurs(content.head, path);
      return content;
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      throw new CheckpointCorruptError(
        `The checkpoint at ${path} can't be read: ${error.message}. It was left untouched, and nothing was changed.`,
        { cause: error },
      );
    }
  }

  /**
   * The sequence that is kept of a newest checkpoint that was removed; 0 for none.
   *
   * @throws {CheckpointCorruptError} It can't be read, so that a sequence could be given twice.
   */
  async keptSequence(): Promise<number> {
    if (!this.hasNumbering) return 0;
    const path = join(this.#path, NUMBERING_FILE);
    try {
      const numbering = await readNumbering(path);
      if (numbering === undefined) return 0;
      this.#assertOurs(numbering, path);
      return numbering.lastSequence;
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      throw new CheckpointCorruptError(
        `${path} can't be read: ${error.message}. It keeps the last sequence of a task whose newest checkpoint was removed. ` +
          "Nothing was changed, since a sequence could be given twice; restore that file from a backup, or repair the storage.",
        { cause: error },
      );
    }
  }

  /**
   * Names that differ in case alone are one folder on some disks: then it belongs to whoever has a checkpoint in it. A
   * folder of which nothing intact is this task's was renamed, or copied.
   *
   * @throws {StorageError} It is another task's.
   */
  assertOwner(): void {
    const taskId = this.#taskId;
    let foreign: { readonly owner: string; readonly path: string } | undefined;
    for (const file of this.#newestFirst()) {
      const found = this.#summary(file);
      if (found === undefined || isCorrupt(found)) continue;
      if (taskId === undefined || found.taskId === taskId) return;
      foreign ??= { owner: found.taskId, path: this.pathOf(file) };
    }
    if (taskId !== undefined && foreign) assertSameTask(taskId, foreign.owner, foreign.path);
  }

  /**
   * For lists of tasks: damage in one folder doesn't hide the other tasks.
   *
   * @throws {UnsupportedFormatError} A newer program wrote its newest file, which is no damage.
   */
  contents(): TaskContents | undefined {
    const { count } = this;
    if (count === 0) return undefined;
    const corrupt: CorruptRecord[] = [];
    for (const file of this.#newestFirst()) {
      const found = this.#summary(file);
      if (found === undefined) continue;
      if (isCorrupt(found)) corrupt.push(found);
      else if (isOwner(found.taskId, this.#path)) return { taskId: found.taskId, count, newest: found, corrupt };
      else corrupt.push(this.#corrupt(file, foreignReason(found.taskId)));
    }
    return { taskId: this.#taskId, count, newest: undefined, corrupt };
  }

  /** Sorts only where the newest won't do. */
  *#newestFirst(): Iterable<CheckpointFile> {
    if (this.#newest) yield this.#newest;
    yield* this.files().reverse().slice(1);
  }

  /** False also for what the disk doesn't give, or another version wrote: such a file stays, and its name with it. */
  #isIntact(file: CheckpointFile): boolean {
    try {
      return this.holdsIntact(file);
    } catch (error) {
      if (error instanceof UnsupportedFormatError || codeOf(error) !== undefined) return false;
      throw error;
    }
  }

  #summary(file: CheckpointFile): Found<CheckpointSummary> {
    try {
      const head = readHead(this.pathOf(file), file);
      return head && summaryOf(head);
    } catch (error) {
      return this.#corruptOrThrow(file, error);
    }
  }

  #corruptOrThrow(file: CheckpointFile, error: unknown): CorruptRecord {
    if (error instanceof UnreadableError) return this.#corrupt(file, error.message, error.cause);
    throw error;
  }

  #corrupt(file: CheckpointFile, reason: string, cause?: unknown): CorruptRecord {
    const taskId = this.#taskId;
    return {
      corrupt: true,
      location: this.pathOf(file),
      reason,
      ...(taskId === undefined ? undefined : { taskId }),
      ...knownByName(file),
      ...(cause === undefined ? undefined : { cause }),
    };
  }

  /**
   * @throws {UnreadableError} It was copied there from another task's folder.
   * @throws {StorageError} It is that of a task whose folder this disk takes for this one.
   */
  #assertOurs(owner: { readonly taskId: string }, path: string): void {
    if (this.#taskId === undefined || owner.taskId === this.#taskId) return;
    if (isForeign(owner.taskId, this.#path)) throw new UnreadableError(foreignReason(owner.taskId));
    assertSameTask(this.#taskId, owner.taskId, path);
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    // The task was removed just now.
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}
