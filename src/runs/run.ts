import type { EncodedState } from "../codec/json.js";
import type { Storable } from "../codec/storable.js";
import type { PlainFields } from "../contract/checkpoint.js";
import type { TaskEvent } from "../contract/task-events.js";
import type { Lease } from "../manager/lease.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { SavedStateOf, StateOf, StateSchema } from "../manager/schema.js";

/** One turn of a run, which `manager.run` passes to its function. Its methods also work when destructured. */
export interface Run<State = unknown, Saved = State, Input = unknown> {
  readonly taskId: string;
  /**
   * The state at the beginning of this turn. It comes from `run.next`, from a checkpoint that was saved outside the
   * run, or from `initialState`. A resume of the turn gets the same state. The function may change it.
   */
  readonly state: State;
  /** `RunOptions.input` of the call that began the run, in its stored form. */
  readonly input: Input;
  /** Counts the run's starts and resumes, from 1. */
  readonly attempt: number;
  /**
   * Aborts when the run must stop. The reason is a LeaseLostError if the lease is lost; a RunPausedError if
   * `RunOptions.signal` aborts, the process gets a signal or the manager closes; or the error of a save that failed.
   * Doesn't abort when the run ends otherwise.
   */
  readonly signal: AbortSignal;

  /**
   * Runs `fn` and records its result. A later attempt of the run reuses the recorded result instead of running `fn`.
   * Resolves once the result is stored. This attempt also gets the stored result, with the values that `redact` names
   * replaced.
   *
   * A step is identified by its name and its number among the steps of that name in this turn. Steps with different
   * names may overlap.
   *
   * If `fn` throws, the error is recorded and thrown in its stored form. If the error ends the run, its record is
   * dropped, and the next `manager.run` tries the step again. If the run's function catches the error, a resume throws
   * it again.
   *
   * @throws {TypeError} A step with the same name is under way, the call is made within a step, or an option is
   *   misspelled.
   * @throws {StateNotSerializableError | PayloadTooLargeError} The result can't be stored, so it isn't recorded.
   * @throws {StateInvalidError} The step's schema refuses the result.
   * @throws {StepInterruptedError} The step has `atMostOnce`, and an earlier attempt started it and was interrupted.
   */
  step<Result, Schema extends StateSchema | undefined = undefined>(
    this: void,
    name: string,
    fn: StepFunction<Result> & StepFunction<NoInfer<CheckedResult<Result, Schema>>>,
    options?: StepOptions<Schema>,
  ): Promise<[Schema] extends [StateSchema] ? StateOf<Schema> : Result>;

  /**
   * Waits until `date`. The first call records the date, so a resume waits until the same date. In a worker, the run
   * frees its slot: it is recorded as `paused`, and a worker continues it at that time. The rules for the names of
   * steps also apply to waits.
   *
   * @throws {TypeError} A step with the same name is under way, the call is made within a step, or `date` isn't a date.
   */
  sleepUntil(this: void, name: string, date: Date): Promise<void>;

  /**
   * Waits for the next event with this name. It may have been sent with `manager.send` before this call. An event ends
   * only one wait, and events are received in the order in which they were sent. In a worker, the run frees its slot,
   * as for {@link sleepUntil}.
   *
   * The wait is open until it has received an event, its `timeoutMs` has passed, its `signal` aborts, or the turn ends.
   * A wait that has lost a `Promise.race` is still open: an event that it receives within the turn counts as received.
   *
   * If the schema refuses an event's value, the refusal is recorded, and the wait stays open.
   *
   * @param options - `schema` validates the value. `timeoutMs` is the longest time to wait. Default: no limit. If
   *   `signal` aborts, the wait rejects with the signal's reason. `ask` is a question for people, stored with the
   *   answer's JSON Schema if `schema` provides one.
   * @returns The event; `undefined` if none arrived within `timeoutMs` of the first call.
   * @throws {TypeError} A step with the same name is under way, the call is made within a step, or an option is
   *   misspelled.
   */
  waitFor<Value = unknown>(
    this: void,
    name: string,
    options?: WaitOptions<Value> & { readonly timeoutMs?: undefined },
  ): Promise<TaskEvent<Value>>;
  waitFor<Value = unknown>(
    this: void,
    name: string,
    options: WaitOptions<Value> & { readonly timeoutMs: number | undefined },
  ): Promise<TaskEvent<Value> | undefined>;

  /**
   * Ends this turn. Call it as `return run.next(state)`. The state is saved as a milestone, and the function begins
   * again with it as `run.state`. `next` reads the state before it returns, so you may change the object afterwards.
   *
   * @throws {TypeError} A step is under way, the call is made within a step, or the turn is over.
   * @throws {StateInvalidError | StateNotSerializableError | PayloadTooLargeError} The state can't be saved.
   */
  next<Metadata extends object & PlainFields<Metadata> = object>(
    this: void,
    state: Saved,
    options?: RunSaveOptions<Metadata>,
  ): NextTurn;

  /**
   * Saves a milestone in the middle of a turn, so that you can inspect it or fork from it. Afterwards `latest` returns
   * the saved state; `run.state` and the recorded steps don't change. A resume doesn't save the milestone again. A
   * milestone is identified by its stage, as a step is by its name.
   *
   * @returns The checkpoint's id.
   * @throws {TypeError} A step is under way, the call is made within a step, or the turn is over.
   * @throws {StateInvalidError | StateNotSerializableError | PayloadTooLargeError} The state can't be saved.
   */
  save<Metadata extends object & PlainFields<Metadata> = object>(
    this: void,
    state: Saved,
    options?: RunSaveOptions<Metadata>,
  ): Promise<{ readonly id: string }>;
}

/** The options of `run.waitFor`. */
export interface WaitOptions<Value = unknown> {
  readonly schema?: StateSchema<unknown, Value> | undefined;
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly ask?: string | undefined;
}

/** A step's function. */
export type StepFunction<Result = unknown> = (call: StepCall) => Result | Promise<Result>;

/**
 * The type that a step's function may return: the type that its schema accepts or, without a schema, any type that can
 * be stored.
 */
type CheckedResult<Result, Schema> = [Schema] extends [StateSchema] ? SavedStateOf<Schema> : Storable<Result>;

/** The argument of a step's function. */
export interface StepCall {
  /**
   * An idempotency key: the same for each attempt of this step, and different for every other step. Pass it to an
   * action that must not happen twice. After `fork`, `rewind` and `restart`, steps that run again get new keys.
   */
  readonly key: string;
  /**
   * Counts the calls of the step's function in this turn, from 1, in all attempts of the run. In a series of steps that
   * each take less than 5 ms, a call from an earlier attempt may not be counted.
   */
  readonly attempt: number;
  /** Aborts with `run.signal`, and after `timeoutMs` with a DOMException named `TimeoutError`. */
  readonly signal: AbortSignal;
  /**
   * Records output while the step runs, for readers of `manager.follow`, as a record of the kind `chunk` with the value
   * `{ attempt, chunk }`. The record is stored after 20 ms, or with the step's result. For back-pressure, await the
   * call: it resolves at once unless 64 KB of chunks are waiting to be stored.
   *
   * @param chunk - Any storable value; redacted like the step's result.
   * @returns A promise that rejects if the run was cancelled or has lost its lease, or if the step's function has
   *   ended. You may leave the rejection unhandled.
   * @throws {StateNotSerializableError | PayloadTooLargeError} The chunk can't be stored.
   */
  write(this: void, chunk: unknown): Promise<void>;
}

export interface StepOptions<Schema extends StateSchema | undefined = StateSchema | undefined> {
  /** How to try the step again if it throws. Default: no retry; a step may cost money. */
  readonly retry?: StepRetry | undefined;
  /**
   * The longest time for one attempt, in milliseconds. When it has passed, the attempt's `signal` aborts. If the
   * function returns a result after that, the result counts.
   */
  readonly timeoutMs?: number | undefined;
  /** Validates the result before it is stored, and again when it is reused. */
  readonly schema?: Schema | undefined;
  /**
   * A value that the step depends on. If a resume passes a different value, this step and all steps recorded after it
   * run again.
   */
  readonly input?: unknown;
  /**
   * If true, the start of the step is recorded first. If a resume finds that the step started but didn't end, it throws
   * a StepInterruptedError instead of starting the step again. A step that threw has ended.
   */
  readonly atMostOnce?: boolean | undefined;
}

export interface StepRetry {
  /** How many times to try again: 2 means at most three attempts. */
  readonly times: number;
  /** The pause before the first retry, in milliseconds. Default 1,000. */
  readonly backoffMs?: number | undefined;
  /** The pause is multiplied by this after each retry. Default 2. */
  readonly factor?: number | undefined;
  /** The longest pause, in milliseconds. Default 60,000. */
  readonly maxMs?: number | undefined;
  /** Retries only if this returns true. Default: always. */
  readonly if?: ((error: unknown) => boolean) | undefined;
}

export interface RunOptions<Input = unknown, Initial = unknown> {
  /**
   * The run's input, stored when the run begins. Later calls may leave it out; a different input throws a
   * RunMismatchError.
   */
  readonly input?: Input | undefined;
  /** The state that the run begins with if the task has no checkpoint. */
  readonly initialState?: Initial | undefined;
  /** The function's version. Change it if the changed function can't continue an unfinished run. */
  readonly version?: string | number | undefined;
  /**
   * What to do if an unfinished run has another version: `refuse` (throw a RunMismatchError; the default), `restart`
   * the run, or `resume` it.
   */
  readonly ifVersionChanged?: "refuse" | "restart" | "resume" | undefined;
  /** Starts the run over with `initialState`, even if it has completed. Default false. */
  readonly restart?: boolean | undefined;
  /**
   * How long to wait for the lease if another runner has it, in milliseconds. Default 0: a LeaseHeldError is thrown at
   * once. For a child run, the default is the duration of its parent's lease.
   */
  readonly waitForLeaseMs?: number | undefined;
  /** A lease of the task that the caller has claimed and will release. Default: the run claims one. */
  readonly lease?: Lease | undefined;
  /** Pauses the run when the signal aborts. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Pauses the run on SIGINT, SIGTERM or SIGHUP, and releases its lease. Then the signal ends the process as usual. A
   * second signal ends it at once. Default false.
   */
  readonly pauseOnSignal?: boolean | undefined;
}

/** The options of a run's save. They work as for `manager.save`. The run sets the other options of a save itself. */
export type RunSaveOptions<Metadata extends object = object> = Pick<
  SaveOptions<Metadata>,
  "stage" | "label" | "metadata"
>;

/** Marks the values of `run.next`. Copies of this package share the symbol. */
const BRAND = Symbol.for("waymark.NextTurn");

/** The value of `run.next`. The run's function must return it. */
export class NextTurn {
  readonly #state: EncodedState;
  /** @internal */
  readonly options: RunSaveOptions;

  /** @internal */
  constructor(state: EncodedState, options: RunSaveOptions) {
    this.#state = state;
    this.options = options;
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** @internal Also recognises the values of another copy of this package, which has its own class. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === "object" && value !== null && BRAND in value;
  }

  /** @internal */
  get state(): EncodedState {
    return this.#state;
  }
}

/**
 * The type of a run's state: the manager's state type, which also includes `undefined` unless `initialState` is given.
 * If the manager's state type is unknown, it is the type of `initialState`.
 */
export type RunStateOf<State, Initial> = unknown extends State
  ? undefined extends Initial
    ? unknown
    : Initial
  : State | (undefined extends Initial ? undefined : never);

/**
 * The type of the states that a run saves: the type that the manager saves or, if that is unknown, the type of
 * `initialState`.
 */
export type RunSavedOf<State, Saved, Initial> = unknown extends State ? RunStateOf<State, Initial> : Saved;

/** What a run's function may return. */
export type StorableResult<Result> = Storable<Result> | NextTurn | Promise<Storable<Result> | NextTurn>;

/** A run's function. Returns the run's result, or the value of `run.next`. */
export type RunFunction<Result, State, Saved, Input> = (
  run: Run<State, Saved, Input>,
) => Result | NextTurn | Promise<Result | NextTurn>;
