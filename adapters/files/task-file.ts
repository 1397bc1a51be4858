import { dirname, join } from "node:path";
import {
  type AppendCondition,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  checkKeys,
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
import type { StorageMaintenance } from "../../src/contract/findings.js";
import { syncFolder } from "./durable-write.js";
import type { FolderLock } from "./lock.js";
import { type SetAside, setAside } from "./quarantine.js";
import { copyOf, copyOfPayload, sequenceOfStored } from "./record.js";
import { FolderStore, type FolderStoreOptions } from "./store.js";
import { contentsOf, TASK_FILE_NAME, TaskFile } from "./task-file-content.js";
import { type AdoptRecord, checkpointOf, entryOf, fieldsOf, isDamaged, type RecordEntry } from "./task-file-format.js";
import { taskFileMaintenance } from "./task-file-maintenance.js";

export type { SetAside } from "./quarantine.js";
export type { AdoptRecord } from "./task-file-format.js";

/** The options of {@link TaskFileAdapter}. */
export interface TaskFileAdapterOptions extends FolderStoreOptions {
  /** Tells stage and status of records that another program wrote. */
  readonly adopt?: AdoptRecord | undefined;
}

/** A write of one task, to its file as it is once the lock was taken. */
interface FileWrite<Result> {
  readonly taskId: string;
  readonly verb: string;
  readonly absent?: () => Result;
  readonly work: (lock: FolderLock, file: TaskFile) => Promise<Result>;
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
export class TaskFileAdapter implements StorageAdapter {
  readonly name = "task-file";
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly maintenance: StorageMaintenance;
  readonly #store: FolderStore;
  readonly #adopt: AdoptRecord | undefined;

  /** @throws {TypeError | RangeError} A wrong option. */
  constructor(options: TaskFileAdapterOptions) {
    checkKeys("TaskFileAdapterOptions", options, ["path", "lockTimeoutMs", "adopt"]);
    const { adopt, ...rest } = options;
    if (adopt !== undefined && typeof adopt !== "function") throw new TypeError("adopt must be a function.");
    this.#store = new FolderStore(this.name, rest);
    this.#adopt = adopt;
    this.maintenance = taskFileMaintenance(this.#store, adopt);
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    const { taskId, id } = draft;
    const copy = copyOf(draft);
    return this.#write({
      taskId,
      verb: "save to",
      work: async (lock, file) => {
        const existing = file.findToChange(id);
        if (existing) {
          const sequence = sequenceOfStored(checkpointOf(existing), copy, file.path);
          // The process that stored it may have died before it was durable. Now it will be.
          await lock.write(file.path, file.render(taskId, file.entries));
          return sequence;
        }
        const sequence = nextSequence(taskId, file, condition);
        const entries = [...file.entries, entryOf(sealDraft(copy, sequence))];
        await lock.write(file.path, file.render(taskId, entries, sequence));
        return sequence;
      },
    });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#store.read(taskId, async () => {
      const file = await this.#read(taskId);
      // What a damaged line still says of itself may be damaged too: it may have had any id.
      const entry = file?.find(id) ?? file?.entries.findLast(isDamaged);
      return file && entry && file.open(entry, taskId, checkpointOf);
    });
  }

  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    return this.#store.iterate(this.#select(query, checkpointOf), query.taskId);
  }

  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    return this.#store.iterate(
      this.#select(query, ({ head }) => summaryOf(head)),
      query.taskId,
    );
  }

  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord> {
    return this.#store.tasks(query, (folder) => contentsOf(folder, this.#adopt));
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const wanted = structuredClone(change);
    return this.#change("change a status of", taskId, id, (stored, file) => {
      checkExpected(taskId, file.newestSequence, condition);
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
    const absent = (): number => {
      checkExpected(taskId, 0, condition);
      return 0;
    };
    if (ids === "all") return this.#removeTask(taskId, absent, condition);
    return this.#write({
      taskId,
      verb: "remove from",
      absent,
      work: async (lock, file) => {
        checkExpected(taskId, file.newestSequence, condition);
        const doomed = new Set(ids.map((id) => file.find(id)));
        const kept = file.entries.filter((entry) => !doomed.has(entry));
        const removed = file.entries.length - kept.length;
        if (removed > 0) await lock.write(file.path, file.render(taskId, kept));
        // The process that removed it may have died before that was durable. Now it will be.
        else await syncFolder(dirname(file.path));
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
      absent: () => undefined,
      work: async (lock, folder) => {
        const file = await TaskFile.read(join(folder, TASK_FILE_NAME), this.#adopt);
        file.assertOwner(taskId);
        return file.refusal === undefined ? undefined : setAside(lock, file.path, file.refusal);
      },
    });
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  /** Writes what `change` makes of a checkpoint in its place. False where there is none, or `change` gives nothing. */
  async #change(
    verb: string,
    taskId: string,
    id: string,
    change: (stored: StoredCheckpoint, file: TaskFile) => StoredCheckpoint | undefined,
  ): Promise<boolean> {
    return this.#write({
      taskId,
      verb,
      absent: () => false,
      work: async (lock, file) => {
        const existing = file.findToChange(id);
        const changed = existing && change(checkpointOf(existing), file);
        if (existing === undefined || changed === undefined) {
          // The process that replaced or removed it may have died before that was durable.
          await syncFolder(dirname(file.path));
          return false;
        }
        const entries = file.entries.map((one) => (one === existing ? entryOf(changed, fieldsOf(existing)) : one));
        await lock.write(file.path, file.render(taskId, entries));
        return true;
      },
    });
  }

  async #removeTask(taskId: string, absent: () => number, condition: AppendCondition | undefined): Promise<number> {
    return this.#store.write({
      taskId,
      verb: "remove",
      absent,
      work: async (lock, folder) => {
        const file = await TaskFile.read(join(folder, TASK_FILE_NAME), this.#adopt);
        file.assertOwner(taskId);
        checkExpected(taskId, file.newestSequence, condition);
        const removed = lock.remove(file.path) ? file.count : 0;
        await syncFolder(folder);
        await this.#store.removeFolder(lock, folder);
        return removed;
      },
    });
  }

  async #write<Result>({ work, ...write }: FileWrite<Result>): Promise<Result> {
    return this.#store.write({
      ...write,
      work: async (lock, folder) => {
        const file = await TaskFile.read(join(folder, TASK_FILE_NAME), this.#adopt);
        file.assertOwner(write.taskId);
        file.assertWritable();
        return work(lock, file);
      },
    });
  }

  async #read(taskId: string): Promise<TaskFile | undefined> {
    const folder = this.#store.existingFolder(taskId);
    if (folder === undefined) return undefined;
    const file = await TaskFile.read(join(folder, TASK_FILE_NAME), this.#adopt);
    file.assertOwner(taskId);
    return file;
  }

  async *#select<Item extends CheckpointSummary>(
    query: CheckpointQuery,
    open: (entry: RecordEntry) => Item,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const { taskId, limit = Number.POSITIVE_INFINITY } = query;
    const file = await this.#read(taskId);
    let left = limit;
    for (const entry of file?.select(query) ?? []) {
      if (left === 0 || file === undefined) return;
      const found = file.open(entry, taskId, open);
      if ("corrupt" in found) yield found;
      else if (matchesQuery(found, query)) {
        left -= 1;
        yield found;
      }
    }
  }
}
