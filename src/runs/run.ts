import type { PlainFields } from "../contract/checkpoint.js";
import type { Lease } from "../manager/lease.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { SavedStateOf, StateOf, StateSchema } from "../manager/schema.js";

/** One pass of a run, which `manager.run` passes to its function. */
export interface Run<State = unknown, Saved = State, Input = unknown> {
  readonly taskId: string;
  /**
   * The state at this pass's beginning: from `run.next`; from the task's newest checkpoint, if that isn't the run's
   * own; or `initialState`. The same at each resume. The function may change it.
   */
  readonly state: State;
  /** `RunOptions.input` of the call that began the run, in its stored form. */
  readonly input: Input;
  /** Counts the run's starts and resumes, from 1. */
  readonly attempt: number;
  /**
   * Aborts when the run must stop. The reason is a LeaseLostError if its lease is lost, a RunPausedError if
   * `RunOptions.signal` aborts, the process gets a signal or the manager closes, or the error of a save that failed.
   */
  readonly signal: AbortSignal;

  /**
   * Runs `fn` and records its result. A later attempt of the run gets the recorded result and doesn't run `fn`.
   * Resolves once the result is stored. This attempt, too, gets the stored result: decoded, without the parts that
   * `redact` names, and without properties that aren't enumerable (libraries hide some in their objects).
   *
   * A step is identified by its name and by how often that name was used in this pass. Steps may overlap if their names
   * differ.
   *
   * If `fn` throws, the error is recorded and thrown in its stored form. If the error ends the run, it is forgotten:
   * the next `manager.run` tries the step again. If the function catches it, a resume throws it again.
   *
   * @throws {TypeError} A step of that name is under way, the call is made within a step, or an option is misspelled.
   * @throws {StateNotSerializableError} The result can't be stored; `path` says where. It isn't recorded.
   * @throws {PayloadTooLargeError} With the result, the run's record is larger than `maxPayloadBytes`. It isn't
   * recorded.
   * @throws {StateInvalidError} The step's schema refuses the result.
   * @throws {StepInterruptedError} The step has `atMostOnce`, and was started and interrupted before.
   */
  step<Schema extends StateSchema>(
    name: string,
    fn: (call: StepCall) => SavedStateOf<Schema> | Promise<SavedStateOf<Schema>>,
    options: StepOptions & { readonly schema: Schema },
  ): Promise<StateOf<Schema>>;
  step<Result>(
    name: string,
    fn: (call: StepCall) => Result | Promise<Result>,
    options?: StepOptions & { readonly schema?: undefined },
  ): Promise<Result>;

  /**
   * Ends this pass: `return run.next(state)`. The state is saved as a milestone, the pass's results are forgotten, and
   * the function begins at its top with `run.state = state`. The state is read at once.
   *
   * @throws {TypeError} A step is under way, the call is made within a step, or the pass is over.
   * @throws {StateInvalidError | StateNotSerializableError | PayloadTooLargeError} The state can't be saved.
   */
  next<Metadata extends object & PlainFields<Metadata> = object>(
    state: Saved,
    options?: RunSaveOptions<Metadata>,
  ): NextPass;

  /**
   * Saves a milestone in the middle of a pass, to look at or fork from: `latest` gives its state from now on. Nothing
   * else changes: `run.state` and the recorded steps stay. A resume doesn't save it again: the milestone is identified
   * by its stage, and by how often that stage was used in this pass.
   *
   * @returns The checkpoint's id.
   * @throws {TypeError} A step is under way, the call is made within a step, or the pass is over.
   * @throws {StateInvalidError | StateNotSerializableError | PayloadTooLargeError} The state can't be saved.
   */
  save<Metadata extends object & PlainFields<Metadata> = object>(
    state: Saved,
    options?: RunSaveOptions<Metadata>,
  ): Promise<{ readonly id: string }>;
}

/** The argument of a step's function. */
export interface StepCall {
  /**
   * An idempotency key: the same for each attempt of this step, and different for every other step. Pass it to an
   * action that must not happen twice. After `fork`, `rewind` and `restart`, steps that run again get new keys.
   */
  readonly key: string;
  /** Counts the tries of the step in this attempt of the run, from 1. */
  readonly attempt: number;
  /** Aborts with `run.signal`, and after `timeoutMs` with a DOMException named `TimeoutError`. */
  readonly signal: AbortSignal;
}

export interface StepOptions {
  /** Tries the step again if it throws. Default: no retry, because steps cost money. */
  readonly retry?: StepRetry | undefined;
  /**
   * Aborts an attempt's `signal` after this time, then waits for the function. If the function throws then, the attempt
   * has failed.
   */
  readonly timeoutMs?: number | undefined;
  /** Validates the result before it is stored, and again when it is reused. */
  readonly schema?: StateSchema | undefined;
  /**
   * A value that the step depends on. If a resume passes another value, this step and all recorded after it run again.
   */
  readonly input?: unknown;
  /**
   * Records the start first. If a resume finds that the step started but didn't end, it throws a StepInterruptedError
   * instead of starting it again. An error that the step threw is kept, too.
   */
  readonly atMostOnce?: boolean | undefined;
}

export interface StepRetry {
  /** How often to try again: 2 means at most three attempts. */
  readonly times: number;
  /** The pause before the first retry, in milliseconds. Default 1,000. */
  readonly backoffMs?: number | undefined;
  /** Each pause is this many times as long as the one before. Default 2. */
  readonly factor?: number | undefined;
  /** The longest pause, in milliseconds. Default 60,000. */
  readonly maxMs?: number | undefined;
  /** Retries only if this returns true for the error. Default: always. */
  readonly if?: ((error: unknown) => boolean) | undefined;
}

export interface RunOptions<Input = unknown, Initial = unknown> {
  /** Stored when the run begins. Later calls may leave it out; a different input is a RunMismatchError. */
  readonly input?: Input | undefined;
  /** The state that the run begins with if the task has no checkpoint. */
  readonly initialState?: Initial | undefined;
  /** The function's version. Change it if the changed function can't continue an unfinished run. */
  readonly version?: string | number | undefined;
  /**
   * What to do if an unfinished run has another version: `refuse` (a RunMismatchError; the default), `restart` or
   * `resume` it.
   */
  readonly onChange?: "refuse" | "restart" | "resume" | undefined;
  /** Starts over with `initialState`, even if the run is completed. Default false. */
  readonly restart?: boolean | undefined;
  /** How long to wait for the lease if another runner has it, in milliseconds. Default 0: a LeaseHeldError at once. */
  readonly waitForLease?: number | undefined;
  /** A lease of the task that the caller claimed and will release. Default: the run claims its own. */
  readonly lease?: Lease | undefined;
  /** Pauses the run when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Pauses the run on SIGINT, SIGTERM or SIGHUP, and releases its lease. Afterwards the signal ends the process as it
   * would without Waymark. A second signal ends the process at once. Default false.
   */
  readonly pauseOnSignal?: boolean | undefined;
}

/** As for `save`; a run sets the others itself. */
export type RunSaveOptions<Metadata extends object = object> = Pick<
  SaveOptions<Metadata>,
  "stage" | "label" | "metadata"
>;

/** The value of `run.next`. The run's function must return it. */
export class NextPass {
  readonly #state: string;
  /** @internal */
  readonly options: RunSaveOptions;

  /** @internal @param state - As text. */
  constructor(state: string, options: RunSaveOptions) {
    this.#state = state;
    this.options = options;
  }

  /** @internal */
  get state(): string {
    return this.#state;
  }
}

/** The state of a run: the manager's, and `undefined` unless `initialState` is given. If the manager's is unknown, that of `initialState`. */
export type RunStateOf<State, Initial> = unknown extends State
  ? undefined extends Initial
    ? unknown
    : Initial
  : State | (undefined extends Initial ? undefined : never);

/** The states that a run saves: the manager's. If that is unknown, those of `initialState`. */
export type RunSavedOf<State, Saved, Initial> = unknown extends State ? RunStateOf<State, Initial> : Saved;

/** A run's function. Returns the run's result, or the value of `run.next`. */
export type RunFunction<Result, State, Saved, Input> = (
  run: Run<State, Saved, Input>,
) => Result | NextPass | Promise<Result | NextPass>;
