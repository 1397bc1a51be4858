import { parseRunBody, type RunBody, type RunHead } from "../codec/run-body.js";
import { RunCancelledError, RunMismatchError } from "../contract/errors.js";
import { isCancelled, isTransient } from "../contract/transient.js";
import type { CheckpointText } from "../manager/reader.js";
import type { RunOptions } from "./run.js";
import type { RunStore } from "./run-store.js";
import { canonicalText, StepValues } from "./step-values.js";

/** The state of a run that isn't completed, when an attempt begins. */
export interface RunState extends Omit<RunBody, "head" | "result"> {
  readonly isCompleted: false;
  /** Whether a run saved the task's newest checkpoint. */
  readonly isOfRun: boolean;
  /** If `generation` is "", the run is new, and the first save's id becomes its generation. */
  readonly head: Omit<RunHead, "id" | "isTurnOver">;
  readonly stage: string | undefined;
  /** The sequence of the task's newest checkpoint; 0 if there is none, `undefined` if damage hides it. */
  readonly sequence: number | undefined;
  /** The id of the task's transient checkpoint, which the next save replaces. */
  readonly transientId: string | undefined;
}

interface CompletedRun {
  readonly isCompleted: true;
  readonly result: unknown;
}

/** The task to read, and from where. */
interface Reading {
  readonly store: RunStore;
  readonly taskId: string;
  readonly options: RunOptions;
}

/**
 * Reads the state of a task's run.
 *
 * @throws {RunMismatchError} The run began with another version or input.
 * @throws {RunCancelledError} The run was cancelled.
 */
export async function readRunState(reading: Reading): Promise<RunState | CompletedRun> {
  const { store, taskId, options } = reading;
  const newest = await store.reader.newestText(taskId);
  if (newest === undefined) return beginRun(reading, { sequence: 0 });
  const { summary } = newest;
  const last = {
    // If damage hides the newest sequence, the first save has no condition.
    sequence: newest.newest === 0 ? undefined : newest.newest,
    transientId: isTransient(summary) ? summary.id : undefined,
    stage: summary.stage,
  };
  if (options.restart) return beginRun(reading, last);
  if (isCancelled(summary)) throw new RunCancelledError(taskId, summary.error?.message ?? "");
  const body = parseBody(newest);
  if (summary.status === "completed") {
    if (body !== undefined) assertInput(reading, body.input);
    const result = body?.result && new StepValues(taskId, store.options).decodeRunValue("result", body.result);
    return { isCompleted: true, result };
  }
  if (body !== undefined) return { ...resumeRun(reading, newest, body, last), isOfRun: true };
  // The newest checkpoint wasn't saved by a run. So the run continues with its state, in a new turn.
  const transientId = last.transientId ?? (await store.newestTransientId(taskId));
  const foreign = { ...last, transientId, state: store.migrateState(newest) };
  const interrupted = await store.newestTextOfRun(taskId);
  const former = interrupted && parseBody(interrupted);
  if (interrupted === undefined || former === undefined) return beginRun(reading, foreign);
  const head = { ...former.head, isTurnOver: true };
  return resumeRun(reading, interrupted, { ...former, head, state: undefined }, foreign);
}

/** What the task's newest checkpoint tells. With a `state`, no run saved it, and the next turn begins with this state. */
type Newest = Pick<RunState, "sequence"> & Partial<Pick<RunState, "transientId" | "stage" | "state">>;

function beginRun({ store, taskId, options }: Reading, newest: Newest): RunState {
  const { version, input, initialState } = options;
  return {
    isCompleted: false,
    isOfRun: false,
    head: { generation: "", attempt: 1, turn: 1, ...(version === undefined ? undefined : { version }) },
    input: input === undefined ? undefined : new StepValues(taskId, store.options).encodeRunValue("input", input),
    steps: [],
    transientId: undefined,
    stage: undefined,
    ...newest,
    state: newest.state ?? (initialState === undefined ? undefined : store.encodeState(taskId, initialState)),
  };
}

function resumeRun(reading: Reading, { summary }: CheckpointText, body: RunBody, newest: Newest): RunState {
  const { id, isTurnOver, version: recorded, nextToken, starts, ...head } = body.head;
  const { store, taskId, options } = reading;
  const { version, ifVersionChanged = "refuse" } = options;
  // An enqueued run gets the version of its first attempt.
  if (head.attempt > 0 && recorded !== version) {
    if (ifVersionChanged === "restart") return beginRun(reading, { ...newest, state: undefined });
    if (ifVersionChanged === "refuse") throw otherVersion(taskId, recorded, version);
  }
  assertInput(reading, body.input);
  // A fork or a rewind copies the record unchanged, so the id in a copied record differs from its checkpoint's id.
  const isCopy = id !== summary.id;
  const migrate = (text: string | undefined) =>
    text === undefined ? undefined : store.migrateState({ encoding: "json-tagged", text, summary });
  return {
    isCompleted: false,
    isOfRun: false,
    head: {
      ...head,
      generation: isCopy ? summary.id : head.generation,
      attempt: isCopy ? 1 : head.attempt + 1,
      turn: isTurnOver ? head.turn + 1 : head.turn,
      ...(version === undefined ? undefined : { version }),
      ...(nextToken === undefined || isCopy ? undefined : { nextToken, ...(starts && { starts }) }),
    },
    input: body.input,
    transientId: undefined,
    stage: undefined,
    steps: isTurnOver ? [] : body.steps,
    begin: isTurnOver ? undefined : migrate(body.begin),
    ...newest,
    state: newest.state ?? migrate(body.state),
  };
}

function parseBody({ encoding, text, summary }: CheckpointText): RunBody | undefined {
  return encoding === "json-run" ? parseRunBody(text, summary) : undefined;
}

function assertInput({ store, taskId, options }: Reading, recorded: string | undefined): void {
  const { input } = options;
  if (input === undefined) return;
  const text = new StepValues(taskId, store.options).encodeRunValue("input", input);
  if (recorded !== undefined && canonicalText(recorded) === canonicalText(text)) return;
  const other = recorded === undefined ? "without an input" : "with another input";
  throw new RunMismatchError(
    taskId,
    `The run of task ${JSON.stringify(taskId)} began ${other}. Nothing was run or changed. Leave the input out to keep the ` +
      "recorded one, or use another task id for another input. To start over, pass `restart: true` to `manager.run`, or " +
      "remove the task (`waymark delete`) and enqueue it again.",
  );
}

function otherVersion(
  taskId: string,
  recorded: string | number | undefined,
  current: string | number | undefined,
): RunMismatchError {
  const withVersion = (version: string | number | undefined) =>
    version === undefined ? "without a version" : `with version ${JSON.stringify(version)}`;
  return new RunMismatchError(
    taskId,
    `The run of task ${JSON.stringify(taskId)} began ${withVersion(recorded)}, and is called ${withVersion(current)} now. ` +
      'Nothing was run or changed. Pass `ifVersionChanged: "resume"` to continue with the recorded steps, or `ifVersionChanged: "restart"` to start over.',
  );
}
