// A worker of a chaos run. It may be killed, stopped or cut off at any moment.
import { writeSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager, type NextTurn, type Run, type StepCall } from "waymark";
import { recorded } from "./history.js";
import { openLedger } from "./ledger.js";
import {
  CHILD_STEPS,
  childTaskId,
  EVENT,
  groupsOf,
  MAX_ATTEMPTS,
  PLANNED_FAILURE,
  type PlannedStep,
  PREFIX,
  planOf,
  STEPS,
} from "./plan.js";
import { observed, openStorage } from "./store.js";
import { codeOf, told } from "./told.js";

/** The state of a run: the number of its next step, and the values of the steps before it. */
interface State {
  readonly from: number;
  readonly values: readonly string[];
}

type ChaosRun = Run<unknown, unknown, { readonly number: number }>;
/** A task's run, or a child run of one of its steps. */
type StepsRun = Pick<ChaosRun, "taskId" | "step" | "sleepUntil" | "waitFor">;

/** The value of a race that the tick has won. */
const LOST = "lost";
/** Whether this process stops itself before its next save, which is then sent after its lease has expired. */
let stopsBeforeSave = false;
const { name, storage, place, ledgers, histories, seed, spreadMs, ttlMs } = told(() => {
  stopsBeforeSave = true;
});
const note = openLedger(ledgers, name);
const store = observed(recorded(openStorage(storage, place), histories, name), note, () => {
  if (!stopsBeforeSave) return;
  stopsBeforeSave = false;
  // The parent lets it continue.
  writeSync(1, "stopped\n");
  process.kill(process.pid, "SIGSTOP");
});
const manager = new CheckpointManager({ storage: store });
manager.on("runStarted", ({ taskId, attempt }) => note({ is: "started", task: taskId, attempt, nowMs: Date.now() }));
let calls = 0;
await manager.work<{ readonly number: number }>(
  {
    prefix: PREFIX,
    concurrency: 4,
    maxAttempts: MAX_ATTEMPTS,
    leaseOptions: { ttlMs },
    onError: (error, task = "") => note({ is: "error", task, code: codeOf(error), message: `${error}` }),
  },
  pass,
);
await manager.close();
process.exit();

async function pass(run: ChaosRun): Promise<readonly string[] | NextTurn> {
  note({ is: "called", task: run.taskId });
  const plan = planOf(seed, run.input.number, spreadMs);
  const { from, values } = (run.state as State | undefined) ?? { from: 0, values: [] };
  const got = [...values];
  for (const { first, last, save, next } of groupsOf(plan.steps)) {
    if (first < from) continue;
    if (last === STEPS - 1 && plan.ends !== "completed") await end(run, plan.ends);
    const steps = plan.steps.slice(first, last + 1);
    const made = await Promise.all(steps.map((step, n) => value(run, first + n, step)));
    // If the event has come meanwhile, the next turn receives it.
    if (made.includes(LOST)) return run.next({ from: first, values: got }, { label: "Ticked" });
    got.push(...made);
    const state: State = { from: last + 1, values: got };
    if (save !== undefined) await run.save(state, { stage: "saved", label: save });
    if (next !== undefined) return run.next(state, { label: next });
  }
  return got;
}

async function childTurn(run: StepsRun): Promise<readonly string[]> {
  const got: string[] = [];
  for (const [at, step] of CHILD_STEPS.entries()) got.push(await value(run, at, step));
  return got;
}

/** Returns the value of a step, which is the same in each attempt; {@link LOST} if a tick came first. */
async function value(run: StepsRun, at: number, step: PlannedStep): Promise<string> {
  const found = await performed(run, at, step);
  note(
    found === LOST
      ? { is: "ticked", task: run.taskId }
      : { is: "got", task: run.taskId, step: at, value: found, nowMs: Date.now() },
  );
  return found;
}

async function performed(run: StepsRun, at: number, { kind, ms, failures }: PlannedStep): Promise<string> {
  const title = `step ${at}`;
  const ran = ({ key }: StepCall) => {
    calls += 1;
    const made = `${name} ${calls}`;
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
    case "flaky": {
      const flaky = (call: StepCall) => {
        if (call.attempt <= failures) throw new Error(`Try ${call.attempt} fails.`);
        return ran(call);
      };
      return run.step(title, flaky, { retry: { times: failures, backoffMs: 20 } });
    }
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
        if (codeOf(error) !== "STEP_INTERRUPTED") throw error;
        return "interrupted";
      }
    case "sleep": {
      const untilMs = Date.now() + ms;
      note({ is: "asked", task: run.taskId, step: at, untilMs });
      await run.sleepUntil(title, new Date(untilMs));
      return "slept";
    }
    case "wait":
      return (await run.waitFor(EVENT)).id;
    case "race": {
      const tick = run.sleepUntil(`${title} tick`, new Date(Date.now() + ms)).then(() => LOST);
      return Promise.race([run.waitFor(EVENT).then(({ id }) => id), tick]);
    }
    case "timeout":
      note({ is: "asked", task: run.taskId, step: at, untilMs: Date.now() + ms });
      return (await run.waitFor(title, { timeoutMs: ms })) === undefined ? "nobody" : "somebody";
    case "child":
      return run.step(title, async ({ key }) => {
        const values = await manager.run(childTaskId(run.taskId, at), childTurn);
        const made = values.join(", ");
        note({ is: "ran", task: run.taskId, step: at, key, value: made });
        return made;
      });
  }
}

function end(run: ChaosRun, how: "failed" | "poison"): Promise<never> {
  return run.step("end", () => {
    if (how === "poison") {
      note({ is: "died", task: run.taskId });
      process.kill(process.pid, "SIGKILL");
    }
    throw new Error(PLANNED_FAILURE);
  });
}
