import {
  CheckpointConflictError,
  type CheckpointSummary,
  type StorageAdapter,
  UnsupportedOperationError,
} from "waymark";
import {
  isCorrupt,
  type LogRecord,
  type RecordHeader,
  type StoredCheckpoint,
  seal,
  type TaskLog,
} from "waymark/adapter";
import { continuesAfter } from "./other-history.js";
import { isWhole, toDraft, toRecordDraft } from "./stored-record.js";
import { describeItem, isLogRecord, lastSequence, type StoredItem } from "./whole-records.js";

/** The result of inserting an item. `otherStatus`: the checkpoint existed, with another status or error. */
export type InsertResult = "added" | "present" | "otherStatus";

/**
 * Stores checkpoints and records unchanged, with the same ids, sequences, statuses and seals. It skips existing ones,
 * so killed work can be repeated from the start. Pass the items task by task, with ascending sequences.
 */
export class RecordInserter {
  readonly #storage: StorageAdapter;
  readonly #isSameHistory: boolean;
  #taskId: string | undefined;
  /** The sequence of the task's newest checkpoint. */
  #newest = 0;
  /** The sequence of the task's last checkpoint or record. */
  #last = 0;
  #belongsThere = false;

  /**
   * @param options.isSameHistory - True if the caller has compared the task's checkpoints. If false, the first item
   *   above the task's last sequence is refused, unless the task already has an earlier item, or {@link continuesAfter}
   *   holds for it.
   */
  constructor(storage: StorageAdapter, { isSameHistory = false }: { readonly isSameHistory?: boolean } = {}) {
    this.#storage = storage;
    this.#isSameHistory = isSameHistory;
  }

  /** @throws {CheckpointConflictError} See {@link check}, or another program saved to the task meanwhile. */
  async insert(item: StoredItem): Promise<InsertResult> {
    const result = await this.check(item);
    if (result !== "added") return result;
    const { taskId, sequence } = item;
    const stored = await (isLogRecord(item) ? this.#appendRecord(item) : this.#appendCheckpoint(item));
    if (stored !== sequence) {
      throw new CheckpointConflictError(
        `${capitalized(describeItem(item))} of task ${JSON.stringify(taskId)} is there already under sequence ${stored}, not ${sequence}. Nothing was changed.`,
      );
    }
    if (!isLogRecord(item)) this.#newest = sequence;
    this.#last = sequence;
    this.#belongsThere = true;
    return "added";
  }

  /**
   * Returns or throws what {@link insert} would, but writes nothing.
   *
   * @throws {CheckpointConflictError} Another checkpoint or record has the item's sequence or its id, or the task has
   *   another history.
   * @throws {UnsupportedOperationError} The storage keeps no records.
   */
  async check(item: StoredItem): Promise<InsertResult> {
    const { taskId, sequence } = item;
    if (taskId !== this.#taskId) {
      this.#newest = await newestSequence(this.#storage, taskId);
      this.#last = await lastSequence(this.#storage, taskId);
      const isNext = async () => continuesAfter(await newestIntact(this.#storage, taskId), item);
      this.#belongsThere = this.#isSameHistory || (sequence > this.#last && (await isNext()));
      this.#taskId = taskId;
    }
    if (isLogRecord(item)) requireLog(this.#storage, item);
    const task = `task ${JSON.stringify(taskId)}`;
    if (sequence > this.#last) {
      if (this.#belongsThere) return "added";
      throw new CheckpointConflictError(
        `The checkpoints of ${task} up to @${this.#last} are newer than @${sequence}, so they belong to another history.`,
      );
    }
    const relation = await this.#compareStored(item);
    if (relation === "different") {
      throw new CheckpointConflictError(
        `Sequence ${sequence} of ${task} is taken: the task has, or had, another ${isLogRecord(item) ? "record" : "checkpoint"} there.`,
      );
    }
    if (relation === "unreadable") return "added";
    this.#belongsThere = true;
    return relation === "same" ? "present" : "otherStatus";
  }

  /** Compares an item with the stored one. If the stored item is unreadable, `append` reports the damage. */
  async #compareStored(item: StoredItem): Promise<ReturnType<typeof compareItems> | "unreadable"> {
    if (isLogRecord(item)) {
      const { taskId, sequence } = item;
      const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1 };
      for await (const stored of requireLog(this.#storage, item).read({ taskId, order: "oldest", ...range })) {
        if (!isCorrupt(stored) && "seal" in stored && stored.seal === item.seal) return "same";
      }
      return "different";
    }
    const existing = await this.#storage.get(item.taskId, item.id);
    if (existing !== undefined && !isWhole(existing)) return "unreadable";
    return existing?.sequence === item.sequence ? compareItems(item, existing) : "different";
  }

  #appendCheckpoint(checkpoint: StoredCheckpoint): Promise<number> {
    const condition = { expectedSequence: this.#newest };
    const { sequence } = checkpoint;
    return this.#storage.append(toDraft(checkpoint), condition, { sequence, sharesWith: findOrigin(checkpoint) });
  }

  #appendRecord(record: LogRecord): Promise<number> {
    const condition = { expectedSequence: this.#newest };
    const options = { firstSequence: record.sequence };
    return requireLog(this.#storage, record).append(record.taskId, [toRecordDraft(record)], condition, options);
  }
}

function requireLog({ name, log }: StorageAdapter, record: LogRecord): TaskLog {
  if (log !== undefined) return log;
  throw new UnsupportedOperationError(
    `The ${name} adapter keeps no log, so it can't store the ${describeItem(record)} (@${record.sequence}) of task ${JSON.stringify(record.taskId)}.`,
  );
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/**
 * Returns the checkpoint whose state `fork` reused. If the target also has that checkpoint, the record takes no extra
 * space.
 */
function findOrigin({ metadata }: StoredCheckpoint): { readonly taskId: string; readonly id: string } | undefined {
  const origin = metadata?.["forkedFrom"];
  if (typeof origin !== "object" || origin === null || !("taskId" in origin && "id" in origin)) return undefined;
  const { taskId, id } = origin;
  return typeof taskId === "string" && typeof id === "string" ? { taskId, id } : undefined;
}

/** Returns the sequence of a task's newest checkpoint, damaged or not; 0 if there is none. */
async function newestSequence(storage: StorageAdapter, taskId: string): Promise<number> {
  let newest = 0;
  for await (const { sequence = 0 } of storage.list({ taskId, order: "newest", limit: 1 })) {
    newest = Math.max(newest, sequence);
  }
  return newest;
}

/** Returns the header of a task's last readable checkpoint or record. */
async function newestIntact(
  storage: StorageAdapter,
  taskId: string,
): Promise<CheckpointSummary | LogRecord | RecordHeader | undefined> {
  const query = { taskId, order: "newest" } as const;
  for await (const item of storage.log?.read({ ...query, headersOnly: true }) ?? storage.list(query)) {
    if (!isCorrupt(item)) return item;
  }
  return undefined;
}

/** Compares two intact items by their seals, which cover everything in them. Only a checkpoint has a status. */
export function compareItems(a: StoredItem, b: StoredItem): "same" | "otherStatus" | "different" {
  if (a.seal === b.seal) return "same";
  if (isLogRecord(a) || isLogRecord(b)) return "different";
  const { error: _error, ...rest } = b;
  const withStatusOfA = { ...rest, status: a.status, ...(a.error && { error: a.error }) };
  return seal(withStatusOfA) === a.seal ? "otherStatus" : "different";
}
