// A process that executes random programs. It may be killed, stopped or drained at any moment.
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager, type Run } from "waymark";
import { realRuntime } from "../../src/contract/runtime.js";
import { recorded } from "../chaos/history.js";
import { openStorage } from "../chaos/store.js";
import { recordingLogger } from "../support/recording-logger.js";
import { disturbed } from "./disturbed.js";
import { errorCode } from "./error-code.js";
import { executeTurn, LONG_STEP_MS, type World } from "./execute.js";
import { openSeen } from "./ledger.js";
import { CALLED, chance, isOuter, programOf, type Told, WORKED } from "./told.js";
import { isPlanned, type ProgramState } from "./walk.js";

/** The errors with which a run may end if its process is stopped or its task is changed by others. */
const EXPECTED: ReadonlySet<string> = new Set([
  "LEASE_LOST",
  "LEASE_HELD",
  "RUN_PAUSED",
  "RUN_CANCELLED",
  "CHECKPOINT_CONFLICT",
]);
/** A task fails forever if nothing ran in this many failures in a row. */
const STUCK_AFTER = 3;

// The pipe closes when the parent ends.
process.stdin.resume().once("end", () => process.exit(1));
const { name, role, storage, place, seed, ttlMs, code, seen, histories } = JSON.parse(process.argv[2] ?? "") as Told;
const note = openSeen(seen, name);
const observed = disturbed(
  recorded(openStorage(storage, place), histories, name),
  undefined,
  async () => undefined,
  true,
);
const logger = recordingLogger();
const manager = new CheckpointManager({ storage: observed.storage, logger });
const stopping = new AbortController();
process.once("SIGTERM", () => stopping.abort());
/** The environments of functions, by the signals of their attempts. */
const worlds = new WeakMap<AbortSignal, World>();
/** The lives that have called a step's function. */
const busy = new Set<string>();
const lives = new Map<string, string>();
let count = 0;

if (role === "work") await work();
else await runAll();
await manager.close();
process.exit();

async function work(): Promise<void> {
  const onError = (error: unknown, task: string | undefined) => {
    if (task !== undefined) void noteEnd(task, error);
  };
  await manager.work(
    {
      prefix: WORKED,
      concurrency: 4,
      maxAttempts: 1000,
      leaseOptions: { ttlMs },
      version: code,
      ifVersionChanged: "resume",
      signal: stopping.signal,
      onError,
    },
    execute,
  );
}

/** Calls `manager.run` for all tasks again and again, while other processes do the same. */
async function runAll(): Promise<void> {
  const { pick } = chance(seed + process.pid);
  /** For each task, the number of failures in a row in which nothing ran. */
  const idle = new Map<string, number>();
  while (!stopping.signal.aborted) {
    const listed = await manager.tasks({ prefix: CALLED });
    const left = listed.filter(
      ({ taskId, newest }) => newest.status !== "completed" && isOuter(taskId) && idle.get(taskId) !== STUCK_AFTER,
    );
    const task = pick(left)?.taskId;
    const error = task === undefined ? undefined : await runOne(task);
    if (task === undefined || errorCode(error) === "LEASE_HELD") {
      await pause(50, undefined, { signal: stopping.signal }).catch(() => undefined);
      continue;
    }
    const life = noteEnd(task, error);
    const isIdle = isPlanned(error) && life !== undefined && !busy.has(life);
    idle.set(task, isIdle ? (idle.get(task) ?? 0) + 1 : 0);
    if (idle.get(task) === STUCK_AFTER) note({ is: "stuck", task });
  }
}

/** Runs a task. Resolves to the error of the run, or to `undefined` if the run has completed. */
async function runOne(task: string): Promise<unknown> {
  try {
    const restart = (await manager.latest(task))?.error?.name === "RunCancelledError";
    await using lease = await manager.lease(task, { ttlMs });
    const options = { version: code, ifVersionChanged: "resume", restart, lease, signal: stopping.signal } as const;
    await manager.run(task, execute, options);
    return undefined;
  } catch (error) {
    return error;
  }
}

function execute(run: Run): Promise<unknown> {
  const world = worlds.get(run.signal) ?? begin(run);
  return executeTurn(programOf(seed, run.taskId, code), run as Run<ProgramState>, world);
}

function begin({ taskId, signal }: Run): World {
  count += 1;
  const life = `${name}.${count}`;
  const world: World = {
    life,
    code,
    input: code > 2 ? 2 : 1,
    made: 0,
    deadline: count % 2 === 0 ? new AbortController().signal : AbortSignal.abort(new RangeError("planned abort")),
    manager,
    runtime: realRuntime,
    generationOf: (task) => observed.generationOf(task),
    isRecorded: () => isRecorded(taskId),
    note: (line) => {
      if (line.is === "body") busy.add(life);
      note(line);
    },
    send: async (task, { name: event }) => note({ is: "asked", task, event }),
    lasting: () => pause(LONG_STEP_MS),
    asked: (task, { name: event }) => note({ is: "asked", task, event }),
  };
  worlds.set(signal, world);
  lives.set(taskId, life);
  return world;
}

/** Notes the end of the task's life. Returns the life. */
function noteEnd(task: string, error: unknown): string | undefined {
  const life = lives.get(task);
  lives.delete(task);
  if (error === undefined) return life;
  if (life !== undefined)
    note({ is: "ended", life, task, how: isPlanned(error) && isRecorded(task) ? "failed" : "stopped" });
  if (!EXPECTED.has(errorCode(error)) && !isPlanned(error)) note({ is: "surprised", task, error: `${error}` });
  return life;
}

function isRecorded(task: string): boolean {
  return !logger.lines.some(
    ({ message, details }) =>
      message.includes("could not be recorded") && "taskId" in details && details.taskId === task,
  );
}
