import type { PlainFields } from "../contract/checkpoint.js";
import type { Lease } from "../manager/lease.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { SavedStateOf, StateOf, StateSchema } from "../manager/schema.js";

/** One pass of a run, as `manager.run` hands it to its function. */
export interface Run<State = unknown, Saved = State, Input = unknown> {
  readonly taskId: string;
  /**
   * The state that this pass began with: of `run.next`, or of the task's newest checkpoint before there was a run, or
   * `initialState`. The same at each resume. It is the function's own copy, which it may change.
   */
  readonly state: State;
  /** `RunOptions.input` of the call that began the run, as it was stored. */
  readonly input: Input;
  /** How often the run was started or resumed: 1 at first. */
  readonly attempt: number;
  /**
   * Aborts when the run must stop: with a LeaseLostError if its lease is lost, with a RunPausedError at `RunOptions.signal`,
   * at a signal of the process and when the manager closes, and with the error of a save that failed.
   */
  readonly signal: AbortSignal;

  /**
   * Runs `fn` and records its result. A later attempt of the run gets the recorded result and doesn't run `fn`. Resolves once
   * the result is stored. This attempt gets the result as it was stored, too: decoded, without what `redact` names and without properties that
   * aren't enumerable, which libraries hide in their objects.
   *
   * A step is found by its name and by how often that name came in this pass. Steps may overlap if their names differ.
   *
   * If `fn` throws, the error is recorded and thrown, in the form in which it is stored. If it ends the run, it is
   * forgotten: the next `manager.run` tries the step again. If the function catches it, a resume throws it again.
   *
   * @throws {TypeError} A step of that name is under way, the call is made within a step, or an option is misspelled.
   * @throws {StateNotSerializableError} The result can't be stored; `path` says where. It isn't recorded.
   * @throws {PayloadTooLargeError} With the result, the run's record is larger than `maxPayloadBytes`. It isn't recorded.
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
   * Ends this pass: `return run.next(state)`. The state is saved as a milestone, the pass's results are forgotten, and the
   * function begins at its top with `run.state = state`. The state is read at once.
   *
   * @throws {TypeError} A step is under way, the call is made within a step, or the pass is over.
   * @throws {StateInvalidError | StateNotSerializableError | PayloadTooLargeError} The state can't be saved.
   */
  next<Metadata extends object & PlainFields<Metadata> = object>(
    state: Saved,
    options?: RunSaveOptions<Metadata>,
  ): NextPass;

  /**
   * Saves a milestone in the middle of a pass, to be seen and forked from: `latest` gives its state from now on. It changes
   * nothing else: `run.state` stays, and so do the steps. A resume doesn't save it again: it is found by its stage, and by
   * how often that stage came in this pass.
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
   * The same for each attempt of this step, and for no other step: hand it to what must not happen twice (an idempotency
   * key). `fork`, `rewind` and `restart` give the steps that they run new ones.
   */
  readonly key: string;
  /** From 1: how often the step was tried in this attempt of the run. */
  readonly attempt: number;
  /** Aborts with `run.signal`, and with a DOMException named `TimeoutError` at `timeoutMs`. */
  readonly signal: AbortSignal;
}

export interface StepOptions {
  /** Tries the step again if it throws. Default: none, because steps cost money. */
  readonly retry?: StepRetry | undefined;
  /** Aborts an attempt's `signal` after so long, and waits for it to end; if it throws then, it has failed. */
  readonly timeoutMs?: number | undefined;
  /** Validates the result before it is stored, and when it is reused. */
  readonly schema?: StateSchema | undefined;
  /** A value that the step depends on. If it is another one at a resume, this step and all recorded after it run anew. */
  readonly input?: unknown;
  /**
   * Records the start first. A resume that finds the step started and not ended throws a StepInterruptedError instead of
   * starting it again. An error that it threw is kept, too.
   */
  readonly atMostOnce?: boolean | undefined;
}

export interface StepRetry {
  /** How often it is tried again: 2 gives at most three attempts. */
  readonly times: number;
  /** The pause before the first retry, in milliseconds. Default 1,000. */
  readonly backoffMs?: number | undefined;
  /** Each pause is so many times as long as the one before. Default 2. */
  readonly factor?: number | undefined;
  /** The longest pause, in milliseconds. Default 60,000. */
  readonly maxMs?: number | undefined;
  /** Only if it returns true for the error. Default: any error. */
  readonly if?: ((error: unknown) => boolean) | undefined;
}

export interface RunOptions<Input = unknown, Initial = unknown> {
  /** Stored when the run begins. A later call may leave it out; another one is a RunMismatchError. */
  readonly input?: Input | undefined;
  /** The state that the run begins with, if the task has no checkpoint. */
  readonly initialState?: Initial | undefined;
  /** The function's version. Change it where a run must not go on with the changed function. */
  readonly version?: string | number | undefined;
  /** If an unfinished run has another version: `refuse` (a RunMismatchError; the default), `restart`, or `resume` it. */
  readonly onChange?: "refuse" | "restart" | "resume" | undefined;
  /** Begins anew with `initialState`, also if the run is completed. Default false. */
  readonly restart?: boolean | undefined;
  /** How long to wait for the lease if somebody else has it, in milliseconds. Default 0: a LeaseHeldError at once. */
  readonly waitForLease?: number | undefined;
  /** A lease of the task that the caller has, and releases. Default: the run claims one. */
  readonly lease?: Lease | undefined;
  /** Pauses the run when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Pauses the run on SIGINT, SIGTERM or SIGHUP, and releases its lease. Then the signal ends the process as it would without
   * Waymark. A second signal ends it at once. Default false.
   */
  readonly pauseOnSignal?: boolean | undefined;
}

/** As for `save`; a run sets the others itself. */
export type RunSaveOptions<Metadata extends object = object> = Pick<
  SaveOptions<Metadata>,
  "stage" | "label" | "metadata"
>;

/** The value of `run.next`, for the function to return. */
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

/** A run's function. It returns the run's result, or the value of `run.next`. */
export type RunFunction<Result, State, Saved, Input> = (
  run: Run<State, Saved, Input>,
) => Result | NextPass | Promise<Result | NextPass>;
