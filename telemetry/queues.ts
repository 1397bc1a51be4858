import type { BatchObservableResult, Meter } from "@opentelemetry/api";
import { checkKeys, listKeys } from "../src/contract/arguments.js";

/** The part of a `CheckpointManager` that counts the tasks which are due for a worker. */
export interface QueueSource {
  queue(query: { readonly prefix: string }): Promise<{
    readonly tasks: number;
    /** ISO 8601 in UTC. */
    readonly oldestDueAt?: string | undefined;
  }>;
}

/** A queue of tasks that workers take. */
export interface Queue {
  readonly manager: QueueSource;
  /** The prefix that the workers have; the metrics' attribute `waymark.queue.prefix`. */
  readonly prefix: string;
  /**
   * Tells apart queues with one prefix in several storages, such as shards. It is the metrics' attribute
   * `waymark.queue.name`. Default: none.
   */
  readonly name?: string | undefined;
}

/**
 * Measures the length and age of queues. Returns a function that ends this.
 *
 * @throws {TypeError} A queue has an unknown key, or two queues have the same prefix and name.
 */
export function measureQueues(meter: Meter, queues: readonly Queue[]): () => void {
  if (queues.length === 0) return () => undefined;
  checkQueues(queues);
  const length = meter.createObservableGauge("waymark.queue.length", {
    unit: "{task}",
    description: "Tasks that are due and that no worker has taken",
  });
  const age = meter.createObservableGauge("waymark.queue.age", {
    unit: "s",
    description: "How long the task that has waited longest has been due",
  });
  const stops = queues.map(({ manager, prefix, name }) => {
    const attributes = { "waymark.queue.prefix": prefix, ...(name !== undefined && { "waymark.queue.name": name }) };
    const observe = async (result: BatchObservableResult): Promise<void> => {
      const { tasks, oldestDueAt } = await manager.queue({ prefix });
      result.observe(length, tasks, attributes);
      result.observe(age, oldestDueAt === undefined ? 0 : secondsSince(oldestDueAt), attributes);
    };
    // Each queue has its own callback, so the SDK reports the error of one queue and still measures the others.
    meter.addBatchObservableCallback(observe, [length, age]);
    return () => meter.removeBatchObservableCallback(observe, [length, age]);
  });
  return () => {
    for (const stop of stops) stop();
  };
}

function checkQueues(queues: readonly Queue[]): void {
  const seen = new Set<string>();
  for (const queue of queues) {
    checkKeys("Queue", queue, listKeys<Queue>({ manager: true, prefix: true, name: true }));
    const { prefix, name } = queue;
    const id = JSON.stringify([prefix, name]);
    if (seen.has(id)) {
      const same = `the prefix ${JSON.stringify(prefix)} and ${name === undefined ? "no name" : `the name ${JSON.stringify(name)}`}`;
      throw new TypeError(`Two queues have ${same}. Give each a name of its own, such as its shard's.`);
    }
    seen.add(id);
  }
}

function secondsSince(time: string): number {
  return Math.max(0, Date.now() - Date.parse(time)) / 1000;
}
