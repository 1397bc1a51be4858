import { parseRunBody, type RunBody, type RunHead } from "../codec/run-body.js";
import { RunCancelledError, RunMismatchError } from "../contract/errors.js";
import { isCancelled, isTransient } from "../contract/transient.js";
import type { CheckpointText } from "../manager/reader.js";
import type { RunOptions } from "./run.js";
import type { RunStore } from "./run-store.js";
import { canonicalText, StepValues } from "./step-values.js";

/** Where a run stands when an attempt begins. */
export interface Standing extends Omit<RunBody, "head" | "result"> {
  /** If `generation` is "", the run is new, and the first save's id becomes its generation. */
  readonly head: Omit<RunHead, "id" | "isTurnOver">;
  readonly stage: string | undefined;
  /** The sequence of the task's newest checkpoint; 0 if there is none, `undefined` if damage hides it. */
  readonly sequence: number | undefined;
  /** The id of the task's transient checkpoint, which the next save replaces. */
  readonly transientId: string | undefined;
}

/** Where the task stands: its run is completed, or continues from `standing`. */
export type Found =
  | { readonly isCompleted: true; readonly result: unknown }
  | {
      readonly isCompleted: false;
      readonly isNew: boolean;
      /** Whether a run saved the task's newest checkpoint. */
      readonly isOfRun: boolean;
      readonly standing: Standing;
    };

type Unfinished = Extract<Found, { readonly isCompleted: false }>;

/** What a task's standing is read for, and from. */
interface Reading {
  readonly store: RunStore;
  readonly taskId: string;
  readonly options: RunOptions;
}

/**
 * Reads where the task stands.
 *
 * @throws {RunMismatchError} The run began with another version or input.
 * @throws {RunCancelledError} The run was cancelled.
 */
export async function readStanding(reading: Reading): Promise<Found> {
  const { store, taskId, options } = reading;
  const newest = await store.newestText(taskId);
  if (newest === undefined) return begin(reading, { sequence: 0 });
  const { summary } = newest;
  const place = {
    // If damage hides the newest sequence, the first save has no condition.
    sequence: newest.newest === 0 ? undefined : newest.newest,
    transientId: isTransient(summary) ? summary.id : undefined,
    stage: summary.stage,
  };
  if (options.restart) return begin(reading, place);
  if (isCancelled(summary)) throw new RunCancelledError(taskId, summary.error?.message ?? "");
  const body = parseBody(newest);
  if (summary.status === "completed") {
    if (body !== undefined) assertInput(reading, body.input);
    const result = body?.result && new StepValues(taskId, store.options).valueOf("result", body.result);
    return { isCompleted: true, result };
  }
  if (body !== undefined) return { ...resume(reading, newest, body, place), isOfRun: true };
  // The newest checkpoint wasn't saved by a run. So the run continues with its state, in a new turn.
  const transientId = place.transientId ?? (await store.newestTransientId(taskId));
  const foreign = { ...place, transientId, state: store.migrateState(newest) };
  const interrupted = await store.newestTextOfRun(taskId);
  const former = interrupted && parseBody(interrupted);
  if (interrupted === undefined || former === undefined) return begin(reading, foreign);
  const head = { ...former.head, isTurnOver: true };
  return resume(reading, interrupted, { ...former, head, state: undefined }, foreign);
}

type Place = Pick<Standing, "sequence"> & Partial<Pick<Standing, "transientId" | "stage" | "state">>;

function begin({ store, taskId, options }: Reading, place: Place): Unfinished {
  const { version, input, initialState } = options;
  const standing: Standing = {
    head: { generation: "", attempt: 1, turn: 1, ...(version === undefined ? undefined : { version }) },
    input: input === undefined ? undefined : new StepValues(taskId, store.options).textOf("input", input),
    steps: [],
    transientId: undefined,
    stage: undefined,
    ...place,
    state: place.state ?? (initialState === undefined ? undefined : store.encodeState(taskId, initialState)),
  };
  return { isCompleted: false, isNew: true, isOfRun: false, standing };
}

/**
 * @param place - If it has a `state`, the newest checkpoint wasn't saved by a run, and the next turn begins with this
 *   state.
 */
function resume(reading: Reading, { summary }: CheckpointText, body: RunBody, place: Place): Unfinished {
  const { id, isTurnOver, version: recorded, nextToken, starts, ...head } = body.head;
  const { store, taskId, options } = reading;
  const { version, ifVersionChanged = "refuse" } = options;
  // An enqueued run gets the version of its first attempt.
  if (head.attempt > 0 && recorded !== version) {
    if (ifVersionChanged === "restart") return begin(reading, { ...place, state: undefined });
    if (ifVersionChanged === "refuse") throw otherVersion(taskId, recorded, version);
  }
  assertInput(reading, body.input);
  // A fork or a rewind copies the record unchanged, so the id in a copied record differs from its checkpoint's id.
  const isCopy = id !== summary.id;
  const migrate = (text: string | undefined) =>
    text === undefined ? undefined : store.migrateState({ encoding: "json-tagged", text, summary });
  const standing: Standing = {
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
    ...place,
    state: place.state ?? migrate(body.state),
  };
  return { isCompleted: false, isNew: false, isOfRun: false, standing };
}

function parseBody({ encoding, text, summary }: CheckpointText): RunBody | undefined {
  return encoding === "json-run" ? parseRunBody(text, summary) : undefined;
}

function assertInput({ store, taskId, options }: Reading, recorded: string | undefined): void {
  const { input } = options;
  if (input === undefined) return;
  const text = new StepValues(taskId, store.options).textOf("input", input);
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
  given: string | number | undefined,
): RunMismatchError {
  const withVersion = (version: string | number | undefined) =>
    version === undefined ? "without a version" : `with version ${JSON.stringify(version)}`;
  return new RunMismatchError(
    taskId,
    `The run of task ${JSON.stringify(taskId)} began ${withVersion(recorded)}, and is called ${withVersion(given)} now. ` +
      'Nothing was run or changed. Pass `ifVersionChanged: "resume"` to continue with the recorded steps, or `ifVersionChanged: "restart"` to start over.',
  );
}
