import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { storageFailure } from "../../adapters/files/failure.js";
import { readCode } from "../../src/contract/errors.js";
import { readJsonObject, UnreadableError } from "../json-object.js";
import { type LockedFiles, withLock } from "../locked-folder.js";
import { parseCheckpointFile } from "./checkpoint-file.js";
import { checkpointFilename, freeTimestamp, isCheckpointFilename } from "./checkpoint-filename.js";
import type { CheckpointState } from "./schema.js";

/** A file in the checkpoints' folder that holds no checkpoint or can't be read. It is left as it is. */
export interface InvalidCheckpointFile {
  readonly path: string;
  /** Why no checkpoint could be read. */
  readonly reason: string;
  readonly cause?: unknown;
}

/** A checkpoint and the name of its file. */
export interface StoredCheckpointFile {
  readonly name: string;
  readonly state: CheckpointState;
}

const LOCK_NAME = ".lock";
/**
 * These errors concern one file, which is skipped. Any other error concerns the folder, where skipping files would give
 * a wrong answer.
 */
const UNREADABLE_CODES: readonly (string | undefined)[] = ["EACCES", "EPERM", "EIO"];

/**
 * A flat folder of checkpoints, one file each. There are no checksums: files that another program wrote or a person
 * edited are as valid as ours. The newest checkpoint has the latest `createdAt`; files of the same time are ordered by
 * name.
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
   * @param contentAt - Returns the file's content, given the checkpoint's time.
   * @returns The file's name.
   */
  async add(phase: string, contentAt: (createdAt: string) => Buffer): Promise<string> {
    return this.#locked(`save a checkpoint of phase ${JSON.stringify(phase)}`, async (lock) => {
      const createdAt = freeTimestamp(this.#names(), Date.now());
      const name = checkpointFilename(createdAt, phase);
      await lock.write(join(this.#path, name), contentAt(createdAt));
      return name;
    });
  }

  /**
   * All checkpoints, newest first.
   *
   * @throws {StorageError} The folder can't be read.
   */
  list(): StoredCheckpointFile[] {
    try {
      return this.#names()
        .flatMap((name) => {
          const state = this.#read(join(this.#path, name));
          return state === undefined ? [] : [{ name, state }];
        })
        .sort(newestFirst);
    } catch (error) {
      throw storageFailure(error, { doing: "read the checkpoints", path: this.#path, isRead: true });
    }
  }

  /**
   * Marks checkpoints as completed, oldest first. If it is interrupted, the newest is left for the next call.
   *
   * @param choose - Picks from all checkpoints of the folder, which it gets newest first.
   * @returns The chosen checkpoints, as they were before.
   */
  async complete(choose: (all: readonly StoredCheckpointFile[]) => StoredCheckpointFile[]): Promise<CheckpointState[]> {
    // If nothing matches, no lock is needed; the folder may not even exist.
    if (choose(this.list()).length === 0) return [];
    return this.#locked("complete a checkpoint", async (lock) => {
      const chosen = choose(this.list());
      for (const { name, state } of chosen.toReversed()) if (!state.completed) await this.#markCompleted(lock, name);
      return chosen.map(({ state }) => state);
    });
  }

  /**
   * Removes the checkpoints created before a time: completed ones first, then oldest first.
   *
   * @param beforeRemoval - Called with the checkpoints that will be removed.
   * @param afterEach - Called after each removal.
   */
  async removeOlder(
    thanMs: number,
    {
      beforeRemoval,
      afterEach,
    }: {
      readonly beforeRemoval: (doomed: readonly CheckpointState[]) => Promise<void>;
      readonly afterEach: () => void;
    },
  ): Promise<void> {
    const doomed = (): StoredCheckpointFile[] => {
      const old = this.list().filter(({ state }) => Date.parse(state.createdAt) < thanMs);
      return old.reverse().sort((a, b) => Number(b.state.completed) - Number(a.state.completed));
    };
    if (doomed().length === 0) return;
    await this.#locked("clean up checkpoints", async (lock) => {
      const files = doomed();
      await beforeRemoval(files.map(({ state }) => state));
      for (const { name } of files) if (await lock.remove(join(this.#path, name))) afterEach();
    });
  }

  /** Everything else in the file stays: another program may have added keys. */
  async #markCompleted(lock: LockedFiles, name: string): Promise<void> {
    const path = join(this.#path, name);
    const file = readJsonObject(path);
    if (file === undefined) return;
    const mode = lstatSync(path).mode & 0o777;
    await lock.write(path, Buffer.from(JSON.stringify({ ...file, completed: true }, null, 2)), { mode });
  }

  /** `undefined` if the file was removed meanwhile, or holds no checkpoint. */
  #read(path: string): CheckpointState | undefined {
    try {
      const file = readJsonObject(path);
      return file && parseCheckpointFile(file);
    } catch (error) {
      const code = readCode(error);
      if (error instanceof UnreadableError) this.#onInvalid({ path, reason: error.message, cause: error.cause });
      else if (UNREADABLE_CODES.includes(code))
        this.#onInvalid({ path, reason: `it can't be read: ${code}`, cause: error });
      else throw error;
      return undefined;
    }
  }

  #names(): string[] {
    try {
      return readdirSync(this.#path).filter(isCheckpointFilename);
    } catch (error) {
      if (readCode(error) === "ENOENT") return [];
      throw error;
    }
  }

  async #locked<Result>(doing: string, work: (lock: LockedFiles) => Promise<Result>): Promise<Result> {
    try {
      return await withLock(this.#path, LOCK_NAME, work);
    } catch (error) {
      throw storageFailure(error, { doing, path: this.#path });
    }
  }
}

function newestFirst(a: StoredCheckpointFile, b: StoredCheckpointFile): number {
  const [left, right] = [Date.parse(a.state.createdAt), Date.parse(b.state.createdAt)];
  if (left !== right) return right - left;
  return a.name < b.name ? 1 : -1;
}
