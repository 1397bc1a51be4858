import { CheckpointConflictError, type StorageAdapter } from "waymark";
import { type StoredCheckpoint, seal } from "waymark/adapter";
import { draftOf, isWhole } from "./stored-record.js";

/** The result of placing a record. `otherStatus`: it was there, with another status or error. */
export type Placement = "added" | "present" | "otherStatus";

/**
 * Stores records as they are: same ids, sequences, statuses and seals. It skips records that are there already, so work
 * that was killed can be repeated from the start. Records must come task by task, in ascending sequences.
 */
export class RecordPlacer {
  readonly #storage: StorageAdapter;
  #taskId: string | undefined;
  #newest = 0;

  constructor(storage: StorageAdapter) {
    this.#storage = storage;
  }

  /** @throws {CheckpointConflictError} Another checkpoint has its sequence or its id. */
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

/** The checkpoint that `fork` took the state from: stored there, it takes no space of its own. */
function originOf({ metadata }: StoredCheckpoint): { readonly taskId: string; readonly id: string } | undefined {
  const origin = metadata?.["forkedFrom"];
  if (typeof origin !== "object" || origin === null || !("taskId" in origin && "id" in origin)) return undefined;
  const { taskId, id } = origin;
  return typeof taskId === "string" && typeof id === "string" ? { taskId, id } : undefined;
}

/** The sequence of a task's newest checkpoint, damaged or not; 0 for none. */
export async function newestSequence(storage: StorageAdapter, taskId: string): Promise<number> {
  let newest = 0;
  for await (const { sequence = 0 } of storage.list({ taskId, order: "newest", limit: 1 })) {
    newest = Math.max(newest, sequence);
  }
  return newest;
}

/**
 * How two intact records are related. Their seals cover everything in a record.
 */
export function relationOf(a: StoredCheckpoint, b: StoredCheckpoint): "same" | "otherStatus" | "different" {
  if (a.seal === b.seal) return "same";
  const { error: _error, ...rest } = b;
  const withStatusOfA = { ...rest, status: a.status, ...(a.error && { error: a.error }) };
  return seal(withStatusOfA) === a.seal ? "otherStatus" : "different";
}
