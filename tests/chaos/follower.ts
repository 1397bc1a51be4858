// Follows some tasks of a chaos run, and waits for their results. It may be killed at any moment. The next follower
// continues after the last noted record.
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
const taskIds = numbers.map((number) => planOf(seed, number, spreadMs).taskId);
await Promise.all(taskIds.flatMap((task) => [follow(task), awaitResult(task)]));
await manager.close();
process.exit();

async function follow(task: string): Promise<void> {
  const own = facts.filter((fact) => fact.task === task);
  if (own.some(({ is }) => is === "followedAll")) return;
  const seen = own.flatMap((fact) => (fact.is === "followed" ? [fact.sequence] : []));
  let afterSequence = seen.length === 0 ? undefined : Math.max(...seen);
  await untilDone(async () => {
    for await (const { sequence, kind } of manager.follow(task, { afterSequence })) {
      note({ is: "followed", task, sequence, kind });
      afterSequence = sequence;
    }
  });
  note({ is: "followedAll", task });
}

async function awaitResult(task: string): Promise<void> {
  if (facts.some((fact) => fact.task === task && fact.is === "awaited")) return;
  const outcome = await untilDone(async () => {
    try {
      return await manager.result(task);
    } catch (error) {
      if (codeOf(error) === "RUN_FAILED") return "failed";
      throw error;
    }
  });
  note({ is: "awaited", task, outcome });
}

async function untilDone<Result>(work: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      note({ is: "error", task: "", code: codeOf(error), message: `${error}` });
      if (codeOf(error) !== "STORAGE_FAILED") throw error;
      await pause(500);
    }
  }
}
