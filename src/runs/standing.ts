import { decodeJson, encodeJson } from "../codec/json.js";
import { parseRunBody, type RunBody } from "../codec/run-body.js";
import { RunCancelledError, RunMismatchError } from "../contract/errors.js";
import { isCancelled, isOfRun, isTransient } from "../contract/transient.js";
import type { CheckpointText } from "../manager/reader.js";
import type { AttemptHost, Standing } from "./journal.js";
import type { RunOptions } from "./run.js";
import { canonicalText, type StepValues } from "./step-values.js";

/** A task, and the parts of a manager that its run's standing is read from. */
export interface StandingHost extends Pick<AttemptHost, "options" | "reader" | "writer"> {
  readonly taskId: string;
  readonly values: StepValues;
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

/**
 * @throws {RunMismatchError} The run began with another version or input.
 * @throws {RunCancelledError} The run was cancelled.
 */
export async function standingOf(host: StandingHost, options: RunOptions): Promise<Found> {
  const { taskId, reader } = host;
  const newest = await reader.newestText(taskId);
  if (newest === undefined) return begun(host, options, { sequence: 0 });
  const { summary } = newest;
  const place = {
    // If damage hides the newest sequence, the first save has no condition.
    sequence: newest.newest === 0 ? undefined : newest.newest,
    transientId: isTransient(summary) ? summary.id : undefined,
    stage: summary.stage,
  };
  if (options.restart) return begun(host, options, place);
  if (isCancelled(summary)) throw new RunCancelledError(taskId, summary.error?.message ?? "");
  const body = bodyOf(newest);
  if (summary.status === "completed") {
    if (body !== undefined) assertInput(host, options, body.input);
    return { isCompleted: true, result: resultOf(body, host) };
  }
  if (body !== undefined) return { ...resumed(host, options, { ...newest, body }, place), isOfRun: true };
  // The newest checkpoint wasn't saved by a run. So the run continues with its state, in a new turn.
  const transient = place.transientId ?? (await reader.newestWhere(taskId, isTransient))?.id;
  const state = stateTextOf(host, newest);
  const before = await reader.newestWhere(taskId, isOfRun);
  if (before === undefined) return begun(host, options, { ...place, transientId: transient, state });
  const interrupted = await reader.textById(taskId, before.id);
  const former = bodyOf(interrupted);
  if (former === undefined) return begun(host, options, { ...place, transientId: transient, state });
  const head = { ...former.head, isTurnOver: true };
  const found = { ...interrupted, body: { ...former, head, state: undefined } };
  return resumed(host, options, found, { ...place, transientId: transient, state });
}

type Place = Pick<Standing, "sequence"> & Partial<Pick<Standing, "transientId" | "stage" | "state">>;

function begun(host: StandingHost, options: RunOptions, place: Place): Unfinished {
  const { version, input, initialState } = options;
  const initial = () => (initialState === undefined ? undefined : host.writer.stateText(host.taskId, initialState));
  const standing: Standing = {
    head: { generation: "", attempt: 1, turn: 1, ...(version === undefined ? undefined : { version }) },
    input: input === undefined ? undefined : host.values.textOf("input", input),
    steps: [],
    transientId: undefined,
    stage: undefined,
    ...place,
    state: place.state ?? initial(),
  };
  return { isCompleted: false, isNew: true, isOfRun: false, standing };
}

/**
 * @param place - If it has a `state`, the newest checkpoint wasn't saved by a run, and the next turn begins with this
 *   state.
 */
function resumed(
  host: StandingHost,
  options: RunOptions,
  found: CheckpointText & { readonly body: RunBody },
  place: Place,
): Unfinished {
  const { body, summary } = found;
  const { id, isTurnOver, version: _version, token, isEnd, starts, ...head } = body.head;
  const { version } = options;
  // An enqueued run gets the version of its first attempt.
  if (body.head.attempt > 0 && body.head.version !== version) {
    const { ifVersionChanged = "refuse" } = options;
    if (ifVersionChanged === "restart") return begun(host, options, { ...place, state: undefined });
    if (ifVersionChanged === "refuse") throw otherVersion(host.taskId, body.head.version, version);
  }
  assertInput(host, options, body.input);
  // A fork or a rewind copies the record unchanged, so the id in a copied record differs from its checkpoint's id.
  const isCopy = id !== summary.id;
  const standing: Standing = {
    head: {
      ...head,
      generation: isCopy ? summary.id : head.generation,
      attempt: isCopy ? 1 : head.attempt + 1,
      turn: isTurnOver ? head.turn + 1 : head.turn,
      ...(version === undefined ? undefined : { version }),
      ...(token === undefined || isCopy ? undefined : { token, isEnd: isEnd === true, ...(starts && { starts }) }),
    },
    input: body.input,
    transientId: undefined,
    stage: undefined,
    steps: isTurnOver ? [] : body.steps,
    begin: isTurnOver || body.begin === undefined ? undefined : currentText(host, summary, body.begin),
    ...place,
    state: place.state ?? (body.state === undefined ? undefined : currentText(host, summary, body.state)),
  };
  return { isCompleted: false, isNew: false, isOfRun: false, standing };
}

function bodyOf({ encoding, text, summary }: CheckpointText): RunBody | undefined {
  return encoding === "json-run" ? parseRunBody(text, summary) : undefined;
}

function resultOf(body: RunBody | undefined, { values }: StandingHost): unknown {
  return body?.result === undefined ? undefined : values.valueOf("result", body.result);
}

/** The state of a checkpoint that no run saved, in the form that runs use. */
function stateTextOf(host: StandingHost, { encoding, text, summary }: CheckpointText): string {
  return textOfStored(host, summary, decodeJson(encoding, text, summary));
}

function currentText(host: StandingHost, summary: CheckpointText["summary"], text: string): string {
  if (summary.stateVersion === host.options.stateVersion) return text;
  return textOfStored(host, summary, decodeJson("json-tagged", text, summary));
}

function textOfStored(host: StandingHost, summary: CheckpointText["summary"], stored: unknown): string {
  return encodeJson(host.reader.migrated(summary, stored), Number.POSITIVE_INFINITY, summary).text;
}

function assertInput({ taskId, values }: StandingHost, { input }: RunOptions, recorded: string | undefined): void {
  if (input === undefined) return;
  if (recorded !== undefined && canonicalText(recorded) === canonicalText(values.textOf("input", input))) return;
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
