import { statSync } from "node:fs";
import { join } from "node:path";
import type { CheckpointQuery } from "../../src/contract/adapter.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { syncFolder } from "./durable-write.js";
import {
  CheckpointFile,
  checkpointFileName,
  isCheckpointFileName,
  isTombstoneName,
  renderCheckpoint,
  tombstoneName,
} from "./json-file-format.js";
import type { FolderLock } from "./lock.js";
import { nameOf } from "./names.js";
import type { Movable } from "./quarantine.js";
import { namesIn, TimeSlices } from "./read-file.js";
import type { Task } from "./task.js";

/** A task's folder with a file for each checkpoint, known by their names. */
export class JsonFolder implements Task {
  readonly path: string;
  /** The folder's own time when it was as it is known here. */
  modified: bigint | undefined;
  /** A change that isn't known here would show in that time: it was past when the folder was listed. */
  isSettled: boolean;
  /** Of checkpoints that were removed when they were the newest. */
  readonly #tombstones: readonly string[];
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
    this.#tombstones = names.filter(isTombstoneName);
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

  get lastSequence(): number {
    return Math.max(this.newestSequence, ...this.#tombstones.map(sequenceOf));
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
    const all = this.select({ order: "oldest" });
    const doomed = ids === "all" ? [...all] : ids.flatMap((id) => this.find(id) ?? []);
    await this.#writing(async () => {
      if (ids !== "all") await this.#keepSequence(new Set(doomed.map(({ path }) => path)), lock);
      const slices = new TimeSlices();
      for (const { path } of doomed) {
        if (lock.remove(path)) done.removed += 1;
        if (slices.due) await slices.pause();
      }
      // They go last: as long as a checkpoint is there, so is the numbering.
      if (ids === "all") for (const name of this.#tombstones) lock.remove(join(this.path, name));
      // Also where nothing was left: the process that removed it may have died before that was durable.
      await syncFolder(this.path);
    });
  }

  async takeAway(moved: readonly Movable[], lock: FolderLock): Promise<void> {
    const doomed = new Set(moved.flatMap((what) => ("path" in what ? [what.path] : [])));
    await this.#writing(async () => {
      await this.#keepSequence(doomed, lock);
      for (const path of doomed) lock.remove(path);
      await syncFolder(this.path);
    });
  }

  /** First the last sequence is kept, then the checkpoint that has it may go. */
  async #keepSequence(doomed: ReadonlySet<string>, lock: FolderLock): Promise<void> {
    const { lastSequence, newestSequence } = this;
    const name = tombstoneName(lastSequence);
    const stays = lastSequence === newestSequence && !doomed.has(join(this.path, this.#newest ?? ""));
    if (!stays && !this.#tombstones.includes(name)) await lock.write(join(this.path, name), new Uint8Array());
    for (const former of this.#tombstones) if (former !== name) lock.remove(join(this.path, former));
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
