import { join } from "node:path";
import {
  type AppendCondition,
  type CheckedRecord,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  checkKeys,
  matchesQuery,
  nextSequence,
  type RepairStep,
  type StorageAdapter,
  type StorageFinding,
  type StorageRepair,
  type StorageVerification,
  type StorageWarning,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  summaryOf,
  type TaskSummary,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { syncFolder } from "./durable-write.js";
import { FolderStore, type FolderStoreOptions } from "./folder-store.js";
import { embedDraft, embedPayload, sequenceOfIntact, storedCheckpoint } from "./sealed-record.js";
import { type SetAside, setAside } from "./set-aside.js";
import { repairTaskFiles, TASK_LOCK_NAME, verifyTaskFiles } from "./task-file-care.js";
import { readContents, TaskFileEntries } from "./task-file-entries.js";
import { type Entry, isDamaged, TASK_FILE_NAME } from "./task-file-format.js";
import type { AdoptRecord, RecordEntry } from "./task-file-record.js";

export type { SetAside } from "./set-aside.js";
export type { AdoptRecord } from "./task-file-record.js";

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
 * save writes all of the task's checkpoints anew, and each call reads them: keep them few and small, by a retention policy.
 * A file of more than 256 MiB isn't read, so a save that would make one is refused. Files have mode 0600, folders 0700.
 */
export class TaskFileAdapter implements StorageAdapter {
  readonly name = "task-file";
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly #store: FolderStore;
  readonly #adopt: AdoptRecord | undefined;

  /** @throws {TypeError | RangeError} A wrong option. */
  constructor(options: TaskFileAdapterOptions) {
    checkKeys("TaskFileAdapterOptions", options, ["path", "lockTimeoutMs", "adopt"]);
    const { adopt, ...rest } = options;
    if (adopt !== undefined && typeof adopt !== "function") throw new TypeError("adopt must be a function.");
    this.#store = new FolderStore(this.name, rest, { name: TASK_LOCK_NAME, leavesFolder: false });
    this.#adopt = adopt;
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    const { taskId, id } = draft;
    const embedded = embedDraft(draft);
    return this.#store.write({
      taskId,
      verb: "save to",
      claim: "file",
      work: async (lock, folder) => {
        const path = join(folder, TASK_FILE_NAME);
        const file = await this.#readToChange(path, taskId);
        const existing = file.find(id);
        if (existing) {
          const sequence = sequenceOfIntact(readable(existing, id, path), draft, path);
          // Whoever stored it may have been killed, or failed, before it was durable. Now it will be.
          await lock.write(path, file.render(taskId, file.entries), { firstInFolder: true });
          return sequence;
        }
        const sequence = nextSequence(taskId, file, condition);
        const entries = [...file.entries, { ...embedded(sequence), extra: {} }];
        await lock.write(path, file.render(taskId, entries, sequence), { firstInFolder: !file.exists });
        return sequence;
      },
    });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#store.read(taskId, async () => {
      const file = await this.#read(taskId);
      const entry = file?.find(id) ?? file?.findUnidentified();
      if (file === undefined || entry === undefined) return undefined;
      return isDamaged(entry) ? file.corrupt(entry, taskId) : storedCheckpoint(entry);
    });
  }

  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    return this.#store.iterate(this.#select(query, storedCheckpoint), query.taskId);
  }

  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    const items = this.#select(query, ({ head }) => summaryOf(head));
    return this.#store.iterate(items, query.taskId);
  }

  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord> {
    return this.#store.tasks(query, (folder, taskId) =>
      readContents(join(folder, TASK_FILE_NAME), taskId, this.#adopt),
    );
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const wanted = structuredClone(change);
    return this.#changeEntry("change a status of", taskId, id, ({ head, bodyText, extra }, file) => {
      checkExpected(taskId, file.newestSequence, condition);
      return { head: withStatus(head, wanted), bodyText, extra };
    });
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const embedded = embedPayload(payload);
    return this.#changeEntry("replace a payload of", taskId, id, ({ head, extra }) =>
      head.payload.sha256 === expectedSha256 ? { ...embedded(head), extra } : undefined,
    );
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const absent = (): number => {
      checkExpected(taskId, 0, condition);
      return 0;
    };
    if (ids === "all") return this.#removeTask(taskId, absent, condition);
    return this.#store.write({
      taskId,
      verb: "remove from",
      claim: "file",
      absent,
      work: async (lock, folder) => {
        const path = join(folder, TASK_FILE_NAME);
        const file = await this.#readToChange(path, taskId);
        checkExpected(taskId, file.newestSequence, condition);
        const doomed = new Set(ids.map((id) => file.find(id)));
        const kept = file.entries.filter((entry) => !doomed.has(entry));
        const removed = file.entries.length - kept.length;
        if (removed > 0) await lock.write(path, file.render(taskId, kept), { firstInFolder: false });
        // Whoever removed it may have been killed, or failed, before it was durable. Now it will be.
        else await syncFolder(folder);
        return removed;
      },
    });
  }

  /**
   * Renames a task's file that is so damaged that it can't be written, `checkpoints.json.damaged-<time>`, with all that
   * is still readable of it, so that the task can be begun anew. `undefined` where there is none, or it can be written:
   * a damaged checkpoint among others is in nobody's way.
   *
   * @throws {CheckpointCorruptError} It can't be renamed; the message names it.
   */
  async setAside(taskId: string): Promise<SetAside | undefined> {
    return this.#store.write<SetAside | undefined>({
      taskId,
      verb: "set aside",
      claim: "folder",
      absent: () => undefined,
      work: async (lock, folder) => {
        const path = join(folder, TASK_FILE_NAME);
        const file = await TaskFileEntries.read(path, this.#adopt);
        file.assertOwner(taskId);
        return file.refusal === undefined ? undefined : setAside(lock, path, file.refusal);
      },
    });
  }

  warnings(): Promise<readonly StorageWarning[]> {
    return this.#store.warnings();
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  verify({ quick }: StorageVerification): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
    return this.#store.iterate(verifyTaskFiles(this.#store.root, this.#adopt, quick));
  }

  repair(options: StorageRepair): AsyncGenerator<RepairStep, void, void> {
    return this.#store.iterate(repairTaskFiles(this.#store, this.#adopt, options));
  }

  /** Writes what `change` makes of an entry in its place. False where there is none, or `change` gives nothing. */
  async #changeEntry(
    verb: string,
    taskId: string,
    id: string,
    change: (entry: RecordEntry, file: TaskFileEntries) => RecordEntry | undefined,
  ): Promise<boolean> {
    return this.#store.write({
      taskId,
      verb,
      claim: "file",
      absent: () => false,
      work: async (lock, folder) => {
        const path = join(folder, TASK_FILE_NAME);
        const file = await this.#readToChange(path, taskId);
        const existing = file.find(id);
        const changed = existing && change(readable(existing, id, path), file);
        if (changed === undefined) {
          // Whoever replaced or removed it may have been killed, or failed, before that was durable.
          await syncFolder(folder);
          return false;
        }
        const entries = file.entries.map((entry) => (entry === existing ? changed : entry));
        await lock.write(path, file.render(taskId, entries), { firstInFolder: false });
        return true;
      },
    });
  }

  async #removeTask(taskId: string, absent: () => number, condition: AppendCondition | undefined): Promise<number> {
    return this.#store.write({
      taskId,
      verb: "remove",
      claim: "folder",
      absent,
      removesTask: true,
      work: async (lock, folder) => {
        const path = join(folder, TASK_FILE_NAME);
        const file = await TaskFileEntries.read(path, this.#adopt);
        file.assertOwner(taskId);
        checkExpected(taskId, file.newestSequence, condition);
        const removed = lock.discard(path) ? file.count : 0;
        await syncFolder(folder);
        return removed;
      },
    });
  }

  async #read(taskId: string): Promise<TaskFileEntries | undefined> {
    const folder = this.#store.existingFolder(taskId);
    if (folder === undefined) return undefined;
    const file = await TaskFileEntries.read(join(folder, TASK_FILE_NAME), this.#adopt);
    file.assertReadable(taskId);
    return file;
  }

  async #readToChange(path: string, taskId: string): Promise<TaskFileEntries> {
    const file = await TaskFileEntries.read(path, this.#adopt);
    file.assertOwner(taskId);
    file.assertWritable();
    return file;
  }

  async *#select<Item extends CheckpointSummary>(
    query: CheckpointQuery,
    open: (entry: RecordEntry) => Item,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const { taskId, limit } = query;
    const file = await this.#read(taskId);
    if (file === undefined) return;
    let left = limit ?? Number.POSITIVE_INFINITY;
    for (const entry of file.select(query)) {
      if (left === 0) return;
      if (isDamaged(entry)) yield file.corrupt(entry, taskId);
      else if (matchesQuery(entry.head, query)) {
        left -= 1;
        yield open(entry);
      }
    }
  }
}

/** @throws {CheckpointCorruptError} */
function readable(entry: Entry, id: string, path: string): RecordEntry {
  if (!isDamaged(entry)) return entry;
  throw new CheckpointCorruptError(
    `Checkpoint ${id} in ${path} can't be read: ${entry.reason}. It was left untouched, and nothing was changed.`,
    { cause: entry.cause },
  );
}
