import { CheckpointConflictError, type StorageAdapter } from "waymark";
import { type StoredCheckpoint, seal } from "waymark/adapter";
import { draftOf, isWhole } from "./stored-record.js";

/** The result of placing a record. `otherStatus`: the record existed, with another status or error. */
export type Placement = "added" | "present" | "otherStatus";

/**
 * Stores records unchanged, with the same ids, sequences, statuses and seals. It skips existing records, so killed work
 * can be repeated from the start. Records must come task by task, in ascending sequences.
 */
export class RecordPlacer {
  readonly #storage: StorageAdapter;
  #taskId: string | undefined;
  #newest = 0;

  constructor(storage: StorageAdapter) {
    this.#storage = storage;
  }

  /** @throws {CheckpointConflictError} Another checkpoint has the record's sequence or its id. */
  async place(record: StoredCheckpoint): Promise<Placement> {
    const { taskId, sequence } = record;
    if (taskId !== this.#taskId) {
      this.#newest = await newestSequence(this.#storage, taskId);
      this.#taskId = taskId;
    }
    if (sequence <= this.#newest) {
      const existing = await this.#storage.get(taskId, record.id);
      if (existing !== undefined && isWhole(existing) && existing.sequence === sequence) {
        const relation = relationOf(record, existing);
        if (relation !== "different") return relation === "same" ? "present" : "otherStatus";
      }
    }
    const given = await this.#storage.append(draftOf(record), {}, { sequence, sharesWith: originOf(record) });
    if (given !== sequence) {
      throw new CheckpointConflictError(
        `Checkpoint ${record.id} of task ${JSON.stringify(taskId)} is there already under sequence ${given}, not ${sequence}. Nothing was changed.`,
      );
    }
    this.#newest = sequence;
    return "added";
  }
}

/**
 * Returns the checkpoint whose state `fork` reused. If that is stored in the target too, the record takes no extra
 * space.
 */
function originOf({ metadata }: StoredCheckpoint): { readonly taskId: string; readonly id: string } | undefined {
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

/** Compares two intact records by their seals, which cover everything in a record. */
export function relationOf(a: StoredCheckpoint, b: StoredCheckpoint): "same" | "otherStatus" | "different" {
  if (a.seal === b.seal) return "same";
  const { error: _error, ...rest } = b;
  const withStatusOfA = { ...rest, status: a.status, ...(a.error && { error: a.error }) };
  return seal(withStatusOfA) === a.seal ? "otherStatus" : "different";
}
