import { type CheckpointSummary, type CorruptRecord, type StorageAdapter, UnsupportedOperationError } from "waymark";
import {
  type CheckedRecord,
  type CheckpointQuery,
  isCorrupt,
  makePayload,
  type StorageFinding,
  type TaskQuery,
} from "waymark/adapter";

/** A checkpoint of another system, in the form that a manager would save. */
export interface SeenCheckpoint
  extends Pick<CheckpointSummary, "taskId" | "id" | "createdAt" | "stage" | "label" | "status"> {
  readonly state: unknown;
}

/** A storage that can only be read. It refuses every change with the advice. */
export class ReadOnlyStorage implements StorageAdapter {
  readonly name: string;
  readonly capabilities = { durable: false, multiProcess: false } as const;
  readonly maintenance: NonNullable<StorageAdapter["maintenance"]>;
  readonly #storage: StorageAdapter;
  readonly #advice: string;
  readonly #damage: readonly CorruptRecord[];

  constructor(storage: StorageAdapter, advice: string, damage: readonly CorruptRecord[] = []) {
    this.name = storage.name;
    this.#storage = storage;
    this.#advice = advice;
    this.#damage = damage;
    const { maintenance } = storage;
    const verify = maintenance ? maintenance.verify.bind(maintenance) : () => this.#verify();
    this.maintenance = { verify, repair: () => this.#refuse() };
  }

  /** Creates a storage from checkpoints, the oldest first. They keep their ids and times. */
  static async of(seen: readonly (SeenCheckpoint | CorruptRecord)[], advice: string): Promise<ReadOnlyStorage> {
    const { MemoryAdapter } = await import("waymark/adapters/memory");
    const memory = new MemoryAdapter();
    const checkpoints = seen.flatMap((item) => (isCorrupt(item) ? [] : [item]));
    for (const { state, ...described } of checkpoints.toSorted(
      (a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt),
    )) {
      const draft = { ...described, stateVersion: 1 };
      await memory.append({ ...draft, ...(await makePayload(state, { context: draft })) });
    }
    return new ReadOnlyStorage(memory, advice, seen.filter(isCorrupt));
  }

  get: StorageAdapter["get"] = async (taskId, id) =>
    (await this.#storage.get(taskId, id)) ??
    this.#damage.find((record) => record.taskId === taskId && record.id === id);

  async *read(query: CheckpointQuery) {
    yield* this.#damageOf(query.taskId);
    yield* this.#storage.read(query);
  }

  async *list(query: CheckpointQuery) {
    yield* this.#damageOf(query.taskId);
    yield* this.#storage.list(query);
  }

  async *tasks(query: TaskQuery) {
    yield* this.#damage;
    yield* this.#storage.tasks(query);
  }

  append = async () => this.#refuse();
  setStatus = async () => this.#refuse();
  remove = async () => this.#refuse();

  async close(): Promise<void> {
    await this.#storage.close?.();
  }

  #damageOf(taskId: string): readonly CorruptRecord[] {
    return this.#damage.filter((record) => record.taskId === taskId);
  }

  async *#verify(): AsyncGenerator<StorageFinding | CheckedRecord> {
    for await (const task of this.#storage.tasks({ order: "taskId" })) {
      if (isCorrupt(task)) continue;
      const { taskId } = task;
      for await (const found of this.#storage.list({ taskId, order: "oldest" })) {
        if (!isCorrupt(found)) yield { kind: "checked", taskId, sizeBytes: found.sizeBytes };
      }
    }
    for (const { corrupt: _corrupt, cause: _cause, ...found } of this.#damage) yield { kind: "damaged", ...found };
  }

  #refuse(): never {
    throw new UnsupportedOperationError(`${this.#advice} This command only looks at it; nothing was changed.`);
  }
}
