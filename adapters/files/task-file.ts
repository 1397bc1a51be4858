import { dirname, join } from "node:path";
import { type CheckpointQuery, checkKeys } from "../../src/contract/adapter.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { syncFolder } from "./durable-write.js";
import type { FolderLock } from "./lock.js";
import { type Movable, type SetAside, setAside } from "./quarantine.js";
import { readStored, UnreadableError } from "./read-file.js";
import { FolderStore, type FolderStoreOptions } from "./store.js";
import type { Entry, Task } from "./task.js";
import {
  type AdoptRecord,
  parseTaskFile,
  type RecordLine,
  renderRecord,
  renderTaskFile,
  TASK_FILE_NAME,
  type TaskFileContent,
} from "./task-file-format.js";

export type { SetAside } from "./quarantine.js";
export type { AdoptRecord } from "./task-file-format.js";

/** The options of {@link TaskFileAdapter}. */
export interface TaskFileAdapterOptions extends FolderStoreOptions {
  /** Tells stage and status of records that another program wrote. */
  readonly adopt?: AdoptRecord | undefined;
}

/**
 * One `checkpoints.json` per task, each in its task's folder: one small file beside what else the task makes.
 *
 * ```
 * <path>/P1.M1.T1.S1/checkpoints.json
 * ```
 *
 * Saves survive a killed process and a power cut. Any number of processes of one machine may use one root folder. A
 * save writes all of the task's checkpoints anew, and each call reads them: keep them few and small, by a retention
 * policy. Files have mode 0600, folders 0700.
 */
export class TaskFileAdapter extends FolderStore {
  readonly #adopt: AdoptRecord | undefined;

  /** @throws {TypeError | RangeError} A wrong option. */
  constructor(options: TaskFileAdapterOptions) {
    checkKeys("TaskFileAdapterOptions", options, ["path", "lockTimeoutMs", "adopt"]);
    const { adopt, ...rest } = options;
    if (adopt !== undefined && typeof adopt !== "function") throw new TypeError("adopt must be a function.");
    super("task-file", rest);
    this.#adopt = adopt;
  }

  /**
   * Renames a task's file that is so damaged that it can't be written, `checkpoints.json.damaged-<time>`, with all that
   * is still readable of it, so that the task can be begun anew. `undefined` where there is none, or it can be written:
   * a damaged checkpoint among others is in nobody's way.
   *
   * @throws {CheckpointCorruptError} It is no file; the message names it.
   */
  async setAside(taskId: string): Promise<SetAside | undefined> {
    const absent = (): undefined => undefined;
    return this.write<SetAside | undefined>({ taskId, verb: "set aside", absent }, async (lock, folder) => {
      const { path, refusal } = await this.load(folder);
      return refusal === undefined ? undefined : setAside(lock, path, refusal);
    });
  }

  /** @throws {UnsupportedFormatError} Its file has another version. */
  protected override async load(folder: string): Promise<TaskFile> {
    const path = join(folder, TASK_FILE_NAME);
    let content: TaskFileContent = { lines: [], fields: {}, lastSequence: 0 };
    try {
      const bytes = await readStored(path);
      if (bytes) content = parseTaskFile(bytes, path, this.#adopt);
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      content = { ...content, damage: error.message, isRefused: true };
    }
    return new TaskFile(path, content);
  }
}

/** What a task's file held when it was read. */
class TaskFile implements Task {
  readonly path: string;
  readonly #content: TaskFileContent;
  readonly #entries: readonly Entry[];

  constructor(path: string, content: TaskFileContent) {
    const { lines, damage } = content;
    this.path = path;
    this.#content = content;
    this.#entries = damage === undefined ? lines : [...lines, fileEntry(path, damage)];
  }

  get count(): number {
    return this.#content.lines.length || this.#entries.length;
  }

  /** Why it must not be written. */
  get refusal(): string | undefined {
    return this.#content.isRefused ? this.#content.damage : undefined;
  }

  /** If the newest line is unreadable, assume that it used the last sequence given. */
  get newestSequence(): number {
    const newest = this.#entries.at(-1);
    if (newest === undefined) return 0;
    return newest.known.sequence ?? this.#lastSequence;
  }

  get lastSequence(): number {
    this.#assertWritable();
    return this.#lastSequence;
  }

  find(id: string): Entry | undefined {
    return this.#entries.findLast(({ known }) => known.id === id);
  }

  findDamaged(): Entry | undefined {
    return this.#entries.findLast(({ known }) => known.sequence === undefined);
  }

  select(query: Omit<CheckpointQuery, "taskId">): Entry[] {
    const { order, skip = 0, beforeSequence, afterSequence } = query;
    const isRanged = beforeSequence !== undefined || afterSequence !== undefined;
    const found = isRanged ? this.#inRange(query) : [...this.#entries];
    if (order === "newest") found.reverse();
    return found.slice(skip);
  }

  async append(record: StoredCheckpoint, lock: FolderLock): Promise<void> {
    const lines = [...bytesOf(this.#content.lines), renderRecord(record)];
    await this.#write(lines, record.taskId, record.sequence, lock);
  }

  async replace(entry: Entry, record: StoredCheckpoint, lock: FolderLock): Promise<void> {
    const lines = this.#content.lines.map((line) =>
      line === entry ? renderRecord(record, line.fields()) : line.bytes,
    );
    await this.#write(lines, record.taskId, this.#lastSequence, lock);
  }

  async remove(ids: readonly string[] | "all", lock: FolderLock, done: { removed: number }): Promise<void> {
    if (ids === "all") {
      const { count } = this;
      if (lock.remove(this.path)) done.removed = count;
    } else {
      this.#assertWritable();
      const doomed = new Set(ids.map((id) => this.find(id)));
      const kept = this.#content.lines.filter((line) => !doomed.has(line));
      const removed = this.#content.lines.length - kept.length;
      if (removed > 0) {
        await this.#write(bytesOf(kept), this.#taskId ?? "", this.#lastSequence, lock);
        done.removed = removed;
        return;
      }
    }
    // Also where nothing was left: the process that removed it may have died before that was durable.
    await syncFolder(dirname(this.path));
  }

  async takeAway(moved: readonly Movable[], lock: FolderLock): Promise<void> {
    const gone = new Set(moved.map((what) => ("record" in what ? asKey(what.record) : undefined)));
    const kept = this.#content.lines.filter((line) => !gone.has(asKey(line.bytes)));
    const taskId = this.#taskId;
    if (taskId !== undefined) {
      const { fields } = this.#content;
      return lock.write(this.path, renderTaskFile(bytesOf(kept), { fields, taskId, lastSequence: this.#lastSequence }));
    }
    lock.remove(this.path);
    await syncFolder(dirname(this.path));
  }

  /** Whose it is, as far as it tells. */
  get #taskId(): string | undefined {
    const { taskId, lines } = this.#content;
    return taskId ?? lines.find(({ known }) => known.sequence !== undefined)?.head().taskId;
  }

  get #lastSequence(): number {
    const newest = this.#content.lines.findLast(({ known }) => known.sequence !== undefined);
    return Math.max(this.#content.lastSequence, newest?.known.sequence ?? 0);
  }

  /** @throws {CheckpointCorruptError} What it says of itself can't be read. */
  #assertWritable(): void {
    const { refusal } = this;
    if (refusal === undefined) return;
    throw new CheckpointCorruptError(
      `${this.path} can't be written: ${refusal}. It was left untouched; what is readable of it can still be read. ` +
        "Restore it from a backup, or repair the storage.",
    );
  }

  /** A damaged entry stands right after the one before it, the newest at the last sequence that was given. */
  #inRange({ beforeSequence = Number.POSITIVE_INFINITY, afterSequence = 0 }: Omit<CheckpointQuery, "taskId">): Entry[] {
    let before = 0;
    return this.#entries.filter(({ known }, at) => {
      const last = at === this.#entries.length - 1 ? this.#lastSequence : 0;
      const position = known.sequence ?? Math.max(before + 0.5, last);
      before = known.sequence ?? before;
      return position < beforeSequence && position > afterSequence;
    });
  }

  async #write(lines: readonly Buffer[], taskId: string, lastSequence: number, lock: FolderLock): Promise<void> {
    this.#assertWritable();
    await lock.write(this.path, renderTaskFile(lines, { fields: this.#content.fields, taskId, lastSequence }));
  }
}

/** Stands for what is wrong with a file as a whole. */
function fileEntry(path: string, damage: string): Entry {
  const fail = (): never => {
    throw new UnreadableError(damage);
  };
  return { location: path, known: {}, movable: { path }, head: fail, checkpoint: async () => fail() };
}

function bytesOf(lines: readonly RecordLine[]): Buffer[] {
  return lines.map(({ bytes }) => bytes);
}

function asKey(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("latin1");
}
