// Follows some tasks of a chaos run. It may be killed at any moment. The next one continues after what was noted.
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager } from "waymark";
import { recorded } from "./history.js";
import { factsIn, openLedger } from "./ledger.js";
import { FOLLOWED, planOf } from "./plan.js";
import { openStorage } from "./store.js";
import { codeOf, told } from "./told.js";

const { name, storage, place, ledgers, histories, seed, tasks, spreadMs } = told();
const facts = factsIn(ledgers, "follower-");
const note = openLedger(ledgers, name);
const manager = new CheckpointManager({ storage: recorded(openStorage(storage, place), histories, name) });
const numbers = Array.from({ length: tasks }, (_, number) => number).filter((number) => number % FOLLOWED === 0);
await Promise.all(numbers.map((number) => follow(planOf(seed, number, spreadMs).taskId)));
await manager.close();
process.exit();

async function follow(task: string): Promise<void> {
  const own = facts.filter((fact) => fact.task === task);
  if (own.some(({ is }) => is === "followedAll")) return;
  const seen = own.flatMap((fact) => (fact.is === "followed" ? [fact.sequence] : []));
  let afterSequence = seen.length === 0 ? undefined : Math.max(...seen);
  for (;;) {
    try {
      for await (const { sequence, kind } of manager.follow(task, { afterSequence })) {
        note({ is: "followed", task, sequence, kind });
        afterSequence = sequence;
      }
      note({ is: "followedAll", task });
      return;
    } catch (error) {
      note({ is: "error", task: "", code: codeOf(error), message: `${error}` });
      if (codeOf(error) !== "STORAGE_FAILED") throw error;
      await pause(500);
    }
  }
}
