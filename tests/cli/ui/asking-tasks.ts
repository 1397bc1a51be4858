import type { CheckpointManager } from "waymark";
import { z } from "zod";
import { shortenPauses } from "../../support/stopped-clock.js";

/** Runs that ask for an approval, each after a step; a worker suspends them. The last one is the newest. */
export async function askingRuns(manager: CheckpointManager, versions: readonly string[]): Promise<void> {
  shortenPauses();
  const schema = z.object({ approved: z.boolean(), note: z.string().optional() });
  const stop = new AbortController();
  let left = versions.length;
  const unsubscribe = manager.on("runPaused", () => {
    left -= 1;
    if (left === 0) stop.abort();
  });
  for (const version of versions) await manager.enqueue(`release-${version}`, { version });
  await manager.work({ prefix: "release-", signal: stop.signal }, async (run) => {
    await run.step("test", () => ({ passed: 412 }));
    return run.waitFor("approve", { ask: `May ${run.taskId} go out?`, schema });
  });
  unsubscribe();
}
