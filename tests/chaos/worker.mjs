// @ts-check
// A worker of a chaos run. It may be killed, stopped or cut off at any moment.
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager } from "waymark";
import { openLedger } from "./ledger.mjs";
import { MAX_ATTEMPTS, PLANNED_FAILURE, PREFIX, planOf, SIGNAL, STEPS } from "./plan.mjs";
import { observed, openStorage } from "./store.mjs";

/**
 * What a process of a chaos run is told.
 *
 * @typedef {{
 *   name: string, storage: import("./store.mjs").StorageName, place: string, ledgers: string,
 *   seed: number, tasks: number, spreadMs: number, ttlMs: number, beganAtMs: number,
 * }} Told
 */

/** @typedef {import("waymark").Run<State | undefined, State, { number: number }>} ChaosRun */
/** @typedef {{ from: number, values: string[] }} State */

/** @type {Told} */
const { name, storage, place, ledgers, seed, spreadMs, ttlMs } = JSON.parse(process.argv[2] ?? "");
// The parent's end closes the pipe.
process.stdin.resume().once("end", () => process.exit(1));

const note = openLedger(ledgers, name);
const manager = new CheckpointManager({ storage: observed(await openStorage(storage, place), note) });
manager.on("runStarted", ({ taskId, attempt }) => note({ is: "started", task: taskId, attempt }));
let values = 0;
await manager.work(
  {
    ...{ prefix: PREFIX, concurrency: 4, maxAttempts: MAX_ATTEMPTS, lease: { ttlMs } },
    onError: (error, task = "") => {
      const { code, name: kind, message } = /** @type {Error & { code?: string }} */ (error);
      note({ is: "error", task, code: code ?? kind, message });
    },
  },
  (run) => turn(/** @type {never} */ (run)),
);
await manager.close();
process.exit();

/** One pass. @param {ChaosRun} run */
async function turn(run) {
  const plan = planOf(seed, run.input.number, spreadMs);
  const { from, values: before } = run.state ?? { from: 0, values: [] };
  const got = [...before];
  for (let at = from; at < STEPS; at++) {
    const step = plan.steps[at];
    if (step === undefined) break;
    if (at === STEPS - 1 && plan.ends !== "completed") await end(run, plan.ends);
    const other = plan.steps[at + 1];
    // Two waits for signals of one name can't overlap.
    if (
      step.withNext &&
      other !== undefined &&
      at + 1 < STEPS - 1 &&
      !(step.kind === "wait" && other.kind === "wait")
    ) {
      got.push(...(await Promise.all([value(run, at, step), value(run, at + 1, other)])));
      at += 1;
    } else got.push(await value(run, at, step));
    const state = { from: at + 1, values: got };
    if (step.savesAfter) await run.save(state, { stage: `after ${at}` });
    if (step.endsPass && at < STEPS - 1) return run.next(state);
  }
  return got;
}

/**
 * The value of a step, the same one at each attempt.
 *
 * @param {ChaosRun} run
 * @param {number} at
 * @param {import("./plan.mjs").PlannedStep} step
 */
async function value(run, at, step) {
  const found = await performed(run, at, step);
  note({ is: "got", task: run.taskId, step: at, value: found, nowMs: Date.now() });
  return found;
}

/** @param {ChaosRun} run @param {number} at @param {import("./plan.mjs").PlannedStep} step @returns {Promise<string>} */
async function performed(run, at, { kind, ms, failures }) {
  const title = `step ${at}`;
  const ran = (/** @type {{ key: string }} */ { key }) => {
    const made = `${name} ${++values}`;
    note({ is: "ran", task: run.taskId, step: at, key, value: made });
    return made;
  };
  switch (kind) {
    case "quick":
      return run.step(title, ran);
    case "slow":
      return run.step(title, async (call) => {
        await pause(ms, undefined, { signal: call.signal });
        return ran(call);
      });
    case "flaky":
      return run.step(
        title,
        (call) => {
          if (call.attempt <= failures) throw new Error(`Try ${call.attempt} fails.`);
          return ran(call);
        },
        { retry: { times: failures, backoffMs: 20 } },
      );
    case "caught":
      try {
        return await run.step(title, (call) => {
          throw Object.assign(new Error(ran(call)), { name: "RefusedError" });
        });
      } catch (error) {
        if (!(error instanceof Error && error.name === "RefusedError")) throw error;
        return error.message;
      }
    case "once":
      try {
        return await run.step(title, ran, { atMostOnce: true });
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "STEP_INTERRUPTED")) throw error;
        return "interrupted";
      }
    case "sleep": {
      const untilMs = Date.now() + ms;
      note({ is: "asked", task: run.taskId, step: at, untilMs });
      await run.sleepUntil(title, new Date(untilMs));
      return "slept";
    }
    case "wait":
      return (await run.waitFor(SIGNAL)).id;
    case "timeout":
      return (await run.waitFor(title, { timeoutMs: ms })) === undefined ? "nobody" : "somebody";
  }
}

/** @param {ChaosRun} run @param {"failed" | "poison"} how @returns {Promise<never>} */
function end(run, how) {
  return run.step("end", () => {
    if (how === "poison") process.kill(process.pid, "SIGKILL");
    throw new Error(PLANNED_FAILURE);
  });
}
