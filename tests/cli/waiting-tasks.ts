import type { CheckpointManager } from "waymark";
import { shortenPauses } from "../support/stopped-clock.js";

/** The intended outcome of a task's run. */
export type Outcome = "waits" | "fails" | "ends";

/** Enqueues the tasks, whose ids begin with `w/`, and works until each has its outcome. */
export async function worked(manager: CheckpointManager, tasks: Readonly<Record<string, Outcome>>): Promise<void> {
  shortenPauses();
  const left = new Set(Object.keys(tasks));
  const drained = new AbortController();
  const settle = ({ taskId }: { readonly taskId: string }) => {
    left.delete(taskId);
    if (left.size === 0) drained.abort();
  };
  const unsubscribe = [manager.on("runPaused", settle), manager.on("runEnded", settle)];
  for (const taskId of left) await manager.enqueue(taskId, tasks[taskId]);
  await manager.work({ prefix: "w/", signal: drained.signal, onError: () => undefined }, async (run) => {
    await run.step("plan", () => 1);
    if (run.input === "fails") await run.step("build", () => Promise.reject(new Error("no room")));
    if (run.input === "waits") await run.waitFor("approve");
  });
  for (const stop of unsubscribe) stop();
}
