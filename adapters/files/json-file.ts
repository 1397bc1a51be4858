import { join } from "node:path";
import {
  type AppendCondition,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  isCorrupt,
  matchesQuery,
  nextSequence,
  type StorageAdapter,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  sealDraft,
  summaryOf,
  type TaskSummary,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";
import { syncFolder } from "./durable-write.js";
import { readCheckpoint, readHead, readNumbering, renderCheckpoint, renderNumbering } from "./json-file-format.js";
import { jsonFileMaintenance } from "./json-file-maintenance.js";
import {
  type CheckpointFile,
  CheckpointFolder,
  checkpointFileName,
  knownByName,
  NUMBERING_FILE,
  RecentFolders,
} from "./json-folder.js";
import type { FolderLock } from "./lock.js";
import { nameOf } from "./names.js";
import { TimeSlices, UnreadableError } from "./read-file.js";
import { copyOf, copyOfPayload, sequenceOfStored } from "./record.js";
import { assertSameTask, FolderStore, type FolderStoreOptions, isOwner } from "./store.js";
import type { TaskContents, TaskFolder } from "./task-scan.js";

/** The options of {@link JsonFileAdapter}. */
export interface JsonFileAdapterOptions extends FolderStoreOptions {}

/** A write of one task, to the folder as it is once the lock was taken. */
interface FolderWrite<Result> {
  readonly taskId: string;
  readonly verb: string;
  readonly absent?: () => Result;
  readonly work: (lock: FolderLock, folder: CheckpointFolder) => Promise<Result>;
}

/**
 * One JSON file per checkpoint, in one folder per task: for people who read, search and commit their checkpoints.
 *
 * ```
 * <path>/build-42/000000000007-a1.json
 * ```
 *
 * Saves survive a killed process and a power cut. Any number of processes of one machine may use one root folder. Files
 * have mode 0600, folders 0700.
 */
export class JsonFileAdapter implements StorageAdapter {
  readonly name = "json-file";
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly maintenance: StorageMaintenance;
  readonly #store: FolderStore;
  readonly #folders: RecentFolders;

  /** @throws {TypeError | RangeError} A wrong option. */
  constructor(options: JsonFileAdapterOptions) {
    this.#store = new FolderStore(this.name, options);
    this.#folders = new RecentFolders(this.#store.owner);
    this.maintenance = jsonFileMaintenance(this.#store, this.#folders);
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    const { taskId, id } = draft;
    const copy = copyOf(draft);
    return this.#write({
      taskId,
      verb: "save to",
      work: async (lock, folder) => {
        const file = folder.find(id);
        const stored = file && (await readToChange(file, taskId));
        if (file && stored) {
          const sequence = sequenceOfStored(stored, copy, file.path);
          // The process that stored it may have died before it was durable. Now it will be.
          await lock.write(file.path, renderCheckpoint(stored));
          return sequence;
        }
        const newestSequence = folder.newest?.sequence ?? 0;
        const lastSequence = Math.max(newestSequence, await keptSequence(folder));
        const sequence = nextSequence(taskId, { newestSequence, lastSequence }, condition);
        const name = checkpointFileName(sequence, id);
        await lock.write(join(folder.path, name), renderCheckpoint(sealDraft(copy, sequence)));
        folder.add(name);
        return sequence;
      },
    });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#store.read(taskId, async () => {
      const file = this.#folder(taskId)?.find(id);
      return file && read(file, taskId);
    });
  }

  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    return this.#store.iterate(this.#select(query, read), query.taskId);
  }

  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    return this.#store.iterate(this.#select(query, readSummary), query.taskId);
  }

  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord> {
    return this.#store.tasks(query, contentsOf);
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const wanted = structuredClone(change);
    return this.#change("change a status of", taskId, id, (stored, { newest }) => {
      checkExpected(taskId, newest?.sequence ?? 0, condition);
      // The state stays to the byte, and its digest with it: damage to it stays visible.
      return withStatus(stored, wanted);
    });
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const copy = copyOfPayload(payload);
    return this.#change("replace a payload of", taskId, id, (stored) =>
      stored.payload.sha256 === expectedSha256 ? withPayload(stored, copy) : undefined,
    );
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const names = ids === "all" ? undefined : new Set(ids.map(nameOf));
    let removed = 0;
    return this.#write({
      taskId,
      verb: "remove from",
      absent: () => {
        checkExpected(taskId, 0, condition);
        return 0;
      },
      work: async (lock, folder) => {
        const { path, newest } = folder;
        // Where the lock was stolen halfway, the condition held when the first one went: the rest follows.
        if (removed === 0) checkExpected(taskId, newest?.sequence ?? 0, condition);
        const files = [...folder.select({ order: "oldest" })];
        const doomed = files.filter(({ idName }) => names === undefined || names.has(idName));
        const last = doomed.at(-1)?.sequence ?? 0;
        // First the sequence is kept, then its checkpoint is removed.
        if (names && last === newest?.sequence && last > (await keptSequence(folder))) {
          await lock.write(join(path, NUMBERING_FILE), renderNumbering(last));
        }
        const slices = new TimeSlices();
        for (const file of doomed) {
          if (lock.remove(file.path)) removed += 1;
          if (slices.due) await slices.pause();
        }
        // It goes last: as long as a checkpoint is there, so is the numbering.
        if (names === undefined && folder.hasNumbering) lock.remove(join(path, NUMBERING_FILE));
        // Also where nothing was left: the process that removed it may have died before that was durable.
        await syncFolder(path);
        this.#folders.forget(path);
        if (names === undefined) await this.#store.removeFolder(lock, path);
        return removed;
      },
    });
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #folder(taskId: string): CheckpointFolder | undefined {
    const path = this.#store.existingFolder(taskId);
    return path === undefined ? undefined : this.#folders.now(path);
  }

  /** Writes what `change` makes of a checkpoint in its place. False where there is none, or `change` gives nothing. */
  async #change(
    verb: string,
    taskId: string,
    id: string,
    change: (stored: StoredCheckpoint, folder: CheckpointFolder) => StoredCheckpoint | undefined,
  ): Promise<boolean> {
    return this.#write({
      taskId,
      verb,
      absent: () => false,
      work: async (lock, folder) => {
        const file = folder.find(id);
        const stored = file && (await readToChange(file, taskId));
        const changed = stored && change(stored, folder);
        // The process that replaced or removed it may have died before that was durable.
        if (file === undefined || changed === undefined) await syncFolder(folder.path);
        else await lock.write(file.path, renderCheckpoint(changed));
        return changed !== undefined;
      },
    });
  }

  async #write<Result>({ taskId, work, ...write }: FolderWrite<Result>): Promise<Result> {
    return this.#store.write({
      ...write,
      taskId,
      work: async (lock, path) => {
        try {
          const folder = this.#folders.underLock(lock, path);
          assertOwner(folder, taskId);
          const result = await work(lock, folder);
          this.#folders.changed(folder);
          return result;
        } catch (error) {
          this.#folders.forget(path);
          throw error;
        }
      },
    });
  }

  /** Names alone decide on range, order and `skip`, so that only what is asked for is opened. */
  async *#select<Item extends CheckpointSummary>(
    query: CheckpointQuery,
    open: (file: CheckpointFile, taskId: string) => Found<Item> | Promise<Found<Item>>,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const { taskId } = query;
    const folder = this.#folder(taskId);
    if (folder === undefined) return;
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    const slices = new TimeSlices();
    if (left === 0) return;
    for (const file of folder.select(query)) {
      const found = await open(file, taskId);
      if (found && isCorrupt(found)) yield found;
      else if (found && matchesQuery(found, query)) {
        left -= 1;
        yield found;
        if (left === 0) return;
      }
      if (slices.due) await slices.pause();
    }
  }
}

/** What was looked for, what stands in its place where it can't be read, or nothing where it is gone. */
type Found<Item> = Item | CorruptRecord | undefined;

/** @throws {StorageError} It is another task's. */
async function read(file: CheckpointFile, taskId: string): Promise<Found<StoredCheckpoint>> {
  try {
    const stored = await readCheckpoint(file);
    if (stored) assertSameTask(taskId, stored.taskId, file.path);
    return stored;
  } catch (error) {
    return corruptOrThrow(file, error, taskId);
  }
}

/** @throws {StorageError} It is another task's. */
function readSummary(file: CheckpointFile, taskId: string): Found<CheckpointSummary> {
  try {
    const head = readHead(file);
    if (head) assertSameTask(taskId, head.taskId, file.path);
    return head && summaryOf(head);
  } catch (error) {
    return corruptOrThrow(file, error, taskId);
  }
}

/**
 * A checkpoint that a write goes by; `undefined` where it is gone.
 *
 * @throws {CheckpointCorruptError}
 * @throws {StorageError} It is another task's.
 */
async function readToChange(file: CheckpointFile, taskId: string): Promise<StoredCheckpoint | undefined> {
  const found = await read(file, taskId);
  if (found === undefined || !isCorrupt(found)) return found;
  throw new CheckpointCorruptError(
    `The checkpoint at ${file.path} can't be read: ${found.reason}. It was left untouched, and nothing was changed.`,
    { cause: found.cause },
  );
}

/**
 * The sequence that is kept of a newest checkpoint that was removed; 0 for none.
 *
 * @throws {CheckpointCorruptError} It can't be read, so that a sequence could be given twice.
 */
async function keptSequence(folder: CheckpointFolder): Promise<number> {
  if (!folder.hasNumbering) return 0;
  const path = join(folder.path, NUMBERING_FILE);
  try {
    folder.keptSequence ??= await readNumbering(path);
    return folder.keptSequence;
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error;
    throw new CheckpointCorruptError(
      `${path} can't be read: ${error.message}. It keeps the last sequence of a task whose newest checkpoint was removed. ` +
        "Nothing was changed, since a sequence could be given twice; restore that file from a backup, or repair the storage.",
      { cause: error },
    );
  }
}

/**
 * Names that differ in case alone are one folder on some disks: it belongs to the task that has a checkpoint in it.
 *
 * @throws {StorageError} It is another task's.
 */
function assertOwner(folder: CheckpointFolder, taskId: string): void {
  if (folder.isOwnerChecked) return;
  for (const file of folder.select({ order: "newest" })) {
    const found = readSummary(file, taskId);
    if (found && !isCorrupt(found)) break;
  }
  folder.isOwnerChecked = true;
}

/** For lists of tasks: damage in one folder doesn't hide the other tasks. */
function contentsOf({ path, taskId }: TaskFolder): TaskContents | undefined {
  const folder = new CheckpointFolder(path);
  const { count } = folder;
  if (count === 0) return undefined;
  const corrupt: CorruptRecord[] = [];
  for (const file of folder.select({ order: "newest" })) {
    try {
      const head = readHead(file);
      if (head === undefined) continue;
      if (isOwner(head.taskId, path)) return { taskId: head.taskId, count, newest: summaryOf(head), corrupt };
      throw new UnreadableError(`it belongs to task ${JSON.stringify(head.taskId)}, whose folder this isn't`);
    } catch (error) {
      corrupt.push(corruptOrThrow(file, error, taskId));
    }
  }
  return { taskId, count, newest: undefined, corrupt };
}

function corruptOrThrow(file: CheckpointFile, error: unknown, taskId: string | undefined): CorruptRecord {
  if (!(error instanceof UnreadableError)) throw error;
  const { message: reason, cause } = error;
  const known = { ...(taskId === undefined ? undefined : { taskId }), ...knownByName(file) };
  return { corrupt: true, location: file.path, reason, ...known, ...(cause === undefined ? undefined : { cause }) };
}
