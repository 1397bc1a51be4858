import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { syncFolder } from "../../adapters/files/durable-write.js";
import type { FolderLock } from "../../adapters/files/folder-lock.js";
import { removeLockFolders } from "../../adapters/files/lock-claim.js";
import { decodeText } from "../../adapters/files/sealed-record.js";
import { codeOf, storageFailure } from "../../adapters/files/storage-failure.js";
import { readStored, UnreadableError } from "../../adapters/files/stored-file.js";
import { TimeSlices } from "../../adapters/files/time-slices.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { MAX_FILE_BYTES, parseCheckpointFile } from "./checkpoint-file.js";
import { checkpointFilename, freeTimestamp, isCheckpointFilename } from "./checkpoint-filename.js";
import { withJsonValue } from "./json-edit.js";
import { writeUnderLock } from "./locked-write.js";
import type { CheckpointState } from "./schema.js";

/** A file among the checkpoints that is none, or can't be read. It is left as it is. */
export interface InvalidCheckpointFile {
  readonly path: string;
  /** What is wrong with it. */
  readonly reason: string;
  readonly cause?: unknown;
}

/** A checkpoint and the name of its file. */
export interface StoredCheckpointFile {
  readonly name: string;
  readonly state: CheckpointState;
}

const LOCK_NAME = ".lock";
/** One file's own trouble; any other error concerns them all, and leaving files out for it would be a wrong answer. */
const UNREADABLE_CODES = new Set(["EACCES", "EPERM", "EIO"]);

/**
 * A flat folder of checkpoints, one file each. Files that another program wrote or a person edited count as ours do:
 * there is no checksum. Which checkpoint is newer is told by `createdAt`, then by the file's name.
 */
export class CheckpointFolder {
  readonly #path: string;
  readonly #onInvalid: (file: InvalidCheckpointFile) => void;

  constructor(path: string, onInvalid: (file: InvalidCheckpointFile) => void) {
    this.#path = path;
    this.#onInvalid = onInvalid;
  }

  /**
   * Adds a checkpoint. Resolves once it is on the disk.
   *
   * @param contentAt - Its file's content, given the time that it gets.
   * @returns The file's name.
   */
  async add(phase: string, contentAt: (createdAt: string) => Buffer): Promise<string> {
    const nowMs = Date.now();
    return this.#write(`save a checkpoint of phase ${JSON.stringify(phase)}`, "file", undefined, async (lock) => {
      const names = this.#names();
      const createdAt = freeTimestamp(names, nowMs);
      const name = checkpointFilename(createdAt, phase);
      await lock.write(join(this.#path, name), contentAt(createdAt), { firstInFolder: names.length === 0 });
      return name;
    });
  }

  /** All checkpoints, newest first. */
  async list(): Promise<StoredCheckpointFile[]> {
    return this.#reading(async () => {
      const found: StoredCheckpointFile[] = [];
      for await (const stored of this.#readAll(this.#names())) found.push(stored);
      return found.sort(newestFirst);
    });
  }

  /** The checkpoint of that id. */
  async find(id: string): Promise<StoredCheckpointFile | undefined> {
    return this.#reading(async () => {
      // The newest name first, as a rule the one asked for.
      for await (const stored of this.#readAll(this.#names().sort().reverse())) {
        if (stored.state.id === id) return stored;
      }
      return undefined;
    });
  }

  /**
   * Marks checkpoints as completed, the oldest first: whatever is interrupted leaves the newest for the next time.
   *
   * @param choose - Which of those in the folder, newest first; those that are completed already are left alone.
   * @returns What it chose, as it was before.
   */
  async complete(choose: (all: readonly StoredCheckpointFile[]) => StoredCheckpointFile[]): Promise<CheckpointState[]> {
    return this.#write(
      "complete a checkpoint",
      "folder",
      () => [],
      async (lock) => {
        const chosen = choose(await this.list());
        for (const { name, state } of chosen.toReversed()) {
          if (!state.completed) await this.#markCompleted(lock, name);
        }
        return chosen.map(({ state }) => state);
      },
    );
  }

  /**
   * Removes the checkpoints that were created before a time: completed work first, then the oldest first.
   *
   * @param beforeRemoval - Told which ones will be removed.
   * @returns How many it removed.
   */
  async removeOlder(
    thanMs: number,
    beforeRemoval: (doomed: readonly CheckpointState[]) => Promise<void>,
  ): Promise<number> {
    let removed = 0;
    await this.#write("clean up checkpoints", "folder", nothing, async (lock) => {
      const old = (await this.list()).filter(({ state }) => Date.parse(state.createdAt) < thanMs).reverse();
      const doomed = [...old.filter(({ state }) => state.completed), ...old.filter(({ state }) => !state.completed)];
      if (doomed.length === 0) return;
      await beforeRemoval(doomed.map(({ state }) => state));
      for (const { name } of doomed) if (lock.discard(join(this.#path, name))) removed += 1;
      await syncFolder(this.#path);
      removeLockFolders(this.#path, LOCK_NAME);
    });
    return removed;
  }

  async #markCompleted(lock: FolderLock, name: string): Promise<void> {
    const path = join(this.#path, name);
    try {
      const content = await readStored(path, MAX_FILE_BYTES);
      if (content === undefined) return;
      const completed = withJsonValue(decodeText(content), ["completed"], true);
      const mode = lstatSync(path).mode & 0o777;
      await lock.write(path, Buffer.from(completed), { firstInFolder: false, mode });
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      throw new CheckpointCorruptError(
        `${path} can't be marked as completed: ${error.message}. It was left untouched; look at it, then try again.`,
        { cause: error },
      );
    }
  }

  async *#readAll(names: readonly string[]): AsyncGenerator<StoredCheckpointFile, void, void> {
    const slices = new TimeSlices();
    for (const name of names) {
      const state = await this.#read(join(this.#path, name));
      if (state !== undefined) yield { name, state };
      if (slices.due) await slices.pause();
    }
  }

  /** `undefined` where it is gone, or no checkpoint. */
  async #read(path: string): Promise<CheckpointState | undefined> {
    try {
      const content = await readStored(path, MAX_FILE_BYTES);
      return content && parseCheckpointFile(content);
    } catch (error) {
      const code = codeOf(error);
      if (error instanceof UnreadableError) this.#onInvalid({ path, reason: error.message, cause: error.cause });
      else if (code !== undefined && UNREADABLE_CODES.has(code))
        this.#onInvalid({ path, reason: `it can't be read: ${code}`, cause: error });
      else throw error;
      return undefined;
    }
  }

  #names(): string[] {
    try {
      return readdirSync(this.#path).filter(isCheckpointFilename);
    } catch (error) {
      if (codeOf(error) === "ENOENT") return [];
      throw error;
    }
  }

  async #reading<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw storageFailure(error, { doing: "read the checkpoints", path: this.#path });
    }
  }

  /** @param absent - The answer where there is no folder; without it, the folder is made. */
  async #write<Result>(
    doing: string,
    claim: "file" | "folder",
    absent: (() => Result) | undefined,
    work: (lock: FolderLock) => Promise<Result>,
  ): Promise<Result> {
    const lockFolder = join(this.#path, LOCK_NAME);
    try {
      return await writeUnderLock({ lockFolder, claim, absent, work });
    } catch (error) {
      throw storageFailure(error, { doing, path: this.#path });
    }
  }
}

function nothing(): void {}

function newestFirst(a: StoredCheckpointFile, b: StoredCheckpointFile): number {
  const [left, right] = [Date.parse(a.state.createdAt), Date.parse(b.state.createdAt)];
  if (left !== right) return right - left;
  return a.name < b.name ? 1 : -1;
}
