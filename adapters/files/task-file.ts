import { dirname, join } from "node:path";
import { isInRange } from "../../src/contract/adapter.js";
import { checkFunction, checkKeys, formWith, listKeys } from "../../src/contract/arguments.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { readStored, syncFolder, UnreadableError } from "./file-io.js";
import type { FolderLock } from "./lock.js";
import { shortDigest } from "./names.js";
import { attempt, type LoadedTask, type RecordQuery, type RecordSource } from "./record.js";
import { FolderStore, type FolderStoreOptions } from "./store.js";
import {
  type AdoptRecord,
  type Numbering,
  parseTaskFile,
  renderRecord,
  renderTaskFile,
  TASK_FILE_NAME,
  type TaskFileContent,
} from "./task-file-format.js";

export type { AdoptRecord } from "./task-file-format.js";

/** The options of {@link TaskFileAdapter}. */
export interface TaskFileAdapterOptions extends FolderStoreOptions {
  /** Finds the stage and status of records that another program wrote. */
  readonly adopt?: AdoptRecord | undefined;
}

const LOG_NAME = "checkpoints.log.jsonl";

/** A file that could not be read, and its new path. */
export interface SetAside {
  /** The file's former path. */
  readonly path: string;
  readonly movedTo: string;
  /** Why the file could not be read. */
  readonly reason: string;
}

/**
 * Stores one small `checkpoints.json` per task, in the task's folder. The folder may also contain other files.
 *
 * ```
 * <path>/P1.M1.T1.S1/checkpoints.json
 * ```
 *
 * Saves survive a killed process and a power cut. Any number of processes on one machine may share a root folder. Each
 * save rewrites all of the task's checkpoints, and each call reads all of them, so keep them few and small with a
 * retention policy. Files have mode 0600, folders 0700.
 */
export class TaskFileAdapter extends FolderStore {
  readonly #adopt: AdoptRecord | undefined;

  /** @throws {TypeError | RangeError} An option is wrong. */
  constructor(options: TaskFileAdapterOptions) {
    checkKeys(
      "TaskFileAdapterOptions",
      options,
      listKeys<TaskFileAdapterOptions>({ path: true, lockTimeoutMs: true, adopt: true }),
      formWith("path", options),
    );
    const { adopt, ...rest } = options;
    checkFunction("TaskFileAdapterOptions.adopt", adopt);
    super("task-file", rest, (folder) => loadTaskFile(folder, adopt), LOG_NAME);
    this.#adopt = adopt;
  }

  /**
   * If a task's file is too damaged to be written, renames it to `checkpoints.json.damaged-<digest>`, so that the task
   * can start again. Returns `undefined` if there is no file, or the file can be written. (A single damaged checkpoint
   * doesn't prevent writing.)
   *
   * @throws {CheckpointCorruptError} Something other than a file has this name; the message shows its path.
   */
  async setAside(taskId: string): Promise<SetAside | undefined> {
    const folder = this.findFolder(taskId);
    const doing = `set aside task ${JSON.stringify(taskId)}`;
    const work = async (lock: FolderLock): Promise<SetAside | undefined> => {
      const { path, refusal } = loadTaskFile(folder, this.#adopt);
      if (refusal === undefined) return undefined;
      const bytes = attempt(() => readStored(path) ?? new Uint8Array());
      if (bytes instanceof UnreadableError) {
        throw new CheckpointCorruptError(
          `Could not ${doing}: ${path} is damaged: ${bytes.message}. ` +
            "It was left untouched, and nothing was changed. Move it away.",
          { cause: bytes },
        );
      }
      const movedTo = `${path}.damaged-${shortDigest(bytes)}`;
      // The copy is written before the file is removed, so a kill in between leaves two copies, never none.
      await lock.write(movedTo, bytes);
      lock.remove(path);
      await syncFolder(folder);
      return { path, movedTo, reason: refusal };
    };
    return this.write(folder, doing, work, () => undefined);
  }
}

function loadTaskFile(folder: string, adopt: AdoptRecord | undefined): TaskFile {
  const path = join(folder, TASK_FILE_NAME);
  const empty: TaskFileContent = { lines: [], fields: {} };
  const content = attempt(() => {
    const bytes = readStored(path);
    return bytes ? parseTaskFile(bytes, path, adopt) : empty;
  });
  return new TaskFile(path, content instanceof UnreadableError ? { ...empty, damage: content.message } : content);
}

class TaskFile implements LoadedTask {
  readonly path: string;
  readonly #content: TaskFileContent;
  readonly #entries: readonly RecordSource[];

  constructor(path: string, content: TaskFileContent) {
    const { lines, damage } = content;
    this.path = path;
    this.#content = content;
    this.#entries = damage === undefined ? lines : [...lines, makeFileEntry(path, damage)];
  }

  /** The reason why the file must not be written; `undefined` if it may be. */
  get refusal(): string | undefined {
    const { numbering, damage } = this.#content;
    return numbering === undefined ? damage : undefined;
  }

  get count(): number {
    return this.#content.lines.length || this.#entries.length;
  }

  /** The newest line's sequence. If that line is unreadable, its sequence is assumed to be the last one taken. */
  get newestSequence(): number {
    const newest = this.#entries.at(-1);
    return newest === undefined ? 0 : (newest.known.sequence ?? this.#lastSequence);
  }

  get lastSequence(): number {
    const { refusal } = this;
    if (refusal === undefined) return this.#lastSequence;
    throw new CheckpointCorruptError(
      `${this.path} can't be written: ${refusal}. It was left untouched, and its intact checkpoints can still be read. ` +
        "Restore it from a backup, or repair the storage.",
    );
  }

  find(id: string): RecordSource | undefined {
    return this.#entries.findLast(({ known }) => known.id === id);
  }

  findDamaged(): RecordSource | undefined {
    return this.#entries.findLast(({ known }) => known.sequence === undefined);
  }

  select({ order, skip = 0, ...range }: RecordQuery): RecordSource[] {
    // An unreadable checkpoint may be in any range.
    const selected = this.#entries.filter(
      ({ known: { sequence } }) => sequence === undefined || isInRange(sequence, range),
    );
    if (order === "newest") selected.reverse();
    return selected.slice(skip);
  }

  async add(record: StoredCheckpoint, lock: FolderLock, replaced: readonly RecordSource[]): Promise<void> {
    const kept = this.#content.lines.filter((line) => !replaced.includes(line));
    await this.#write(
      [...kept.map(({ line }) => line), renderRecord(record)],
      { taskId: record.taskId, lastSequence: record.sequence },
      lock,
    );
  }

  async replace(entry: RecordSource, record: StoredCheckpoint, lock: FolderLock): Promise<void> {
    const lines = this.#content.lines.map((line) => (line === entry ? renderRecord(record, line.fields()) : line.line));
    await this.#write(lines, { taskId: record.taskId, lastSequence: this.lastSequence }, lock);
  }

  async remove(doomed: readonly RecordSource[] | "all", lock: FolderLock): Promise<number> {
    const { lines } = this.#content;
    const locations = new Set(doomed === "all" ? [] : doomed.map(({ location }) => location));
    const kept = lines.filter(({ location }) => !locations.has(location));
    // If the file was damaged as a whole, a copy is now in quarantine, and the intact lines are written to a new file.
    const isRepaired = locations.has(this.path);
    const taskId = this.#taskId;
    let removed = lines.length - kept.length;
    if (doomed === "all" || (isRepaired && taskId === undefined)) removed = lock.remove(this.path) ? this.count : 0;
    else if (removed > 0 || isRepaired) {
      await this.#write(
        kept.map(({ line }) => line),
        { taskId: taskId ?? "", lastSequence: isRepaired ? this.#lastSequence : this.lastSequence },
        lock,
      );
      return removed;
    }
    // Sync even if nothing was removed, because an earlier process may have died between a removal and its sync.
    await syncFolder(dirname(this.path));
    return removed;
  }

  get #taskId(): string | undefined {
    const { numbering, lines } = this.#content;
    return numbering?.taskId ?? lines.find(({ known }) => known.sequence !== undefined)?.head().taskId;
  }

  get #lastSequence(): number {
    const newest = this.#content.lines.findLast(({ known }) => known.sequence !== undefined);
    return Math.max(this.#content.numbering?.lastSequence ?? 0, newest?.known.sequence ?? 0);
  }

  #write(lines: readonly Buffer[], numbering: Numbering, lock: FolderLock): Promise<void> {
    return lock.writeLast(this.path, renderTaskFile(lines, this.#content.fields, numbering));
  }
}

/** Makes an entry for damage to the file as a whole. */
function makeFileEntry(path: string, damage: string): RecordSource {
  const fail = (): never => {
    throw new UnreadableError(damage);
  };
  return { location: path, known: {}, bytes: () => readStored(path), head: fail, checkpoint: fail };
}
