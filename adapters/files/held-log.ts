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

/** A line to append: its value, and all fields except those that depend on its place in the file. */
export interface LineDraft {
  readonly fields: LineFields;
  readonly value?: string | Uint8Array | undefined;
}

/** The options for appending a batch of lines. */
export interface BatchOptions {
  /** True to skip the sync. */
  readonly isLazy?: boolean | undefined;
  /**
   * The checkpoint that is stored with the batch. The batch counts once {@link HeldLog.commit} is called, or a reader
   * finds this checkpoint.
   */
  readonly with?: Companion | undefined;
  readonly due?: DueMark | undefined;
}

/**
 * A task's log, under the lock of the task's folder.
 *
 * The lock only avoids contention. A line counts only if it begins where the file ended when its writer read it. A
 * holder checks its claim between its last read and its write. If the lock was stolen before this check, the holder
 * doesn't write. If it is stolen later, the thief first moves the end of the log, so the holder's line doesn't count.
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
   * Reads the log. If an earlier holder may still write to it, or left a batch without its commit line, appends a
   * barrier or the commit line.
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

  /** The index of the log; `undefined` if there is no log. */
  get index(): LogIndex | undefined {
    return this.#index;
  }

  /**
   * Appends a batch of lines, all or none, and resolves once they are durable. Makes the log if there is none.
   *
   * @param lastSequence - The last sequence that the task has taken.
   * @throws {LockLostError} Nothing was stored.
   * @throws {UnreadableError} The log's first line is damaged, and no other line is left.
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
   * Appends a commit line, which confirms that the last batch's checkpoint was stored. Under a clean lock, the line
   * isn't synced: if it gets lost, the next holder looks for the checkpoint.
   */
  commit(companion: Companion): Promise<void> {
    const sequence = this.#index?.scan.pending?.entries.at(-1)?.sequence ?? 0;
    return this.#write([{ fields: { sequence, kind: "commit", with: companion } }], { isLazy: this.#lock.isClean });
  }

  /** Syncs lines that their writers didn't sync. Call this before storing a change of a checkpoint. */
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

  /** Replaces the content of the log. @throws {LockLostError} Nothing was changed. */
  async replace(content: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#lock.write(this.path, content);
    this.#index = await readIndex(this.path);
  }

  /**
   * Removes the log. The caller syncs the folder.
   *
   * @returns False if there was no log.
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
    // While the lines were being synced, another read in this process may have added them to the index.
    const isNext = !hasRest && index.size === size && written?.size === size + content.length;
    if (isNext && written) index.extend(batch, written);
    else this.#index = await readIndex(this.path);
  }

  /** Appends the content. Returns the file's stats from before the sync. */
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
    // If the content isn't at its place, another writer was first: a thief of the lock, or a late writer that lost the
    // lock earlier.
    const stats = fstatSync(file);
    if (stats.size !== size + written && !isAt(file, size, content)) throw new LockLostError(this.path);
    if (!isLazy) await this.#syncFile(file);
    return stats;
  }

  async #syncFile(file: number): Promise<void> {
    try {
      await syncData(file);
    } catch (error) {
      // The system may have dropped these bytes, and the next sync would succeed without them. So the log is copied to
      // a new file.
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
      // The flags lack O_CREAT, so that a removed log isn't made again.
      return openSync(this.path, APPEND_FLAGS);
    } catch (error) {
      if (readCode(error) === "ENOENT") this.#lock.assertHeld();
      throw error;
    }
  }
}

/** Makes a log's lines durable. Does nothing if there is no log. */
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
