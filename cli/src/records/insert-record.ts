import { CheckpointConflictError, type StorageAdapter } from "waymark";
import { type CheckpointSummary, isCorrupt, type StoredCheckpoint, seal } from "waymark/adapter";
import { continuesAfter } from "./other-history.js";
import { isWhole, toDraft } from "./stored-record.js";

/** The result of inserting a record. `otherStatus`: the record existed, with another status or error. */
export type InsertResult = "added" | "present" | "otherStatus";

/**
 * Stores records unchanged, with the same ids, sequences, statuses and seals. It skips existing records, so killed work
 * can be repeated from the start. Records must come task by task, in ascending sequences.
 */
export class RecordInserter {
  readonly #storage: StorageAdapter;
  readonly #isSameHistory: boolean;
  #taskId: string | undefined;
  #newest = 0;
  #belongsThere = false;

  /**
   * @param options.isSameHistory - True if the caller has compared the task's checkpoints. Otherwise the first record
   *   above the task's newest one is refused, unless the task has one of the records before it, or the record
   *   {@link continuesAfter} it.
   */
  constructor(storage: StorageAdapter, { isSameHistory = false }: { readonly isSameHistory?: boolean } = {}) {
    this.#storage = storage;
    this.#isSameHistory = isSameHistory;
  }

  /** @throws {CheckpointConflictError} See {@link check}, or another program saved to the task meanwhile. */
  async insert(record: StoredCheckpoint): Promise<InsertResult> {
    const result = await this.check(record);
    if (result !== "added") return result;
    const { taskId, id, sequence } = record;
    const condition = { expectedSequence: this.#newest };
    const given = await this.#storage.append(toDraft(record), condition, { sequence, sharesWith: findOrigin(record) });
    if (given !== sequence) {
      throw new CheckpointConflictError(
        `Checkpoint ${id} of task ${JSON.stringify(taskId)} is there already under sequence ${given}, not ${sequence}. Nothing was changed.`,
      );
    }
    this.#newest = sequence;
    this.#belongsThere = true;
    return "added";
  }

  /**
   * Finds out how {@link insert} would end, and writes nothing.
   *
   * @throws {CheckpointConflictError} Another checkpoint has the record's sequence or its id, or the task has another
   *   history.
   */
  async check(record: StoredCheckpoint): Promise<InsertResult> {
    const { taskId, id, sequence } = record;
    if (taskId !== this.#taskId) {
      this.#newest = await newestSequence(this.#storage, taskId);
      const isNext = async () => continuesAfter(await newestIntact(this.#storage, taskId), record);
      this.#belongsThere = this.#isSameHistory || (sequence > this.#newest && (await isNext()));
      this.#taskId = taskId;
    }
    const task = `task ${JSON.stringify(taskId)}`;
    if (sequence > this.#newest) {
      if (this.#belongsThere) return "added";
      throw new CheckpointConflictError(
        `The checkpoints of ${task} up to @${this.#newest} are newer than @${sequence}, so they belong to another history.`,
      );
    }
    const existing = await this.#storage.get(taskId, id);
    // `append` reports the damage.
    if (existing !== undefined && !isWhole(existing)) return "added";
    const relation = existing?.sequence === sequence ? compareRecords(record, existing) : "different";
    if (relation === "different") {
      throw new CheckpointConflictError(
        `Sequence ${sequence} of ${task} is taken: the task has, or had, another checkpoint there.`,
      );
    }
    this.#belongsThere = true;
    return relation === "same" ? "present" : "otherStatus";
  }
}

/**
 * Returns the checkpoint whose state `fork` reused. If that is stored in the target too, the record takes no extra
 * space.
 */
function findOrigin({ metadata }: StoredCheckpoint): { readonly taskId: string; readonly id: string } | undefined {
  const origin = metadata?.["forkedFrom"];
  if (typeof origin !== "object" || origin === null || !("taskId" in origin && "id" in origin)) return undefined;
  const { taskId, id } = origin;
  return typeof taskId === "string" && typeof id === "string" ? { taskId, id } : undefined;
}

/** Returns the sequence of a task's newest checkpoint, damaged or not; 0 if there is none. */
export async function newestSequence(storage: StorageAdapter, taskId: string): Promise<number> {
  let newest = 0;
  for await (const { sequence = 0 } of storage.list({ taskId, order: "newest", limit: 1 })) {
    newest = Math.max(newest, sequence);
  }
  return newest;
}

async function newestIntact(storage: StorageAdapter, taskId: string): Promise<CheckpointSummary | undefined> {
  for await (const summary of storage.list({ taskId, order: "newest" })) if (!isCorrupt(summary)) return summary;
  return undefined;
}

/** Compares two intact records by their seals, which cover everything in a record. */
export function compareRecords(a: StoredCheckpoint, b: StoredCheckpoint): "same" | "otherStatus" | "different" {
  if (a.seal === b.seal) return "same";
  const { error: _error, ...rest } = b;
  const withStatusOfA = { ...rest, status: a.status, ...(a.error && { error: a.error }) };
  return seal(withStatusOfA) === a.seal ? "otherStatus" : "different";
}
