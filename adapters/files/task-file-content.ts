import { join } from "node:path";
import { type CheckpointQuery, type CorruptRecord, inRange, isCorrupt } from "../../src/contract/adapter.js";
import { type CheckpointSummary, summaryOf } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { readStored, UnreadableError } from "./read-file.js";
import { assertSameTask, isOwner } from "./store.js";
import {
  type AdoptRecord,
  type DamagedEntry,
  type Entry,
  isDamaged,
  parseNewest,
  parseTaskFile,
  type RecordEntry,
  renderTaskFile,
  type TaskFileContent,
} from "./task-file-format.js";
import type { TaskContents, TaskFolder } from "./task-scan.js";

/** In its task's folder. */
export const TASK_FILE_NAME = "checkpoints.json";

const NO_FILE: TaskFileContent = { entries: [], fields: {}, lastSequence: 0 };

/** What a task's file held when it was read, damage included. */
export class TaskFile {
  readonly path: string;
  readonly #content: TaskFileContent;
  /** For each entry its sequence; of a damaged one, where it stands among the others. The oldest first. */
  readonly #positions: readonly number[];

  constructor(path: string, content: TaskFileContent = NO_FILE) {
    this.path = path;
    this.#content = content;
    this.#positions = positionsOf(content);
  }

  /** @throws {UnsupportedFormatError} It has another version. */
  static async read(path: string, adopt: AdoptRecord | undefined): Promise<TaskFile> {
    return parsed(path, await readOrReason(path), adopt);
  }

  get entries(): readonly Entry[] {
    return this.#content.entries;
  }

  /** Why it must not be written; see {@link TaskFileContent.refusal}. */
  get refusal(): string | undefined {
    return this.#content.refusal;
  }

  /** Whose it is, as far as it tells. */
  get taskId(): string | undefined {
    return this.#content.taskId;
  }

  /** The last sequence that was given, as far as the file tells. */
  get lastSequence(): number {
    return this.#content.lastSequence;
  }

  /** That of the newest checkpoint; 0 for none. A damaged one counts: it is assumed to have the last that was given. */
  get newestSequence(): number {
    const newest = this.entries.at(-1);
    if (newest === undefined) return 0;
    return isDamaged(newest) ? this.lastSequence : newest.head.sequence;
  }

  /** Of checkpoints, damaged ones included. Where none can be told from another, they are one. */
  get count(): number {
    return this.entries.filter(({ line }) => line !== undefined).length || this.entries.length;
  }

  /** @throws {StorageError} It is another task's. */
  assertOwner(taskId: string): void {
    if (this.taskId !== undefined) assertSameTask(taskId, this.taskId, this.path);
  }

  /** @throws {CheckpointCorruptError} What it says of itself can't be read. */
  assertWritable(): void {
    const { refusal } = this;
    if (refusal === undefined) return;
    throw new CheckpointCorruptError(
      `${this.path} can't be written: ${refusal}. It was left untouched; what is readable of it can still be read. ` +
        "Restore it from a backup, or repair the storage.",
    );
  }

  /** Those in the query's range and order, after those it skips. */
  select({ taskId, order, skip = 0, beforeSequence, afterSequence }: CheckpointQuery): Entry[] {
    const range = { taskId, order, beforeSequence, afterSequence };
    const found = this.entries.filter((_, at) => inRange(this.#positions[at] ?? 0, range));
    if (order === "newest") found.reverse();
    return found.slice(skip);
  }

  /** The entry of that id; a damaged one where no other has it. */
  find(id: string): Entry | undefined {
    return (
      this.entries.findLast((entry) => !isDamaged(entry) && entry.head.id === id) ??
      this.entries.findLast((entry) => isDamaged(entry) && entry.id === id)
    );
  }

  /** @throws {CheckpointCorruptError} It can't be read. */
  findToChange(id: string): RecordEntry | undefined {
    const entry = this.find(id);
    if (entry === undefined || !isDamaged(entry)) return entry;
    throw new CheckpointCorruptError(
      `Checkpoint ${id} in ${this.path} can't be read: ${entry.reason}. It was left untouched, and nothing was changed.`,
      { cause: entry.cause },
    );
  }

  /** What an entry holds, or what stands in its place where it can't be read. */
  open<Item extends CheckpointSummary>(
    entry: Entry,
    taskId: string | undefined,
    read: (entry: RecordEntry) => Item,
  ): Item | CorruptRecord {
    if (isDamaged(entry)) return this.#corrupt(entry, taskId);
    try {
      return read(entry);
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      const { id, sequence } = entry.head;
      return { ...this.#corrupt({ reason: error.message, cause: error.cause, id }, taskId), sequence };
    }
  }

  /** The file's content with these entries. */
  render(taskId: string, entries: readonly Entry[], lastSequence = this.lastSequence): Buffer {
    return renderTaskFile({ ...this.#content, entries }, taskId, lastSequence, new Date().toISOString());
  }

  /** For lists of tasks: damage in one file doesn't hide the other tasks. */
  contents({ path, taskId }: TaskFolder): TaskContents | undefined {
    const { count } = this;
    if (count === 0) return undefined;
    const corrupt: CorruptRecord[] = [];
    for (const entry of this.entries.toReversed()) {
      const found = this.open(entry, taskId, ({ head }) => {
        if (isOwner(head.taskId, path)) return summaryOf(head);
        throw new UnreadableError(`${head.id} belongs to task ${JSON.stringify(head.taskId)}`);
      });
      if (!isCorrupt(found)) return { taskId: found.taskId, count, newest: found, corrupt };
      corrupt.push(found);
    }
    return { taskId, count, newest: undefined, corrupt };
  }

  #corrupt({ lineNumber, reason, id, cause }: DamagedEntry, taskId: string | undefined): CorruptRecord {
    return {
      corrupt: true,
      location: lineNumber === undefined ? this.path : `${this.path} (line ${lineNumber})`,
      reason,
      ...(taskId === undefined ? undefined : { taskId }),
      ...(id === undefined ? undefined : { id }),
      ...(cause === undefined ? undefined : { cause }),
    };
  }
}

/**
 * What a list of tasks shows of a task's folder.
 *
 * @throws {UnsupportedFormatError} Its file has another version.
 */
export async function contentsOf(
  folder: TaskFolder,
  adopt: AdoptRecord | undefined,
): Promise<TaskContents | undefined> {
  const path = join(folder.path, TASK_FILE_NAME);
  const bytes = await readOrReason(path);
  const found = bytes instanceof Buffer ? parseNewest(bytes, path) : undefined;
  if (found === undefined || !isOwner(found.head.taskId, folder.path))
    return parsed(path, bytes, adopt).contents(folder);
  const { head, count } = found;
  return { taskId: head.taskId, count, newest: summaryOf(head), corrupt: [] };
}

async function readOrReason(path: string): Promise<Buffer | UnreadableError | undefined> {
  try {
    return await readStored(path);
  } catch (error) {
    if (error instanceof UnreadableError) return error;
    throw error;
  }
}

function parsed(path: string, bytes: Buffer | UnreadableError | undefined, adopt: AdoptRecord | undefined): TaskFile {
  if (!(bytes instanceof UnreadableError)) return new TaskFile(path, bytes && parseTaskFile(bytes, path, adopt));
  const { message } = bytes;
  return new TaskFile(path, { ...NO_FILE, entries: [{ reason: message }], refusal: message });
}

function positionsOf({ entries, lastSequence }: TaskFileContent): number[] {
  let before = 0;
  return entries.map((entry, at) => {
    if (!isDamaged(entry)) before = entry.head.sequence;
    // The newest is assumed to have the last sequence that was given.
    else if (at === entries.length - 1) return Math.max(lastSequence, before + 0.5);
    else return before + 0.5;
    return before;
  });
}
