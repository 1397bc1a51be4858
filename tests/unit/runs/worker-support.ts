import type { CheckpointManager, RunFunction, StorageAdapter, WorkOptions } from "waymark";

export type Fn = RunFunction<unknown, unknown, unknown, never>;

/** Starts a worker. `until` resolves once a task's newest checkpoint has the status, then the worker can be drained. */
export function working(manager: CheckpointManager, fn: Fn, options: Partial<WorkOptions> = {}) {
  const controller = new AbortController();
  const errors: unknown[] = [];
  const ended = manager.work(
    {
      prefix: "q/",
      signal: controller.signal,
      pauseOnSignal: false,
      onError: (error) => errors.push(error),
      ...options,
    },
    fn as RunFunction<unknown, unknown, unknown, unknown>,
  );
  const drain = async () => {
    controller.abort();
    await ended;
  };
  return { errors, drain, ended };
}

/** Resolves once `count` runs have ended with the status. */
export function ends(manager: CheckpointManager, status: string, count = 1): Promise<string[]> {
  const found: string[] = [];
  return new Promise((resolve) => {
    const note = (is: string, taskId: string) => {
      if (is === status) found.push(taskId);
      if (found.length === count) resolve(found);
    };
    manager.on("runEnded", (run) => note(run.status, run.taskId));
    manager.on("runPaused", (run) => note("paused", run.taskId));
  });
}

export async function held(storage: StorageAdapter): Promise<string[]> {
  const found: string[] = [];
  for await (const { taskId } of storage.leases?.held() ?? []) found.push(taskId);
  return found;
}
