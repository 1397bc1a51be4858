// @ts-check
import { performance } from "node:perf_hooks";
import { CheckpointManager } from "waymark";
import { openBareStores } from "./bare-stores.mjs";
import { median } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

/** The events of one task. */
const COUNT = Number(process.env["EVENTS"] ?? 50_000);
/** Each of them begins a new turn in the loop with pauses, and every so many do in the other one. */
const EVENTS_OF_A_TURN = 100;

/** @typedef {{ readonly received: number }} State */

/**
 * Events that are sent to one task, one after another, each once the one before has been received. Compares the last
 * eighth of them with the first.
 *
 * @param {string} folder
 */
export async function benchEvents(folder) {
  for await (const store of openBareStores(folder, "events")) {
    // Its commits cost the same disk's sync each.
    if (store.kind === "full") continue;
    printHeading(`${COUNT.toLocaleString("en")} events to one task on ${store.title}`);
    const manager = new CheckpointManager({ storage: store.open() });
    report("sent and received, in one process", await receiveInOneRun(manager));
    report("sent and received, with a pause of the run between all", await receiveWithPauses(manager));
    await manager.close();
  }
}

/**
 * @param {CheckpointManager} manager
 * @returns {Promise<number[]>} The time from the send to the receipt of each event.
 */
async function receiveInOneRun(manager) {
  /** @type {number[]} */
  const times = [];
  let startMs = performance.now();
  let sent = 0;
  const send = () => {
    startMs = performance.now();
    return manager.send("one-run", "message", { number: ++sent });
  };
  await manager.run(
    "one-run",
    async (run) => {
      let { received } = /** @type {State} */ (run.state);
      for (let left = EVENTS_OF_A_TURN; left > 0 && received < COUNT; left--) {
        const sending = send();
        await run.waitFor("message");
        await sending;
        times.push(performance.now() - startMs);
        received += 1;
      }
      return received < COUNT ? run.next({ received }) : received;
    },
    { initialState: { received: 0 } },
  );
  return times;
}

/**
 * @param {CheckpointManager} manager
 * @returns {Promise<number[]>} The time from the send to the next pause, for each event.
 */
async function receiveWithPauses(manager) {
  /** @type {number[]} */
  const times = [];
  for (let sent = 0; sent < COUNT; sent++) {
    const startMs = performance.now();
    await manager.send("pauses", "message", { number: sent });
    const stop = new AbortController();
    const stopListening = manager.on("waitStarted", () => stop.abort());
    const running = manager.run(
      "pauses",
      async (run) => {
        await run.waitFor("message");
        const { received } = /** @type {State} */ (run.state);
        return run.next({ received: received + 1 });
      },
      { initialState: { received: 0 }, signal: stop.signal },
    );
    await running.catch((error) => {
      if (error.code !== "RUN_PAUSED") throw error;
    });
    stopListening();
    times.push(performance.now() - startMs);
  }
  return times;
}

/**
 * @param {string} what
 * @param {readonly number[]} times
 */
function report(what, times) {
  const [first, last] = [times.slice(0, times.length / 8), times.slice(-times.length / 8)].map(median);
  printRow({ what, measuredMs: last ?? 0, againstMs: first ?? 0, limit: 1.3 });
}
