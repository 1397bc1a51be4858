import type { EncodedState } from "../codec/json.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointCorruptError, RunCancelledError, RunMismatchError } from "../contract/errors.js";
import {
  findTurnStart,
  leaveTurn,
  NOTHING_RECEIVED,
  type ReceivedEvents,
  type RunNote,
  readRunNote,
} from "../contract/run-note.js";
import { PAUSING, parseRunKey, stepTitle } from "../contract/run-record.js";
import { isCancelled, isTransient } from "../contract/transient.js";
import type { CheckpointText } from "../manager/reader.js";
import { RecordedTurn } from "./recorded-turn.js";
import type { RunOptions } from "./run.js";
import { RunEvents } from "./run-events.js";
import type { RunStore } from "./run-store.js";
import { canonicalText, NO_STATE, StepValues } from "./step-values.js";

/** The state of a run that isn't completed, as an attempt finds it. */
export interface RunState {
  readonly isCompleted: false;
  /** Whether a run saved the task's newest checkpoint. */
  readonly isOfRun: boolean;
  /**
   * The run's note, with the number of the new attempt. If `generation` is "", the run is new, and its first
   * checkpoint's id becomes the generation.
   */
  readonly note: RunNote;
  /**
   * The checkpoint that must be saved before the function begins: the turn's first one (`turn`), or one that records
   * that the run continues (`resume`); `undefined` if none must be saved.
   */
  readonly start: "turn" | "resume" | undefined;
  readonly input: EncodedState | undefined;
  /** The newest state. */
  readonly state: EncodedState;
  /** The state at the beginning of the turn. */
  readonly begin: EncodedState;
  /**
   * The steps of the turn that earlier attempts have recorded; `undefined` if the log has nothing after the turn's
   * checkpoint.
   */
  readonly steps: RecordedTurn | undefined;
  readonly newest: NewestCheckpoint;
  /** How many attempts in a row have recorded only their starts. */
  readonly crashes: number;
  /** The titles of the steps that the last of these attempts has started. */
  readonly running: readonly string[];
  /** The trace context of the former attempt, if it is known. */
  readonly previousTraceparent?: string | undefined;
}

/** The task's newest checkpoint. */
export interface NewestCheckpoint {
  readonly id: string | undefined;
  /** 0 if the task has none, `undefined` if damage hides it. */
  readonly sequence: number | undefined;
  /** The last known sequence of the task. */
  readonly last: number;
  readonly stage: string | undefined;
  /** The checkpoint's id if the checkpoint is transient. A later checkpoint then replaces it. */
  readonly transientId: string | undefined;
}

interface CompletedRun {
  readonly isCompleted: true;
  readonly result: unknown;
}

/** The task to read, its storage, and the options of the run. */
interface Reading {
  readonly store: RunStore;
  readonly taskId: string;
  readonly options: RunOptions;
}

const NO_CHECKPOINT: NewestCheckpoint = {
  id: undefined,
  sequence: 0,
  last: 0,
  stage: undefined,
  transientId: undefined,
};

/**
 * Reads the state of a task's run.
 *
 * @throws {RunMismatchError} The run began with another version or input.
 * @throws {RunCancelledError} The run was cancelled.
 * @throws {CheckpointCorruptError} A record of the current turn is damaged.
 */
export async function readRunState(reading: Reading): Promise<RunState | CompletedRun> {
  const { store, taskId, options } = reading;
  const newest = await store.reader.newestText(taskId);
  if (newest === undefined) return beginRun(reading, NO_CHECKPOINT);
  const { summary } = newest;
  const last: NewestCheckpoint = {
    id: summary.id,
    // If damage hides the newest sequence, the first save has no condition.
    sequence: newest.newest === 0 ? undefined : newest.newest,
    last: newest.newest,
    stage: summary.stage,
    transientId: isTransient(summary) ? summary.id : undefined,
  };
  if (!options.restart && isCancelled(summary)) {
    throw new RunCancelledError(taskId, summary.error?.message ?? "");
  }
  const note = readRunNote(summary);
  if (summary.status === "completed" && !options.restart) {
    if (note !== undefined) assertInput(reading, await readInput(store, summary, note));
    return { isCompleted: true, result: note && (await readResult(store, summary)) };
  }
  const ofRun = note === undefined ? await store.newestOfRun(taskId) : summary;
  const former = ofRun && readRunNote(ofRun);
  if (ofRun === undefined || former === undefined) {
    return beginRun(reading, last, options.restart ? undefined : newest);
  }
  if (options.restart) return restartRun(reading, ofRun, former, last);
  return resumeRun(reading, newest, ofRun, former, last);
}

/** Begins a run again, with the recorded input unless a new one is given. */
async function restartRun(
  reading: Reading,
  ofRun: CheckpointSummary,
  former: RunNote,
  newest: NewestCheckpoint,
): Promise<RunState> {
  const { store, options } = reading;
  const received = await readReceived(store, ofRun, former);
  const input = options.input === undefined ? await readInput(store, ofRun, former) : undefined;
  return beginRun(reading, newest, undefined, received, input);
}

/** Begins a run, with the state of the checkpoint `from` if it is given. */
function beginRun(
  { store, taskId, options }: Reading,
  newest: NewestCheckpoint,
  from?: CheckpointText,
  received = NOTHING_RECEIVED,
  recordedInput?: EncodedState,
): RunState {
  const { version, initialState } = options;
  const input =
    options.input === undefined
      ? recordedInput
      : new StepValues(taskId, store.options).encodeRunValue("input", options.input);
  const initial = initialState === undefined ? NO_STATE : store.encodeState(taskId, initialState);
  const state = from === undefined ? initial : store.migrateState(from);
  const note: RunNote = {
    generation: "",
    attempt: 1,
    turn: 1,
    ...(version !== undefined && { version }),
    ...(input !== undefined && { hasInput: true }),
    ...(received !== NOTHING_RECEIVED && { received }),
  };
  return {
    isCompleted: false,
    isOfRun: false,
    note,
    start: "turn",
    state,
    begin: state,
    newest,
    crashes: 0,
    running: [],
    input,
    steps: undefined,
  };
}

/** Continues a run from its checkpoint `ofRun`, or in a new turn with the state of a newer checkpoint. */
async function resumeRun(
  reading: Reading,
  newest: CheckpointText,
  ofRun: CheckpointSummary,
  former: RunNote,
  last: NewestCheckpoint,
): Promise<RunState> {
  const { store, taskId, options } = reading;
  const { version, ifVersionChanged = "refuse" } = options;
  // A checkpoint that was saved outside the run ends the turn that was under way.
  const isForeign = newest.summary.id !== ofRun.id;
  const { attempt, sequence, ...before } = await readAttempts(store, ofRun, former);
  // An enqueued run gets the version of its first attempt.
  if (former.version !== version && (attempt > 0 || former.version !== undefined)) {
    if (ifVersionChanged === "refuse") throw otherVersion(taskId, former.version, version);
    if (ifVersionChanged === "restart") return restartRun(reading, ofRun, former, last);
  }
  const input = await readInput(store, ofRun, former);
  assertInput(reading, input);
  const { version: _version, traceparent: _traceparent, ...kept } = former;
  const note: RunNote = {
    ...kept,
    ...(version !== undefined && { version }),
    began: former.began ?? ofRun.sequence,
    attempt: attempt + 1,
  };
  const known = { ...last, last: Math.max(last.last, sequence) };
  if (isForeign) {
    const received = await readReceived(store, ofRun, former);
    const next = { ...leaveTurn(note), turn: former.turn + 1, received };
    const state = store.migrateState(newest);
    return {
      previousTraceparent: former.traceparent,
      isCompleted: false,
      isOfRun: false,
      note: next,
      start: "turn",
      input,
      state,
      begin: state,
      ...before,
      newest: known,
      steps: undefined,
    };
  }
  // Most runs of a worker are at the beginning of a turn, so the read of an empty turn is skipped.
  const isFresh = sequence === ofRun.sequence && findTurnStart(former, ofRun.sequence) === ofRun.sequence - 1;
  return {
    isCompleted: false,
    isOfRun: true,
    input,
    ...before,
    previousTraceparent: former.traceparent,
    note: { ...note, turnStart: former.turnStart ?? ofRun.sequence },
    start: ofRun.status === "failed" || former.version !== version ? "resume" : undefined,
    state: store.migrateState(newest),
    begin: store.migrateState(await readTurnStart(store, former, newest)),
    steps: isFresh ? undefined : await RecordedTurn.read(store, taskId, former, ofRun.sequence, { isResumed: true }),
    newest: known,
  };
}

/** Reads the text of the checkpoint that has the state with which the turn started. */
async function readTurnStart(store: RunStore, note: RunNote, newest: CheckpointText): Promise<CheckpointText> {
  const { summary } = newest;
  if (!note.hasSaved || note.turnStart === undefined) return newest;
  const range = { afterSequence: note.turnStart - 1, beforeSequence: note.turnStart + 1 };
  for await (const text of store.reader.texts({ taskId: summary.taskId, order: "oldest", ...range })) return text;
  throw new CheckpointCorruptError(
    `The checkpoint at which the turn of task ${JSON.stringify(summary.taskId)} started (sequence ${note.turnStart}) is damaged or gone. ` +
      "Nothing was changed. Restore it from a backup, rewind the task to an older checkpoint, or begin with `restart: true`.",
  );
}

/** Reads the run's attempts after one of its checkpoints. `sequence` in the result is the last known one. */
async function readAttempts(store: RunStore, newest: CheckpointSummary, note: RunNote) {
  const { taskId, sequence } = newest;
  let [attempt, last] = [note.attempt, sequence];
  const [started, paused] = [new Set<number>(), new Set<number>()];
  const running = new Set<string>();
  const query = { taskId, order: "newest", afterSequence: sequence, headersOnly: true } as const;
  for await (const header of store.records({ ...query, kinds: ["step", "run", "mark"] })) {
    last = Math.max(last, header.sequence);
    const key = parseRunKey(header);
    if (key?.generation !== note.generation) continue;
    attempt = Math.max(attempt, key.attempt);
    // Any record other than a mark is progress.
    if (header.kind !== "mark") {
      started.delete(key.attempt);
      break;
    }
    // The mark of a pause is the last mark of its attempt, so it is read before the others.
    if (header.name === PAUSING && key.occurrence === undefined) paused.add(key.attempt);
    if (!paused.has(key.attempt)) started.add(key.attempt);
    if (header.name !== undefined && key.occurrence !== undefined && key.attempt === attempt)
      running.add(stepTitle(header.name, key.occurrence));
  }
  if (!isTransient(newest)) started.delete(note.attempt);
  return { attempt, crashes: started.size, running: [...running].reverse(), sequence: last };
}

/** Reads the events that the run has received so far, including those of the turn of its newest checkpoint. */
export async function readReceived(
  store: RunStore,
  { taskId, sequence, status }: CheckpointSummary,
  note: RunNote,
): Promise<ReceivedEvents> {
  const { received = NOTHING_RECEIVED, isOver } = note;
  if (isOver && status === "completed") return received;
  const turn = await RecordedTurn.read(store, taskId, note, sequence);
  return new RunEvents(store, taskId, received, turn).abandonTurn();
}

/** Reads the run's input; `undefined` if it has none. */
export async function readInput(
  store: RunStore,
  { taskId, sequence }: CheckpointSummary,
  { hasInput, began = sequence }: RunNote,
): Promise<EncodedState | undefined> {
  if (!hasInput) return undefined;
  const value = await readRunRecord(store, taskId, began);
  if (typeof value === "object" && value !== null && "input" in value) {
    return new StepValues(taskId, store.options).encodeStored(value.input);
  }
  throw new CheckpointCorruptError(
    `The input of the run of task ${JSON.stringify(taskId)} is gone. Nothing was run or changed. Restore it from a backup, or begin with ` +
      "`restart: true` and an `input`.",
  );
}

/** Reads the result of a run that completed with this checkpoint. */
export async function readResult(store: RunStore, { taskId, sequence }: CheckpointSummary): Promise<unknown> {
  const value = await readRunRecord(store, taskId, sequence);
  return typeof value === "object" && value !== null && "result" in value ? value.result : undefined;
}

/** Reads the error with which a task failed; `undefined` if no reason was given. */
export async function readRunError(store: RunStore, summary: CheckpointSummary): Promise<unknown> {
  const { taskId, sequence, error } = summary;
  const query = { taskId, order: "newest", kinds: ["run"], limit: 1 } as const;
  // The task may have been set to `failed` from outside the run since.
  const isOfRun = readRunNote(summary) !== undefined;
  for await (const record of isOfRun ? store.records({ ...query, afterSequence: sequence - 2 }) : []) {
    const value = await store.readValue(record);
    if (typeof value === "object" && value !== null && "error" in value && record.sequence < sequence)
      return value.error;
  }
  return error && Object.assign(new Error(error.message), error);
}

/** Reads the value of the `run` record directly before a checkpoint. */
export async function readRunRecord(store: RunStore, taskId: string, checkpoint: number): Promise<unknown> {
  const record = await store.recordAt(taskId, checkpoint - 1, "run");
  return record && store.readValue(record);
}

function assertInput({ store, taskId, options }: Reading, recorded: EncodedState | undefined): void {
  const { input } = options;
  if (input === undefined) return;
  const { text } = new StepValues(taskId, store.options).encodeRunValue("input", input);
  if (recorded !== undefined && canonicalText(recorded.text) === canonicalText(text)) return;
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
    `The run of task ${JSON.stringify(taskId)} began ${withVersion(recorded)}, but is now called ${withVersion(current)}. ` +
      'Nothing was run or changed. Pass `ifVersionChanged: "resume"` to continue with the recorded steps, or `ifVersionChanged: "restart"` to start over.',
  );
}
