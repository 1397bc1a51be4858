// The part to copy: each task belongs to one of a fixed number of shards, and each shard has its own storage.
import { createHash } from "node:crypto";
import { CheckpointManager, type RunFunction, type WorkOptions } from "waymark";
import { openStorage } from "waymark/adapters";

/** The managers of all shards. */
export class Shards {
  readonly #managers: readonly CheckpointManager[];

  /**
   * @param urls - The storage of each shard, in the order of the shards: `postgres://db-1/app?schema=shard_0`,
   * `sqlite:0.db`.
   *   A shard may move to another database, but the number of shards must stay the same, because it decides which shard
   *   a task belongs to. Begin with more shards than databases.
   */
  constructor(urls: readonly string[]) {
    this.#managers = urls.map((url) => new CheckpointManager({ storage: openStorage(url) }));
  }

  /** Returns the manager of the shard that a task belongs to. */
  of(taskId: string): CheckpointManager {
    const first = createHash("sha256").update(taskId).digest().readUInt32BE(0);
    const manager = this.#managers[first % this.#managers.length];
    if (manager === undefined) throw new RangeError("There is no shard.");
    return manager;
  }

  /** Works on all shards. An idle worker polls each shard four times a second. */
  async work(options: WorkOptions, fn: RunFunction<unknown, unknown, unknown, unknown>): Promise<void> {
    await Promise.all(this.#managers.map((manager) => manager.work(options, fn)));
  }

  /** Returns the number of tasks that wait for a worker. */
  async queueLength(prefix: string): Promise<number> {
    const counts = await Promise.all(this.#managers.map((manager) => manager.queue({ prefix })));
    return counts.reduce((sum, { tasks }) => sum + tasks, 0);
  }

  /** Returns the ids of the tasks that aren't completed. */
  async incomplete(prefix: string): Promise<string[]> {
    const found = await Promise.all(this.#managers.map((manager) => manager.findIncomplete({ prefix })));
    return found.flat().map(({ taskId }) => taskId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#managers.map((manager) => manager.close()));
  }

  async close(): Promise<void> {
    await this[Symbol.asyncDispose]();
  }
}
