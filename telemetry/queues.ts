import type { BatchObservableResult, Meter } from "@opentelemetry/api";

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
}

/** Measures the length and age of queues. Returns a function that ends this. */
export function measureQueues(meter: Meter, queues: readonly Queue[]): () => void {
  if (queues.length === 0) return () => undefined;
  const length = meter.createObservableGauge("waymark.queue.length", {
    unit: "{task}",
    description: "Tasks that are due and that no worker has taken",
  });
  const age = meter.createObservableGauge("waymark.queue.age", {
    unit: "s",
    description: "How long the task that has waited longest has been due",
  });
  const observe = async (result: BatchObservableResult): Promise<void> => {
    await Promise.all(
      queues.map(async ({ manager, prefix }) => {
        const { tasks, oldestDueAt } = await manager.queue({ prefix });
        const attributes = { "waymark.queue.prefix": prefix };
        result.observe(length, tasks, attributes);
        result.observe(age, oldestDueAt === undefined ? 0 : secondsSince(oldestDueAt), attributes);
      }),
    );
  };
  meter.addBatchObservableCallback(observe, [length, age]);
  return () => {
    meter.removeBatchObservableCallback(observe, [length, age]);
  };
}

function secondsSince(time: string): number {
  return Math.max(0, Date.now() - Date.parse(time)) / 1000;
}
