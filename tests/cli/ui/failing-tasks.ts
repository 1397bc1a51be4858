import type { CheckpointManager } from "waymark";
import { shortenPauses } from "../../support/stopped-clock.js";

/** Runs that failed: `charge/1`, `charge/3`, … for a quota, the others for a lost connection. */
export async function failedRuns(manager: CheckpointManager, count: number): Promise<void> {
  shortenPauses();
  const stop = new AbortController();
  let left = count;
  const unsubscribe = manager.on("runEnded", () => {
    left -= 1;
    if (left === 0) stop.abort();
  });
  for (let n = 1; n <= count; n += 1) await manager.enqueue(`charge/${n}`, n);
  await manager.work({ prefix: "charge/", signal: stop.signal, onError: () => undefined }, async (run) => {
    const message =
      Number(run.input) % 2 === 1 ? `quota of user ${run.input} exceeded` : `no route to 10.0.0.${run.input}`;
    await run.step("charge", () => Promise.reject(new Error(message)));
  });
  unsubscribe();
}
