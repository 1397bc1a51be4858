import { dirname } from "node:path";
import { type CheckpointQuery, type CorruptRecord, inRange } from "../../src/contract/adapter.js";
import { summaryOf } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, StorageError } from "../../src/contract/errors.js";
import { isCounted } from "./numbering-recovery.js";
import { readStored, UnreadableError } from "./stored-file.js";
import {
  type DamagedEntry,
  type Entry,
  isDamaged,
  parseNewest,
  parseTaskFile,
  renderTaskFile,
  type TaskFileContent,
} from "./task-file-format.js";
import { type AdoptRecord, holdsSealed } from "./task-file-record.js";
import { assertSameTask, isForeign, isOwner, type TaskContents } from "./task-scan.js";

/**
 * The largest task's file that is read, and so the largest that is written. To read one of small checkpoints, some 330 bytes
 * each, takes six times as much memory (measured: 1.4 GB for 250 MB); see task-file-limits.ts for what isn't ours. No text in
 * it comes near to the longest that JavaScript can hold.
 */
export const MAX_TASK_FILE_BYTES = 256 * 1024 ** 2;

/** What a task's file held when it was read, damage included. */
export class TaskFileEntries {
  /** False where there is no file. */
  readonly exists: boolean;
  /** The last sequence that was given, as far as the file tells. */
  readonly lastSequence: number;
  /** That of the newest checkpoint; 0 for none. A damaged one counts. */
  readonly newestSequence: number;
  readonly #path: string;
  readonly #content: TaskFileContent;
  /** The oldest first. */
  readonly #placed: readonly Placed[];
  readonly #positions: ReadonlyMap<Entry, number>;

  constructor(path: string, content: TaskFileContent | undefined) {
    this.#path = path;
    this.#content = content ?? { entries: [], extra: {} };
    this.#placed = place(this.#content);
    this.#positions = new Map(this.#placed.map(({ entry, position }) => [entry, position]));
    this.exists = content !== undefined;
    const lastKnown = this.#placed.findLast(isNumbered)?.position ?? 0;
    const newest = this.#placed.at(-1);
    this.lastSequence = Math.max(this.#content.numbering?.lastSequence ?? 0, lastKnown);
    // Of a damaged newest one that doesn't tell its sequence no more is known than that it was given.
    this.newestSequence = newest === undefined || isNumbered(newest) ? lastKnown : this.lastSequence;
  }

  /** @throws {UnsupportedFormatError} It has another version. */
  static async read(path: string, adopt: AdoptRecord | undefined): Promise<TaskFileEntries> {
    return parseEntries(path, await readOrRefuse(path), adopt);
  }

  /** In the order in which they are written. */
  get entries(): readonly Entry[] {
    return this.#content.entries;
  }

  /** Why it must not be written; see {@link TaskFileContent.refusal}. */
  get refusal(): string | undefined {
    return this.#content.refusal;
  }

  /** Whose it says it is. */
  get owner(): string | undefined {
    const { numbering, entries } = this.#content;
    return numbering?.taskId ?? entries.flatMap((entry) => (isDamaged(entry) ? [] : [entry.head.taskId]))[0];
  }

  /** Of checkpoints, damaged ones included. Where none can be told from another, they are one. */
  get count(): number {
    return this.entries.filter((entry) => !isDamaged(entry) || entry.line !== undefined).length || this.entries.length;
  }

  /**
   * Before a read: what was copied there from another task's file is damage like any other.
   *
   * @throws {StorageError} It is that of a task whose folder this disk takes for this one.
   */
  assertReadable(taskId: string): void {
    const { numbering, entries } = this.#content;
    if (numbering && !isForeign(numbering.taskId, dirname(this.#path))) {
      assertSameTask(taskId, numbering.taskId, this.#path);
    }
    for (const entry of entries) if (!isDamaged(entry)) assertSameTask(taskId, entry.head.taskId, this.#path);
  }

  /**
   * Before a write.
   *
   * @throws {StorageError} It is another task's.
   */
  assertOwner(taskId: string): void {
    const { numbering } = this.#content;
    if (numbering) assertSameTask(taskId, numbering.taskId, this.#path);
    this.assertReadable(taskId);
  }

  /** @throws {CheckpointCorruptError} What it says of itself can't be read. */
  assertWritable(): void {
    const { refusal } = this;
    if (refusal === undefined) return;
    throw new CheckpointCorruptError(
      `${this.#path} can't be written: ${refusal}. It was left untouched; what is readable of it can still be read. ` +
        "Restore it from a backup, or move it away to begin anew.",
    );
  }

  /** Those in the query's range and order, after those it skips. */
  select({ order, skip = 0, taskId, beforeSequence, afterSequence }: CheckpointQuery): Entry[] {
    const range = { taskId, order, beforeSequence, afterSequence };
    const found = this.#placed.filter(({ position }) => inRange(position, range));
    if (order === "newest") found.reverse();
    return found.slice(skip).map(({ entry }) => entry);
  }

  /** The entry of that id; a damaged one where no other has it. */
  find(id: string): Entry | undefined {
    return (
      this.entries.findLast((entry) => !isDamaged(entry) && entry.head.id === id) ??
      this.entries.findLast((entry) => isDamaged(entry) && entry.id === id)
    );
  }

  /** A damaged entry that may have had any id: what it still says of itself may be damaged too, or be all that is left. */
  findUnidentified(): DamagedEntry | undefined {
    return this.entries.findLast(isDamaged);
  }

  /**
   * The file's content with these entries.
   *
   * @throws {StorageError} It would be larger than what is read again.
   */
  render(taskId: string, entries: readonly Entry[], lastSequence = this.lastSequence): Buffer {
    const numbering = { taskId, lastSequence };
    const content = renderTaskFile({ ...this.#content, entries, numbering }, new Date().toISOString());
    if (content.length <= MAX_TASK_FILE_BYTES) return content;
    throw new StorageError(
      `${this.#path} would have ${content.length} bytes with this change, and more than ${MAX_TASK_FILE_BYTES} are not read ` +
        "again. Nothing was changed. Remove some of its checkpoints, by a retention policy as a rule, or keep so large states " +
        "in another storage.",
    );
  }

  /** The same without what damage has made of the first line, so that what can't be read of it isn't written again. */
  renderRepaired(taskId: string, entries: readonly Entry[], lastSequence: number): Buffer {
    const extra = Object.entries(this.#content.extra).filter(([key, value]) => !holdsSealed({ [key]: value }));
    const content = { entries, numbering: { taskId, lastSequence }, extra: Object.fromEntries(extra) };
    return renderTaskFile(content, new Date().toISOString());
  }

  corrupt(entry: DamagedEntry, taskId: string | undefined): CorruptRecord {
    const { lineNumber, reason, id, cause } = entry;
    const position = this.#positions.get(entry);
    return {
      corrupt: true,
      location: lineNumber === undefined ? this.#path : `${this.#path} (line ${lineNumber})`,
      reason,
      ...(taskId === undefined ? undefined : { taskId }),
      ...(id === undefined ? undefined : { id }),
      ...(position !== undefined && Number.isInteger(position) ? { sequence: position } : undefined),
      ...(cause === undefined ? undefined : { cause }),
    };
  }

  /** For lists of tasks: damage in one file doesn't hide the other tasks. */
  contents(folder: string, folderTaskId: string | undefined): TaskContents | undefined {
    const { count } = this;
    if (count === 0) return undefined;
    const { owner } = this;
    const taskId = folderTaskId ?? (owner !== undefined && isOwner(owner, folder) ? owner : undefined);
    const corrupt: CorruptRecord[] = [];
    for (const { entry } of this.#placed.toReversed()) {
      if (isDamaged(entry)) corrupt.push(this.corrupt(entry, taskId));
      else if (isOwner(entry.head.taskId, folder)) {
        return { taskId: entry.head.taskId, count, newest: summaryOf(entry.head), corrupt };
      } else {
        const { id, taskId: owner } = entry.head;
        corrupt.push(this.corrupt({ reason: `${id} belongs to task ${JSON.stringify(owner)}`, id }, taskId));
      }
    }
    return { taskId, count, newest: undefined, corrupt };
  }
}

/**
 * What a list of tasks shows of a task's file.
 *
 * @throws {UnsupportedFormatError} It has another version.
 */
export async function readContents(
  path: string,
  taskId: string | undefined,
  adopt: AdoptRecord | undefined,
): Promise<TaskContents | undefined> {
  const folder = dirname(path);
  const bytes = await readOrRefuse(path);
  const found = bytes instanceof Buffer ? parseNewest(bytes) : undefined;
  if (found === undefined || !isOwner(found.newest.head.taskId, folder)) {
    return parseEntries(path, bytes, adopt).contents(folder, taskId);
  }
  const { head } = found.newest;
  return { taskId: head.taskId, count: found.count, newest: summaryOf(head), corrupt: [] };
}

async function readOrRefuse(path: string): Promise<Buffer | undefined | UnreadableError> {
  try {
    return await readStored(path, MAX_TASK_FILE_BYTES);
  } catch (error) {
    if (error instanceof UnreadableError) return error;
    throw error;
  }
}

function parseEntries(
  path: string,
  bytes: Buffer | undefined | UnreadableError,
  adopt: AdoptRecord | undefined,
): TaskFileEntries {
  if (!(bytes instanceof UnreadableError)) return new TaskFileEntries(path, bytes && parseTaskFile(bytes, path, adopt));
  const { message } = bytes;
  return new TaskFileEntries(path, { entries: [{ reason: message }], extra: {}, refusal: message });
}

/** An entry with its sequence; one that doesn't tell it stands between its neighbours' sequences. */
interface Placed {
  readonly entry: Entry;
  readonly position: number;
}

function isNumbered({ position }: Placed): boolean {
  return Number.isInteger(position);
}

/** In the order of their sequences; what is wrong with the file as a whole comes last. */
function place({ entries, numbering }: TaskFileContent): Placed[] {
  const highest = entries.findLast((entry) => "head" in entry);
  const known = numbering?.lastSequence ?? highest?.head.sequence ?? 0;
  const ends = sequencesAfter(entries, numbering ? known + 1 : Number.POSITIVE_INFINITY);
  let before = 0;
  const placed = entries.map((entry, index): Placed => {
    if (!isDamaged(entry)) before = entry.head.sequence;
    else if (entry.line === undefined) return { entry, position: Number.POSITIVE_INFINITY };
    else if (!fits(entry, before, ends[index] ?? 0) || !isCounted(entry.sequence, known))
      return { entry, position: before + 0.5 };
    else before = entry.sequence;
    return { entry, position: before };
  });
  return placed.sort((a, b) => (a.position === b.position ? 0 : a.position - b.position));
}

/** Whether a damaged line's sequence is one that it can have had where it stands. */
function fits(
  entry: DamagedEntry,
  before: number,
  after: number,
): entry is DamagedEntry & { readonly sequence: number } {
  return entry.sequence !== undefined && entry.sequence > before && entry.sequence < after;
}

/** For each entry the sequence of the next that can be read. */
function sequencesAfter(entries: readonly Entry[], end: number): number[] {
  const after: number[] = [];
  let next = end;
  for (const entry of entries.toReversed()) {
    after.push(next);
    if (!isDamaged(entry)) next = entry.head.sequence;
  }
  return after.reverse();
}
