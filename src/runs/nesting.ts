import { AsyncLocalStorage } from "node:async_hooks";
import { processState } from "../contract/process-state.js";
import type { ParentPlace } from "../contract/transient.js";

/** A run under way. */
export interface ParentRun {
  readonly taskId: string;
  /** The number of the run's current turn. */
  readonly turn: number;
  /**
   * Called when a child run has recorded something. If this run has to save as well, resolves after that save. Never
   * rejects.
   */
  childSaved(): Promise<void>;
}

/** A call under way, and the call inside which it was made. */
interface Call {
  /** The object that makes the call: for a step, its turn. */
  readonly of: object;
  readonly name: string;
  readonly signal: AbortSignal;
  /** Given if the call is a run. */
  readonly run?: ParentRun | undefined;
  readonly outer: Call | undefined;
  isOver: boolean;
}

/** Shared, because a run of one copy of this package may begin inside a run of another copy. */
const CALLS = processState("calls.1", () => new AsyncLocalStorage<Call>());

/** Runs `work`. Inside it, the functions below find `call`. Returns the result of `work`, or a promise of it. */
export function runInCall<Result>(
  call: Omit<Call, "outer" | "isOver">,
  work: () => Result | PromiseLike<Result>,
): Result | Promise<Result> {
  const { of, name, signal, run } = call;
  const own: Call = { of, name, signal, run, outer: currentCall(), isOver: false };
  try {
    const result = CALLS.run(own, work);
    if (isThenable(result)) return untilOver(own, result);
    own.isOver = true;
    return result;
  } catch (error) {
    own.isOver = true;
    throw error;
  }
}

async function untilOver<Result>(call: Call, result: PromiseLike<Result>): Promise<Result> {
  try {
    return await result;
  } finally {
    call.isOver = true;
  }
}

function isThenable<Result>(value: Result | PromiseLike<Result>): value is PromiseLike<Result> {
  const mayHaveMethods = (typeof value === "object" && value !== null) || typeof value === "function";
  return mayHaveMethods && "then" in value && typeof value.then === "function";
}

/**
 * Returns the innermost call under way. Skips calls that are over, since timers and listeners that they left behind
 * still run inside them.
 */
function currentCall(): Call | undefined {
  let call = CALLS.getStore();
  while (call?.isOver) call = call.outer;
  return call;
}

/**
 * Returns the name of the innermost call of the object `of` around the current code; `undefined` if there is none.
 *
 * @param name - Default: any name.
 */
export function findCallName(of: object, name?: string): string | undefined {
  let call = currentCall();
  while (call !== undefined && !(call.of === of && (name ?? call.name) === call.name)) call = call.outer;
  return call?.name;
}

/** The run around a child run, and the place in it at which the child run began. */
export interface Parent {
  readonly run: ParentRun;
  readonly place: ParentPlace;
}

/** Finds the innermost run around the current code. */
export function findParent(): Parent | undefined {
  let call = currentCall();
  let step: string | undefined;
  while (call !== undefined && call.run === undefined) {
    step = call.name;
    call = call.outer;
  }
  const run = call?.run;
  return run && { run, place: { taskId: run.taskId, turn: run.turn, ...(step !== undefined && { step }) } };
}

/** Returns the signal of the innermost call around the current code. */
export function currentSignal(): AbortSignal | undefined {
  return currentCall()?.signal;
}

/** @throws {TypeError} The call comes from inside the task's own run, whose next save would then be a conflict. */
export function assertOutsideRun(runs: object, what: string, taskId: string): void {
  if (findCallName(runs, taskId) === undefined) return;
  const id = JSON.stringify(taskId);
  throw new TypeError(
    `${what} was called for task ${id} inside that task's own run, so the run's next save would be a conflict. Nothing was ` +
      "changed. A run saves its state with run.save and run.next, outside of steps. Save progress under another task id, such as " +
      `${JSON.stringify(`${taskId}/progress`)}, and change the task's other checkpoints once the run has ended.`,
  );
}
