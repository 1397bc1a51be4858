// @ts-check
import { CheckpointManager } from "waymark";
import { openBareStores } from "./bare-stores.mjs";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

/** The events of one task. */
const COUNT = Number(process.env["EVENTS"] ?? 50_000);
/** The number of events in a turn of the run without pauses. The run with pauses begins a new turn at each event. */
const EVENTS_OF_A_TURN = 100;

/** The number of events that each side of a comparison receives. */
const ROUNDS = 500;

/**
 * Sends events to one task, each once the task has received the previous one. Then measures further events to that task
 * in turns with events to a new task.
 *
 * @param {string} folder
 */
export async function benchEvents(folder) {
  for await (const store of openBareStores(folder, "events")) {
    // Each commit would cost a sync of the disk, whatever the task.
    if (store.kind === "full") continue;
    const count = COUNT.toLocaleString("en");
    printHeading(`An event to a task that has received ${count}, to one to a new task, on ${store.title}`);
    const manager = new CheckpointManager({ storage: store.open() });
    await compare("sent and received, in one process", inOneRun(manager, "old-run"), inOneRun(manager, "new-run"));
    const what = "sent and received, with a pause of the run between all";
    await compare(what, withPauses(manager, "old-pauses"), withPauses(manager, "new-pauses"));
    await manager.close();
  }
}

/**
 * @param {string} what
 * @param {AsyncGenerator<unknown, unknown>} old
 * @param {AsyncGenerator<unknown, unknown>} fresh
 */
async function compare(what, old, fresh) {
  for (let received = 0; received < COUNT; received++) await old.next();
  const { ours, bare } = await medians({ ours: () => old.next(), bare: () => fresh.next() }, { rounds: ROUNDS });
  printRow({ what, measuredMs: ours, againstMs: bare, limit: 1.3 });
  for (const side of [old, fresh]) await side.return(undefined);
}

/**
 * Sends events to a run that receives one after another. Yields after each event.
 *
 * @param {CheckpointManager} manager
 * @param {string} taskId
 */
async function* inOneRun(manager, taskId) {
  const stop = new AbortController();
  /** @type {() => void} */
  let received = () => undefined;
  const running = manager.run(
    taskId,
    async (run) => {
      for (let left = EVENTS_OF_A_TURN; left > 0; left--) {
        await run.waitFor("message");
        received();
      }
      return run.next({});
    },
    { signal: stop.signal },
  );
  try {
    for (let number = 0; ; number++) {
      /** @type {Promise<void>} */
      const receipt = new Promise((resolve) => {
        received = resolve;
      });
      await manager.send(taskId, "message", { number });
      await receipt;
      yield;
    }
  } finally {
    stop.abort();
    await untilPaused(running);
  }
}

/**
 * Sends events to a run that pauses after each event. Yields after each event.
 *
 * @param {CheckpointManager} manager
 * @param {string} taskId
 */
async function* withPauses(manager, taskId) {
  for (let number = 0; ; number++) {
    await manager.send(taskId, "message", { number });
    const stop = new AbortController();
    const stopListening = manager.on("waitStarted", () => stop.abort());
    const running = manager.run(
      taskId,
      async (run) => {
        await run.waitFor("message");
        return run.next({});
      },
      { signal: stop.signal },
    );
    await untilPaused(running);
    stopListening();
    yield;
  }
}

/** @param {Promise<unknown>} running */
async function untilPaused(running) {
  await running.catch((error) => {
    if (error.code !== "RUN_PAUSED") throw error;
  });
}
