import { Timeline } from "./timeline.js";
import { type Machine, WorkerProcess } from "./worker-process.js";

/** The workers, in the order in which they got the lease. All of them have ended. */
export interface Demonstration {
  readonly killed: WorkerProcess;
  readonly stopped: WorkerProcess;
  readonly last: WorkerProcess;
}

/**
 * Lets two machines work on one task. The worker on A is killed, and the worker on B continues. Then the worker on B is
 * stopped for longer than its lease lasts, and a new worker on A finishes the task.
 *
 * @throws A worker failed, or the signal ended them all. No worker is left.
 */
export async function demonstrate(taskId: string, url: string, signal: AbortSignal): Promise<Demonstration> {
  signal.throwIfAborted();
  const timeline = new Timeline();
  const workers: WorkerProcess[] = [];
  const start = (machine: Machine) => {
    signal.throwIfAborted();
    const worker = new WorkerProcess(machine, taskId, url, (line) => {
      if (!line.endsWith("begins")) timeline.add(machine, line);
    });
    workers.push(worker);
    return worker;
  };
  const killAll = () => {
    for (const worker of workers) worker.signal("SIGKILL");
  };
  signal.addEventListener("abort", killAll);
  try {
    const killed = start("A");
    await killed.says("has the lease");
    const stopped = start("B");
    await stopped.says("waits");
    await killed.says("step 3 begins");
    killed.signal("SIGKILL");
    await killed.ended;
    timeline.add("A", `╳ killed (SIGKILL) in step ${killed.stepUnderWay}`);

    await stopped.says("has the lease");
    const last = start("A");
    await last.says("waits");
    await stopped.says("step 5 begins");
    stopped.signal("SIGSTOP");
    timeline.add("B", `‖ stopped (SIGSTOP) in step ${stopped.stepUnderWay}`);

    await last.says("step 6 begins");
    timeline.add("B", "▶ continued (SIGCONT), then saves");
    stopped.signal("SIGCONT");
    const error = await stopped.ended;
    timeline.add("B", error.includes("LEASE_LOST") ? "✗ refused: LEASE_LOST" : `ends: ${error}`);
    await last.ended;
    signal.throwIfAborted();
    return { killed, stopped, last };
  } finally {
    killAll();
    await Promise.all(workers.map(({ ended }) => ended));
  }
}
