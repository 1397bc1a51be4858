import { constants, createReadStream, fdatasync, fstatSync, openSync, readSync, type Stats, writeSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { readCode, StorageError } from "../../src/contract/errors.js";
import { READ_FLAGS, syncFolder, UnreadableError, withOpenFile } from "./file-io.js";
import { type FolderLock, LockLostError } from "./lock.js";
import { findLastTaken, isCompanion, type LogIndex, readIndex } from "./log-file.js";
import {
  type Companion,
  type DueMark,
  type LineFields,
  type LinePlace,
  type RenderedLine,
  renderFields,
  renderFirstLine,
} from "./log-line.js";
import { attempt, type LoadedTask } from "./record.js";

const syncData = promisify(fdatasync);
const APPEND_FLAGS = constants.O_RDWR | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0);

/** A line to append: its fields, without those of its place, and its value. */
export interface LineDraft {
  readonly fields: LineFields;
  readonly value?: string | Uint8Array | undefined;
}

/** How a batch of lines is appended. */
export interface BatchOptions {
  /** Don't sync it. */
  readonly isLazy?: boolean | undefined;
  /** The batch counts only if this checkpoint is stored, and {@link HeldLog.commit} is called or a reader finds it. */
  readonly with?: Companion | undefined;
  readonly due?: DueMark | undefined;
}

/**
 * A task's log, under the lock of the task's folder.
 *
 * The lock avoids contention. The place of a line decides whether it counts: the end of the file that its writer has
 * read. A holder checks its claim after its last read and before it writes. So if its lock was stolen before, it doesn't
 * write; if it was stolen since, the thief has moved the end of the log before it read anything else.
 */
export class HeldLog {
  readonly path: string;
  readonly #lock: FolderLock;
  #index: LogIndex | undefined;

  private constructor(path: string, lock: FolderLock, index: LogIndex | undefined) {
    this.path = path;
    this.#lock = lock;
    this.#index = index;
  }

  /**
   * Reads the log. If an earlier holder may still write to it, or has left it undecided whether a batch counts, appends
   * a barrier or a commit.
   *
   * @param load - Loads the task's checkpoints.
   * @throws {LockLostError} The lock was stolen; nothing was changed.
   */
  static async open(path: string, lock: FolderLock, load: () => LoadedTask): Promise<HeldLog> {
    const log = new HeldLog(path, lock, await readIndex(path));
    const pending = log.index?.scan.pending;
    if (log.index === undefined || log.index.scan.position.log === undefined) return log;
    if (pending === undefined && lock.isClean) return log;
    const task = load();
    const head = pending && attempt(() => task.find(pending.with.id)?.head());
    if (pending && !(head instanceof UnreadableError) && isCompanion(pending, head)) await log.commit(pending.with);
    else await log.#write([{ fields: { sequence: findLastTaken(log.#index, task) + 1, kind: "barrier" } }], {});
    // The holder that made or replaced the log may have failed to sync its name.
    await syncFolder(dirname(path));
    lock.markClean();
    return log;
  }

  /** `undefined` if there is no log. */
  get index(): LogIndex | undefined {
    return this.#index;
  }

  /**
   * Appends a batch of lines, all or none, and resolves once it is durable. Makes the log if there is none.
   *
   * @param lastSequence - The last sequence that the task has taken.
   * @throws {LockLostError} Nothing was stored.
   * @throws {UnreadableError} The log's first line is damaged, and there is no other one.
   */
  async append(
    taskId: string,
    lines: readonly LineDraft[],
    lastSequence: number,
    options: BatchOptions = {},
  ): Promise<void> {
    if (this.#index) return this.#write(lines, options);
    const first = renderFirstLine({ taskId, lastSequence });
    const batch = renderBatch(first, lines, options);
    await this.#lock.write(this.path, Buffer.concat([first.bytes, ...batch.map(({ bytes }) => bytes)]));
    this.#index = await readIndex(this.path);
    this.#lock.markClean();
  }

  /**
   * Notes that the checkpoint of the batch before was stored. The line isn't synced: without it, the next holder looks
   * for the checkpoint.
   */
  commit(companion: Companion): Promise<void> {
    const sequence = this.#index?.scan.pending?.entries.at(-1)?.sequence ?? 0;
    return this.#write([{ fields: { sequence, kind: "commit", with: companion } }], { isLazy: this.#lock.isClean });
  }

  /** Syncs lines that their writers didn't sync. Call it before a change of a checkpoint is stored. */
  async syncLazy(): Promise<void> {
    if (this.#index?.scan.isLazy) await this.sync();
  }

  /** Makes every line durable. */
  async sync(): Promise<void> {
    if (this.#index === undefined) return;
    await withOpenFile(
      () => openSync(this.path, READ_FLAGS),
      (file) => this.#syncFile(file),
    );
  }

  /** Replaces the log's file. @throws {LockLostError} Nothing was changed. */
  async replace(content: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#lock.write(this.path, content);
    this.#index = await readIndex(this.path);
  }

  /**
   * Removes the log. The caller syncs the folder.
   *
   * @returns False if there was none.
   * @throws {LockLostError} Nothing was removed.
   */
  remove(): boolean {
    const isThere = this.#index !== undefined;
    if (isThere) this.#lock.remove(this.path);
    this.#index = undefined;
    return isThere;
  }

  async #write(lines: readonly LineDraft[], options: BatchOptions): Promise<void> {
    const index = this.#index;
    if (index === undefined) throw new LockLostError(this.path);
    const { size } = index;
    const { log, offset, last } = index.scan.position;
    if (log === undefined) throw new UnreadableError("the log's first line is damaged");
    const hasRest = size > offset;
    const batch = renderBatch({ log, at: size + (hasRest ? 1 : 0), check: last.check }, lines, options);
    const content = Buffer.concat([Buffer.from(hasRest ? "\n" : ""), ...batch.map(({ bytes }) => bytes)]);
    let written: Stats | undefined;
    await withOpenFile(
      () => this.#openToAppend(),
      async (file) => {
        written = await this.#writeOnce(file, index, content, options.isLazy ?? false);
      },
    );
    // A read of this process may have taken the lines while they were synced.
    const isNext = !hasRest && index.size === size && written?.size === size + content.length;
    if (isNext && written) index.extend(batch, written);
    else this.#index = await readIndex(this.path);
  }

  /** Returns the file with the content, before it was synced. */
  async #writeOnce(file: number, index: LogIndex, content: Buffer, isLazy: boolean): Promise<Stats> {
    const { size } = index;
    if (!index.isOf(file)) throw new LockLostError(this.path);
    this.#lock.assertHeld();
    const written = writeSync(file, content);
    if (written < content.length) {
      throw new StorageError(
        `Could not append to ${this.path}: only ${written} of ${content.length} bytes were written. ` +
          "Nothing was stored, and earlier records are intact. Free some space, then try again.",
        { retryable: true },
      );
    }
    // The place is decided now. If it was taken, the lock was stolen, or a writer from before an earlier theft was late.
    const stats = fstatSync(file);
    if (stats.size !== size + written && !isAt(file, size, content)) throw new LockLostError(this.path);
    if (!isLazy) await this.#syncFile(file);
    return stats;
  }

  async #syncFile(file: number): Promise<void> {
    try {
      await syncData(file);
    } catch (error) {
      // The system may have given up these bytes, and the next sync wouldn't tell. So later lines go to a new file.
      try {
        await this.#lock.write(this.path, createReadStream("", { fd: file, start: 0, autoClose: false }));
      } catch {
        this.#lock.markUnclean();
      }
      throw error;
    }
  }

  #openToAppend(): number {
    try {
      // Without O_CREAT, so that a removed log doesn't come back.
      return openSync(this.path, APPEND_FLAGS);
    } catch (error) {
      if (readCode(error) === "ENOENT") this.#lock.assertHeld();
      throw error;
    }
  }
}

/** Makes a log's lines durable. Does nothing if there is none. */
export async function syncLog(path: string): Promise<void> {
  try {
    await withOpenFile(
      () => openSync(path, READ_FLAGS),
      (file) => syncData(file),
    );
  } catch (error) {
    if (readCode(error) !== "ENOENT") throw error;
  }
}

/** Renders lines one after another from a position in the file. */
export function renderBatch(
  place: LinePlace,
  lines: readonly LineDraft[],
  { isLazy, with: companion, due }: BatchOptions,
): RenderedLine[] {
  let { at } = place;
  return lines.map(({ fields, value }, index) => {
    const line = renderFields(
      {
        at,
        log: place.log,
        follows: place.check,
        ...(lines.length > 1 && { of: [index + 1, lines.length] }),
        ...(isLazy && { lazy: true }),
        ...(companion && { with: companion }),
        ...(due && { due }),
        ...fields,
      },
      value,
    );
    at += line.bytes.length;
    return line;
  });
}

function isAt(file: number, offset: number, content: Buffer): boolean {
  const stored = Buffer.alloc(content.length);
  return readSync(file, stored, 0, stored.length, offset) === stored.length && stored.equals(content);
}
