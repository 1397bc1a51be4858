// Enqueues the tasks of a chaos run, and sends their events. It may be killed at any moment. The next sender reads from
// the ledgers what was acknowledged, and repeats the rest.
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager } from "waymark";
import { recorded } from "./history.js";
import { factsIn, nowMs, type Observation, openLedger } from "./ledger.js";
import { EVENT, type Plan, planOf } from "./plan.js";
import { openStorage } from "./store.js";
import { codeOf, told } from "./told.js";

interface Sending {
  readonly atMs: number;
  /** The fact to note once the call is acknowledged. */
  readonly fact: Observation;
  send(): Promise<unknown>;
}

const AT_ONCE = 10;

const { name, storage, place, ledgers, histories, seed, tasks, spreadMs, beganAtMs } = told();
const acknowledged = new Set(factsIn(ledgers, "sender-").flatMap((fact) => idOf(fact) ?? []));
const note = openLedger(ledgers, name);
const manager = new CheckpointManager({ storage: recorded(openStorage(storage, place), histories, name) });
const left = Array.from({ length: tasks }, (_, number) => sendingsOf(planOf(seed, number, spreadMs)))
  .flat()
  .filter(({ fact }) => !acknowledged.has(idOf(fact) ?? ""))
  .sort((a, b) => a.atMs - b.atMs);
const underWay = new Set<Promise<void>>();
for (const { atMs, fact, send } of left) {
  await pause(Math.max(0, beganAtMs + atMs - nowMs()));
  // A killed sender may have left a lot of work, so the number of simultaneous calls is limited.
  while (underWay.size >= AT_ONCE) await Promise.race(underWay);
  const sending: Promise<void> = untilDone(send)
    .then(() => note(fact))
    .finally(() => underWay.delete(sending));
  underWay.add(sending);
}
await Promise.all(underWay);
await manager.close();
process.exit();

function sendingsOf({ taskId: task, number, atMs, delayMs, events }: Plan): Sending[] {
  const enqueue = () => {
    if (delayMs === 0) return manager.enqueue(task, { number });
    const dueAtMs = Date.now() + delayMs;
    note({ is: "delayed", task, dueAtMs });
    return manager.enqueue(task, { number }, { dueAt: new Date(dueAtMs) });
  };
  const sent = events.flatMap(({ id, copies, ...event }) =>
    Array.from({ length: copies }, (_, copy): Sending => {
      // In every other task, all copies of an event are sent at the same moment.
      const lateMs = number % 2 === 0 ? 0 : copy * 2000;
      return {
        atMs: event.atMs + lateMs,
        fact: { is: "eventSent", task, id, copy },
        send: () => manager.send(task, EVENT, { answer: id }, { id, by: name }),
      };
    }),
  );
  return [{ atMs, fact: { is: "enqueued", task }, send: enqueue }, ...sent];
}

async function untilDone(send: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await send();
      return;
    } catch (error) {
      note({ is: "error", task: "", code: codeOf(error), message: `${error}` });
      if (codeOf(error) !== "STORAGE_FAILED") throw error;
      await pause(500);
    }
  }
}

function idOf(fact: Observation): string | undefined {
  if (fact.is === "enqueued") return fact.task;
  return fact.is === "eventSent" ? JSON.stringify([fact.task, fact.id, fact.copy]) : undefined;
}
