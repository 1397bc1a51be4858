// Runs a life in which a worker takes one task.
import type { CheckpointManager, Run, RunOptions } from "waymark";
import { RunPausedError } from "waymark";

/**
 * Lets a worker run the task to its end, also after suspensions. Resolves to the task's result.
 *
 * @param task - No other task that is due begins with its id.
 */
export async function workOn(
  manager: CheckpointManager,
  task: string,
  execute: (run: Run) => Promise<unknown>,
  { version, ifVersionChanged, signal }: Pick<RunOptions, "version" | "ifVersionChanged"> & { signal: AbortSignal },
): Promise<unknown> {
  const ending = new AbortController();
  let end: { readonly error: Error | undefined } | undefined;
  const noteEnd = (error: unknown) => {
    end ??= { error: error === undefined || error instanceof Error ? error : new Error(String(error)) };
    ending.abort();
  };
  manager.on("runEnded", ({ taskId, error }) => {
    if (taskId === task) noteEnd(error);
  });
  await manager.work(
    {
      prefix: task,
      version,
      ifVersionChanged,
      maxAttempts: 1000,
      pauseOnSignal: false,
      signal: AbortSignal.any([ending.signal, signal]),
      onError: (error, of) => {
        if (of === task) noteEnd(error);
      },
    },
    execute as (run: Run<unknown, unknown, unknown>) => Promise<never>,
  );
  if (end === undefined) throw new RunPausedError(task, "The worker was drained.");
  if (end.error !== undefined) throw end.error;
  return manager.result(task);
}
