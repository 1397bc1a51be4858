// @ts-check
// Enqueues the tasks of a chaos run, and sends their signals. It may be killed at any moment; the next one reads in the
// ledger what was acknowledged, and does the rest again.
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager } from "waymark";
import { factsIn, nowMs, openLedger } from "./ledger.mjs";
import { planOf, SIGNAL } from "./plan.mjs";
import { openStorage } from "./store.mjs";

/** @type {import("./worker.mjs").Told} */
const { name, storage, place, ledgers, seed, tasks, spreadMs, beganAtMs } = JSON.parse(process.argv[2] ?? "");
process.stdin.resume().once("end", () => process.exit(1));

const acknowledged = new Set(factsIn(ledgers).flatMap((fact) => idOf(fact) ?? []));
const note = openLedger(ledgers, name);
const manager = new CheckpointManager({ storage: await openStorage(storage, place) });

/** @type {{ atMs: number, fact: import("./ledger.mjs").Noted, send: () => Promise<unknown> }[]} */
const all = Array.from({ length: tasks }, (_, number) => {
  const { taskId, atMs, delayMs, signals } = planOf(seed, number, spreadMs);
  const options = () => (delayMs === 0 ? {} : { dueAt: new Date(Date.now() + delayMs) });
  return [
    {
      atMs,
      fact: /** @type {const} */ ({ is: "enqueued", task: taskId }),
      send: () => manager.enqueue(taskId, { number }, options()),
    },
    ...signals.flatMap(({ id, atMs: sentAtMs, copies }) =>
      Array.from({ length: copies }, (_, copy) => ({
        // Half of the copies are sent at the same moment.
        atMs: sentAtMs + (number % 2 === 0 ? 0 : copy * 2000),
        fact: /** @type {const} */ ({ is: "signalled", task: taskId, id, copy }),
        send: () => manager.signal(taskId, SIGNAL, { answer: id }, { id, by: name }),
      })),
    ),
  ];
}).flat();
const left = all.filter(({ fact }) => !acknowledged.has(idOf(fact) ?? "")).sort((a, b) => a.atMs - b.atMs);

/** @type {Set<Promise<void>>} */
const underWay = new Set();
for (const { atMs, fact, send } of left) {
  await pause(Math.max(0, beganAtMs + atMs - nowMs()));
  // What a killed sender left is not sent all at once.
  while (underWay.size >= 10) await Promise.race(underWay);
  const sending = untilDone(send)
    .then(() => note(fact))
    .finally(() => underWay.delete(sending));
  underWay.add(sending);
}
await Promise.all(underWay);
await manager.close();
process.exit();

/** @param {() => Promise<unknown>} send */
async function untilDone(send) {
  for (;;) {
    try {
      await send();
      return;
    } catch (error) {
      const { code, message } = /** @type {Error & { code?: string }} */ (error);
      note({ is: "error", task: "", code: code ?? "Error", message });
      if (code !== "STORAGE_FAILED") throw error;
      await pause(500);
    }
  }
}

/** @param {import("./ledger.mjs").Noted} fact */
function idOf(fact) {
  if (fact.is === "enqueued") return fact.task;
  return fact.is === "signalled" ? JSON.stringify([fact.task, fact.id, fact.copy]) : undefined;
}
