import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { CheckpointQuery } from "../../src/contract/adapter.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { syncFolder } from "./durable-write.js";
import { codeOf } from "./failure.js";
import {
  CheckpointFile,
  checkpointFileName,
  isCheckpointFileName,
  readNumbering,
  renderCheckpoint,
  renderNumbering,
} from "./json-file-format.js";
import type { FolderLock } from "./lock.js";
import { nameOf } from "./names.js";
import type { Movable } from "./quarantine.js";
import { TimeSlices, UnreadableError } from "./read-file.js";
import type { Task } from "./task.js";

/** The file in a task's folder that keeps the last sequence, from when its checkpoint is removed on. */
export const NUMBERING_FILE = "numbering.json";

/** A task's folder with a file for each checkpoint, known by their names. */
export class JsonFolder implements Task {
  readonly path: string;
  /** The folder's own time when it was as it is known here. */
  modified: bigint | undefined;
  /** A change that isn't known here would show in that time: it was past when the folder was listed. */
  isSettled: boolean;
  readonly #numberingPath: string;
  readonly #hasNumbering: boolean;
  /** What the numbering keeps, once it was read. */
  #keptSequence: number | undefined;
  /** Only its end changes: an iteration isn't disturbed by later writes. */
  #names: string[];
  #newest: string | undefined;
  #isSorted = false;
  /** File names by the ids' names. Made at the first search for an id. */
  #byId: Map<string, string> | undefined;

  constructor(path: string, time: Pick<JsonFolder, "modified" | "isSettled">) {
    this.path = path;
    this.modified = time.modified;
    this.isSettled = time.isSettled;
    const names = namesIn(path);
    this.#numberingPath = join(path, NUMBERING_FILE);
    this.#hasNumbering = names.includes(NUMBERING_FILE);
    this.#names = names.filter(isCheckpointFileName);
    for (const name of this.#names) {
      if (this.#newest === undefined || compareNames(name, this.#newest) > 0) this.#newest = name;
    }
  }

  get count(): number {
    return this.#names.length;
  }

  get newestSequence(): number {
    return this.#newest === undefined ? 0 : sequenceOf(this.#newest);
  }

  async lastSequence(): Promise<number> {
    if (!this.#hasNumbering) return this.newestSequence;
    try {
      this.#keptSequence ??= await readNumbering(this.#numberingPath);
      return Math.max(this.newestSequence, this.#keptSequence);
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      throw new CheckpointCorruptError(
        `${this.#numberingPath} can't be read: ${error.message}. It keeps the last sequence of a task whose newest checkpoint was removed. ` +
          "Nothing was changed, since a sequence could be given twice; restore that file from a backup, or repair the storage.",
        { cause: error },
      );
    }
  }

  async damagedNumbering(): Promise<{ path: string; reason: string } | undefined> {
    try {
      await this.lastSequence();
      return undefined;
    } catch (error) {
      if (!(error instanceof CheckpointCorruptError && error.cause instanceof UnreadableError)) throw error;
      return { path: this.#numberingPath, reason: error.cause.message };
    }
  }

  find(id: string): CheckpointFile | undefined {
    this.#byId ??= new Map(this.#sorted().map((name) => [this.#file(name).idName, name]));
    const name = this.#byId.get(nameOf(id));
    return name === undefined ? undefined : this.#file(name);
  }

  /** Names alone decide on range, order and `skip`, so that only what is asked for is opened. */
  *select(query: Omit<CheckpointQuery, "taskId">): Generator<CheckpointFile, void, void> {
    const { order, beforeSequence = Number.POSITIVE_INFINITY, afterSequence = 0 } = query;
    let { skip = 0 } = query;
    const { newestSequence } = this;
    const isAsked = newestSequence < beforeSequence && newestSequence > afterSequence;
    // The newest is known without putting thousands in order.
    if (order === "newest" && skip === 0 && this.#newest !== undefined && isAsked) {
      yield this.#file(this.#newest);
      skip = 1;
    }
    const names = this.#sorted();
    const from = countUpTo(names, afterSequence);
    const to = countUpTo(names, beforeSequence - 1);
    for (let at = skip; at < to - from; at++) {
      const name = names[order === "oldest" ? from + at : to - 1 - at];
      if (name !== undefined) yield this.#file(name);
    }
  }

  async append(record: StoredCheckpoint, lock: FolderLock): Promise<void> {
    const name = checkpointFileName(record.sequence, record.id);
    const file = this.#file(name);
    await this.#writing(() => lock.write(file.path, renderCheckpoint(record)));
    this.#names.push(name);
    this.#newest = name;
    this.#byId?.set(file.idName, name);
    this.modified = modifiedOf(this.path);
  }

  async replace({ path }: CheckpointFile, record: StoredCheckpoint, lock: FolderLock): Promise<void> {
    await this.#writing(() => lock.write(path, renderCheckpoint(record)));
    this.modified = modifiedOf(this.path);
  }

  async remove(ids: readonly string[] | "all", lock: FolderLock, done: { removed: number }): Promise<void> {
    const idNames = ids === "all" ? undefined : new Set(ids.map(nameOf));
    const files = [...this.select({ order: "oldest" })];
    const doomed = files.filter(({ idName }) => idNames === undefined || idNames.has(idName));
    await this.#writing(async () => {
      const last = doomed.at(-1)?.sequence;
      // First the sequence is kept, then its checkpoint is removed.
      if (idNames && last === this.newestSequence && last === (await this.lastSequence())) {
        await lock.write(this.#numberingPath, renderNumbering(last));
      }
      const slices = new TimeSlices();
      for (const { path } of doomed) {
        if (lock.remove(path)) done.removed += 1;
        if (slices.due) await slices.pause();
      }
      // It goes last: as long as a checkpoint is there, so is the numbering.
      if (idNames === undefined && this.#hasNumbering) lock.remove(this.#numberingPath);
      // Also where nothing was left: the process that removed it may have died before that was durable.
      await syncFolder(this.path);
    });
  }

  async takeAway(moved: readonly Movable[], lock: FolderLock): Promise<void> {
    const gone = new Set(moved.flatMap((what) => ("path" in what ? [what.path] : [])));
    const last = gone.has(this.#numberingPath) ? this.newestSequence : await this.lastSequence();
    const staying = [...this.select({ order: "newest" })].find(({ path }) => !gone.has(path));
    await this.#writing(async () => {
      // First the sequence is kept, then its checkpoint is taken away.
      if (last === this.newestSequence && last > (staying?.sequence ?? 0)) {
        await lock.write(this.#numberingPath, renderNumbering(last));
        gone.delete(this.#numberingPath);
      }
      for (const path of gone) lock.remove(path);
      await syncFolder(this.path);
    });
  }

  /** Until it has ended well, what is known here may no longer be so. */
  async #writing(write: () => Promise<void>): Promise<void> {
    this.modified = undefined;
    this.isSettled = false;
    await write();
  }

  #sorted(): readonly string[] {
    if (!this.#isSorted) this.#names = this.#names.toSorted(compareNames);
    this.#isSorted = true;
    return this.#names;
  }

  #file(name: string): CheckpointFile {
    return new CheckpointFile(this.path, name);
  }
}

/** A folder's own time, in nanoseconds: what is in it changed then. */
export function modifiedOf(path: string): bigint | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.mtimeNs;
}
/** The order of checkpoint files' names, the oldest first, without taking them apart. */
function compareNames(a: string, b: string): number {
  const digits = a.indexOf("-") - b.indexOf("-");
  if (digits !== 0) return digits;
  return a === b ? 0 : a < b ? -1 : 1;
}

/** How many of the names, which are in order, have a sequence up to this one. */
function countUpTo(names: readonly string[], sequence: number): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sequenceOf(names[middle] ?? "") <= sequence) low = middle + 1;
    else high = middle;
  }
  return low;
}

function sequenceOf(name: string): number {
  return Number.parseInt(name, 10);
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
