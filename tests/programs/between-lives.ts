// Changes a task between two lives.
import type { CheckpointManager, TaskRecord } from "waymark";
import { type RunNote, readRunNote } from "../../src/contract/run-note.js";
import { parseRunKey, stepTitle } from "../../src/contract/run-record.js";
import { readRun } from "../../src/runs/run-view.js";
import { collect } from "../support/collect.js";
import type { Life } from "./cases.js";
import { errorCode } from "./error-code.js";
import type { Seen } from "./seen.js";
import type { ProgramState } from "./walk.js";

/** Makes the change. Resolves to the lines to note and to the violations. */
export async function changeBetween(
  manager: CheckpointManager,
  task: string,
  { first, at }: Life,
  newFork: () => string,
): Promise<Seen | string | undefined> {
  if (first === undefined || first === "restart" || !(await manager.has(task))) return undefined;
  const records = await collect(manager.records(task));
  // Half of the chosen records are near the end, where a run may have failed.
  const chosen = at % 2 === 0 ? records[at % records.length] : records.at(-1 - (at % 3));
  if (chosen === undefined) return undefined;
  const events = (await manager.events(task)).map(({ id }) => id);
  try {
    if (first === "retry") return await retry(manager, task, at);
    if (first === "refuse") return await refuse(manager, task, at % 2 === 0);
    const branch = first === "fork" ? newFork() : task;
    const point = await pointAt(manager, task, chosen);
    if (first === "fork") await manager.fork(task, chosen.sequence, branch);
    else await manager.rewind(task, chosen.sequence);
    const copied = new Set((await manager.events(branch)).map(({ id }) => id));
    const missing = events.filter((id) => !copied.has(id));
    if (missing.length > 0) return `${branch} branched off ${task} without its events ${missing}`;
    return await noteBranch(manager, task, branch, point);
  } catch (error) {
    // A task may have only events, and a cancelled task stays cancelled.
    if (!["CHECKPOINT_NOT_FOUND", "RUN_CANCELLED"].includes(errorCode(error))) throw error;
    return undefined;
  }
}

/** If the run has failed, drops its results, starting with one of its steps. */
async function retry(manager: CheckpointManager, task: string, at: number): Promise<Seen | string | undefined> {
  const newest = await manager.latest(task);
  const run = newest && (await readRun(manager, newest));
  const ended = run?.steps.filter(({ status }) => status === "completed" || status === "failed") ?? [];
  const step = ended[at % ended.length];
  if (newest?.status !== "failed" || run === undefined || step === undefined) return undefined;
  const from = stepTitle(step.name, step.occurrence);
  await manager.retry(task, { from });
  const { error } = (await manager.latest(task)) ?? {};
  if (error?.message !== newest.error?.message) return `${task} was retried, and shows the error ${error?.message}`;
  return { is: "dropped", task, generation: run.generation, at: turnIn(newest.state), from };
}

/** Checks that another version or input is refused, and that nothing is called. */
async function refuse(manager: CheckpointManager, task: string, isInput: boolean): Promise<string | undefined> {
  const other = isInput ? ({ input: { order: 8 }, ifVersionChanged: "resume" } as const) : { version: "another" };
  const refused = await manager.run(task, () => "ran", other).catch((error: unknown) => errorCode(error));
  // A completed run returns its result.
  return refused === "ran" ? `${task} ran with ${JSON.stringify(other)}` : undefined;
}

/** Returns the run's turn at a record. */
async function pointAt(
  manager: CheckpointManager,
  task: string,
  record: TaskRecord,
): Promise<Pick<RunNote, "turn" | "isOver"> | undefined> {
  const key = "recordKey" in record ? parseRunKey(record) : undefined;
  if (key !== undefined) return key;
  const checkpoints = await collect(manager.records(task, { kinds: ["checkpoint"] }));
  const newest = checkpoints.findLast(({ sequence }) => sequence <= record.sequence) ?? checkpoints[0];
  return newest !== undefined && "status" in newest ? readRunNote(newest) : undefined;
}

/** Notes the answers that the branch has copied: all results of the same turn up to the branch's point. */
async function noteBranch(
  manager: CheckpointManager,
  from: string,
  task: string,
  point: Pick<RunNote, "turn" | "isOver"> | undefined,
): Promise<Seen | string | undefined> {
  const newest = await manager.latest(task);
  const run = newest && (await readRun(manager, newest));
  if (newest === undefined || run === undefined) return undefined;
  const isOver = point?.isOver === true;
  const turn = point && point.turn + Number(isOver);
  if (run.turn !== turn) return `${task} branched off ${from} in turn ${run.turn}, not ${turn}`;
  const undecided = await listUndecided(manager, task, run.generation);
  const carried = run.steps.flatMap(({ status, name, occurrence, waitsFor, event, result }) => {
    if (status !== "completed" || (event && undecided.includes(event.id))) return [];
    const ended = waitsFor === "sleep" ? "slept" : "nobody";
    const value = event ? `event ${event.id}` : waitsFor ? ended : String(result);
    return [[stepTitle(name, occurrence), value] as const];
  });
  return {
    is: "branched",
    task,
    from,
    generation: run.generation,
    at: turnIn(newest.state),
    isOver,
    carried,
    undecided,
  };
}

/** Lists events for which it is unknown whether the function got them or the wait's signal aborted first. */
async function listUndecided(manager: CheckpointManager, task: string, generation: string): Promise<readonly string[]> {
  const undecided = new Map<number, string>();
  for await (const record of manager.records(task, { kinds: ["step", "mark"] })) {
    const key = "recordKey" in record ? parseRunKey(record) : undefined;
    if (key?.generation !== generation || key.event === undefined || !("value" in record)) continue;
    const { hasSignal, event } = (record.value ?? {}) as { hasSignal?: true; event?: { id: string } };
    if (record.kind === "mark") undecided.delete(key.event);
    else if (hasSignal && event) undecided.set(key.event, event.id);
  }
  return [...undecided.values()];
}

function turnIn(state: unknown): number {
  return (state as ProgramState | undefined)?.at ?? 0;
}
