import type { StepHead } from "../codec/run-body.js";
import { checkId } from "../contract/arguments.js";
import { StateInvalidError, StepInterruptedError } from "../contract/errors.js";
import { stepTitle } from "../contract/run-record.js";
import type { Signal } from "../contract/signals.js";
import type { RunWaits } from "../contract/transient.js";
import type { EventHub } from "../manager/events.js";
import type { Logger } from "../manager/logger.js";
import { traced, tracing } from "../manager/tracing.js";
import type { RunJournal } from "./journal.js";
import { enclosing, within } from "./nesting.js";
import { Replay } from "./replay.js";
import { NextTurn, type Run, type RunSaveOptions, type StepCall, type StepOptions } from "./run.js";
import { checkDate, checkRunSaveOptions, checkStepOptions, checkWaitOptions } from "./run-options.js";
import type { RunSignals } from "./signals.js";
import { attemptStep } from "./step-attempts.js";
import { type Entry, ThrownErrors } from "./step-entries.js";
import { hashOf, type StepValues } from "./step-values.js";
import { isStop, pausedBy } from "./stop-signal.js";
import { assertKind, type NamedStep, type WaitOptions, Waits } from "./waits.js";
import type { Wakers } from "./wakers.js";

/** The parts of a run that a turn uses. */
export interface TurnHost<Saved> {
  readonly taskId: string;
  readonly journal: RunJournal;
  readonly values: StepValues;
  readonly events: EventHub;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly signals: RunSignals;
  readonly wakers: Wakers;
  clock(): number;
  /** A state as text. @throws The errors of `save`. */
  textOfState(state: Saved): string;
  /** Ends the attempt, because the record of a wait couldn't be completed. */
  fail(error: unknown): void;
  /** Given if the run lets go of its worker while it waits. */
  readonly letGo: ((waits: RunWaits) => void) | undefined;
}

/**
 * A turn with more steps than this, or more bytes of results, logs a warning, since each further step saves them all
 * again.
 */
const MANY_STEPS = 1000;
const MANY_BYTES = 1_000_000;

/** One call of a run's function, from its top. */
export class Turn<State, Saved, Input> implements Run<State, Saved, Input> {
  readonly taskId: string;
  readonly state: State;
  readonly input: Input;
  readonly attempt: number;
  readonly signal: AbortSignal;
  readonly #host: TurnHost<Saved>;
  readonly #number: number;
  /** For each name of a step and each stage of a save, how often it was used in this turn. */
  readonly #occurrences = new Map<string, number>();
  readonly #names = new Set<string>();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #thrown = new ThrownErrors();
  readonly #waits: Waits;
  readonly #replay: Replay;
  #waitsUnderWay = 0;
  readonly #failures: { readonly error: unknown; readonly promise: StepPromise<unknown> }[] = [];
  #next: NextTurn | undefined;
  #isOver = false;
  #hasWarned = false;

  constructor(host: TurnHost<Saved>, begun: { readonly state: State; readonly input: Input }) {
    const { turn, attempt } = host.journal.head;
    this.#host = host;
    this.#waits = new Waits(
      host,
      (entry, first) => this.#replay.inOrder(entry, first),
      () => this.#underWay.size,
    );
    this.#replay = new Replay(host.journal.entries().length > 0);
    this.#number = turn;
    this.taskId = host.taskId;
    this.signal = host.signal;
    this.attempt = attempt;
    this.state = begun.state;
    this.input = begun.input;
    // The methods also work when destructured: `async ({ step }) => step(…)`.
    this.step = this.step.bind(this);
    this.sleepUntil = this.sleepUntil.bind(this);
    this.waitFor = this.waitFor.bind(this);
    this.next = this.next.bind(this);
    this.save = this.save.bind(this);
  }

  // `never`, because only Run's signature can type the result.
  step(name: string, fn: (call: StepCall) => unknown, options?: StepOptions): Promise<never>;
  step(name: string, fn: (call: StepCall) => unknown, options: StepOptions = {}): Promise<unknown> {
    return this.#tracked(this.#step(name, fn, options));
  }

  sleepUntil(name: string, date: Date): Promise<void> {
    return this.#tracked(this.#sleep(name, date));
  }

  waitFor<Value = unknown>(
    name: string,
    options?: WaitOptions<Value> & { readonly timeoutMs?: undefined },
  ): Promise<Signal<Value>>;
  waitFor<Value = unknown>(name: string, options: WaitOptions<Value>): Promise<Signal<Value> | undefined>;
  waitFor(name: string, options: WaitOptions = {}): Promise<Signal | undefined> {
    return this.#tracked(this.#waitFor(name, options));
  }

  next(state: Saved, options: RunSaveOptions = {}): NextTurn {
    checkRunSaveOptions(options);
    this.#assertAlone("run.next");
    const text = this.#host.textOfState(state);
    this.#host.journal.assertFits(text);
    this.#next = new NextTurn(text, options);
    this.#isOver = true;
    return this.#next;
  }

  async save(state: Saved, options: RunSaveOptions = {}): Promise<{ readonly id: string }> {
    checkRunSaveOptions(options);
    this.#assertAlone("run.save");
    const { journal } = this.#host;
    const text = this.#host.textOfState(state);
    const name = options.stage ?? "";
    const occurrence = this.#count(`save ${name}`);
    const key = { name, occurrence, status: "saved" } as const;
    const saved = journal.find(key);
    if (saved !== undefined) {
      saved.isUsed = true;
      await this.#replay.inOrder(saved);
      return { id: saved.head.id ?? "" };
    }
    this.signal.throwIfAborted();
    const show = async () => {
      const started = { ...key, startedAt: this.#now(), runAttempt: this.attempt };
      const id = await journal.show(text, started, options);
      const entry = journal.find(key);
      if (entry !== undefined) await this.#replay.inOrder(entry);
      return { id };
    };
    const saving = show();
    this.#underWay.add(saving);
    try {
      return await saving;
    } finally {
      this.#underWay.delete(saving);
      this.#waits.stepEnded();
    }
  }

  /**
   * @internal Ends the waits under way, waits for the steps under way, then ends the turn. From then on its methods
   * throw.
   */
  async end(): Promise<void> {
    this.#waits.end();
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    this.#isOver = true;
  }

  /**
   * @internal The value of `next`, if the function returned it.
   * @throws {TypeError} `next` was called, but the function returned something else.
   * @throws The error of a step that failed and that the function never awaited.
   */
  nextOf(returned: unknown): NextTurn | undefined {
    const missed = this.#failures.find(({ promise }) => !promise.isAwaited);
    if (missed !== undefined) throw missed.error;
    if (returned === this.#next) return this.#next;
    if (this.#next !== undefined || returned instanceof NextTurn) {
      throw new TypeError("A run's function that calls run.next must return its value: `return run.next(state)`.");
    }
    return undefined;
  }

  /** @internal Warns of recorded steps that the function didn't call. */
  tellUnused(): void {
    const { journal, events, logger, taskId } = this.#host;
    const unused = journal
      .entries()
      .filter(({ isUsed, head }) => !isUsed && head.status !== "saved")
      .map(({ head }) => stepTitle(head.name, head.occurrence));
    if (unused.length === 0) return;
    const names = unused.slice(0, 5).map((step) => JSON.stringify(step));
    const more = unused.length > names.length ? ` and ${unused.length - names.length} more` : "";
    logger.warn(
      { taskId, steps: unused },
      `The run of task ${JSON.stringify(taskId)} has recorded steps that its function didn't call again (renamed or removed?): ${names.join(", ")}${more}`,
    );
    events.emit("stepsUnused", { taskId, steps: unused });
  }

  /**
   * @internal Forgets the errors that ended the run, so that the next run tries their steps again.
   * @returns The step whose error ended the run, if it was a step's error.
   */
  forgetErrorsOf(thrown: unknown): StepHead | undefined {
    const { journal } = this.#host;
    const gone = this.#thrown.toRetryAfter(thrown);
    if (gone.size > 0) journal.forget((entry) => gone.has(entry));
    const [first] = gone;
    return first?.head;
  }

  #tracked<Result>(running: Promise<Result>): Promise<Result> {
    this.#underWay.add(running);
    const ended = () => {
      this.#underWay.delete(running);
      this.#waits.stepEnded();
    };
    // These handlers are registered before the caller's. So when the caller's handlers run, the step is no longer under
    // way.
    running.then(ended, (error: unknown) => {
      ended();
      const isOver = error !== undefined && error === this.#waits.overReason;
      if (!isOver) this.#failures.push({ error, promise });
    });
    const promise = new StepPromise<Result>((resolve, reject) => {
      running.then(resolve, reject);
    });
    return promise;
  }

  async #step(name: string, fn: (call: StepCall) => unknown, options: StepOptions): Promise<unknown> {
    checkId("A step's name", name);
    if (typeof fn !== "function") throw new TypeError("run.step needs a name and a function.");
    checkStepOptions(name, options);
    return this.#named("run.step", name, (step, goesOn) => this.#recordedOrRun(step, goesOn, fn, options));
  }

  async #sleep(name: string, date: Date): Promise<void> {
    checkId("A sleep's name", name);
    checkDate("The date of run.sleepUntil", date);
    const untilMs = date.getTime();
    return this.#namedWait("run.sleepUntil", name, (step) => this.#waits.sleep(step, untilMs));
  }

  async #waitFor(name: string, options: WaitOptions): Promise<Signal | undefined> {
    checkId("A signal's name", name);
    checkWaitOptions(name, options);
    return this.#namedWait("run.waitFor", name, (step) => this.#waits.signal(step, options));
  }

  #namedWait<Result>(what: string, name: string, call: (step: NamedStep) => Promise<Result>): Promise<Result> {
    return this.#named(what, name, async (step, goesOn) => {
      this.#waitsUnderWay += 1;
      try {
        await goesOn();
        return await call(step);
      } finally {
        this.#waitsUnderWay -= 1;
      }
    });
  }

  /**
   * Counts a step or a wait, and refuses it while another one with its name is under way.
   *
   * @param call - `goesOn` resolves when it is the step's turn to give its recorded result, or to begin.
   */
  async #named<Result>(
    what: string,
    name: string,
    call: (step: NamedStep, goesOn: () => Promise<void>) => Promise<Result>,
  ): Promise<Result> {
    this.#assertOpen(what);
    this.signal.throwIfAborted();
    if (this.#names.has(name)) {
      throw new TypeError(
        `A step named ${JSON.stringify(name)} is already under way in this turn, and a resume couldn't tell the two apart. Make their ` +
          `names differ: ${what}(\`${name} \${item.id}\`, …).`,
      );
    }
    this.#names.add(name);
    this.#thrown.stepBegins();
    try {
      const occurrence = this.#count(`step ${name}`);
      const turn = this.#replay.turn(this.#host.journal.find({ name, occurrence, status: "completed" }));
      const goesOn = async () => {
        await turn;
        this.signal.throwIfAborted();
      };
      return await call({ name, occurrence, title: stepTitle(name, occurrence) }, goesOn);
    } finally {
      this.#names.delete(name);
    }
  }

  async #recordedOrRun(
    step: NamedStep,
    goesOn: () => Promise<void>,
    fn: (call: StepCall) => unknown,
    options: StepOptions,
  ): Promise<unknown> {
    const { journal, values, events } = this.#host;
    const { name, occurrence, title } = step;
    const input = options.input === undefined ? undefined : values.digestOfInput(title, options.input);
    await goesOn();
    const recorded = journal.find({ name, occurrence, status: "completed" });
    if (recorded === undefined) return this.#traced(step, fn, options, input);
    assertKind(this.taskId, title, recorded, undefined);
    if (recorded.head.input !== input && recorded.head.status !== "started") {
      this.#forgetFrom(recorded);
      return this.#traced(step, fn, options, input);
    }
    recorded.isUsed = true;
    if (recorded.head.status === "started") throw new StepInterruptedError(this.taskId, title);
    events.emit("stepReused", { taskId: this.taskId, turn: this.#number, step: title });
    if (recorded.head.status === "failed") throw this.#errorOf(recorded, title);
    return values.result(title, recorded.value ?? "null", options.schema);
  }

  /** Runs a step, and publishes it on `waymark:step`. */
  #traced(
    step: NamedStep,
    fn: (call: StepCall) => unknown,
    options: StepOptions,
    input: string | undefined,
  ): Promise<unknown> {
    const run = () => this.#run(step, fn, options, input);
    if (!tracing.step.hasSubscribers) return run();
    const context = { taskId: this.taskId, attempt: this.attempt, turn: this.#number, step: step.title };
    return traced(tracing.step, context, run);
  }

  async #run(
    step: NamedStep,
    fn: (call: StepCall) => unknown,
    options: StepOptions,
    input: string | undefined,
  ): Promise<unknown> {
    const { journal, values, events, signal } = this.#host;
    const { name, occurrence, title } = step;
    const { atMostOnce = false, schema } = options;
    const startedAt = this.#now();
    const begun = {
      name,
      occurrence,
      startedAt,
      runAttempt: this.attempt,
      ...(input && { input }),
    };
    if (atMostOnce) {
      const noted = journal.note({ ...begun, status: "started" }, undefined);
      await journal.stored();
      // If the run is stopping, the step won't start, so the record of its start is removed.
      if (signal.aborted) journal.forget((each) => each === noted);
      signal.throwIfAborted();
    }
    const { taskId } = this;
    const told = { taskId, turn: this.#number, step: title };
    events.emit("stepStarted", told);
    const startedMs = performance.now();
    const call = { title, keyOf: () => this.#keyOf(step, input), signal };
    /**
     * The error of a result that can't be stored. The step's function has ended, so the step isn't tried again, and the
     * error isn't recorded.
     */
    let unstorable: { readonly error: unknown } | undefined;
    const perform = async (made: StepCall): Promise<string> => {
      const result = await within(this, title, made.signal, () => fn(made));
      try {
        return values.textOfResult(name, title, result, schema);
      } catch (error) {
        if (error instanceof StateInvalidError) throw error;
        unstorable = { error };
        return "";
      }
    };
    const end = await attemptStep(perform, options, call);
    if (unstorable !== undefined) throw unstorable.error;
    const { attempts } = end;
    const durationMs = Math.round(performance.now() - startedMs);
    const ended = { ...begun, durationMs, attempts };
    let entry: Entry;
    if (end.isFailed) {
      // The run's stop interrupted the step, so the error isn't the step's own.
      if (signal.aborted) throw signal.reason;
      // The step's function started another run, and that run was paused, or couldn't go on.
      if (isStop(end.error)) {
        const paused = pausedBy(this.taskId, end.error);
        this.#host.fail(paused);
        throw paused;
      }
      const text = values.textOfError(name, title, end.error);
      entry = journal.note({ ...ended, status: "failed" }, text);
    } else {
      entry = journal.note({ ...ended, status: "completed" }, end.result);
    }
    await journal.stored();
    await this.#replay.inOrder(entry);
    this.#warnIfLong();
    const error = end.isFailed ? { error: this.#errorOf(entry, title) } : undefined;
    events.emit("stepEnded", { ...told, durationMs, attempts, ...error });
    if (error !== undefined) throw error.error;
    return values.result(title, entry.value ?? "null", schema);
  }

  /**
   * The recorded error, decoded. It is remembered, so that {@link forgetErrorsOf} can tell whether it ended the run.
   */
  #errorOf(entry: Entry, title: string): unknown {
    const error = this.#host.values.error(title, entry.value ?? "null");
    this.#thrown.add(error, entry);
    return error;
  }

  /** Forgets the step `first` and all steps recorded after it, except those that the function has already called. */
  #forgetFrom(first: Entry): void {
    let isAfter = false;
    this.#host.journal.forget((entry) => {
      isAfter ||= entry === first;
      return isAfter && !entry.isUsed;
    });
  }

  /**
   * @param input - The digest of the step's input. With another input, the step does something else, so it gets another
   *   key.
   */
  #keyOf({ name, occurrence }: NamedStep, input: string | undefined): string {
    const { generation } = this.#host.journal.head;
    const parts = [this.taskId, generation, this.#number, name, occurrence, ...(input === undefined ? [] : [input])];
    return hashOf(JSON.stringify(parts));
  }

  #count(name: string): number {
    const count = (this.#occurrences.get(name) ?? 0) + 1;
    this.#occurrences.set(name, count);
    return count;
  }

  #warnIfLong(): void {
    const { journal, logger } = this.#host;
    const { steps, bytes } = journal.size;
    if (this.#hasWarned || (steps < MANY_STEPS && bytes < MANY_BYTES)) return;
    this.#hasWarned = true;
    logger.warn(
      { taskId: this.taskId, steps, bytes },
      `A turn of the run of task ${JSON.stringify(this.taskId)} has ${steps} steps with ${bytes} bytes of results, and each further step saves all of them again. End the turn from time to ` +
        "time with `return run.next(state)`, which keeps the state and forgets the results",
    );
  }

  #now(): string {
    return new Date(this.#host.clock()).toISOString();
  }

  /** @throws {TypeError} The turn is over, or the call was made within one of its steps. */
  #assertOpen(what: string): void {
    if (this.#isOver) {
      throw new TypeError(
        `${what} was called after its turn was over. Await every step, and return the value of run.next.`,
      );
    }
    const step = enclosing(this);
    if (step === undefined) return;
    throw new TypeError(
      `${what} was called inside step ${JSON.stringify(step)}: call it after the step, or start a separate run there ` +
        "with manager.run.",
    );
  }

  /** @throws {TypeError} The turn is over, the call is made within a step, or a step is under way. */
  #assertAlone(what: string): void {
    this.#assertOpen(what);
    if (this.#underWay.size > this.#waitsUnderWay) {
      const names = [...this.#names].map((name) => JSON.stringify(name)).join(", ");
      throw new TypeError(`${what} was called while a step is under way (${names}). Await it first.`);
    }
  }
}

/** The promise of a step. Notes whether the function waits for it. */
class StepPromise<Result> extends Promise<Result> {
  isAwaited = false;

  constructor(settle: ConstructorParameters<typeof Promise<Result>>[0]) {
    super(settle);
    // This prevents an unhandled rejection. The turn keeps the error, and throws it at its end if the function never
    // waited for the step.
    super.then(undefined, () => undefined);
  }

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise's `then` notes that the function waits.
  override then<Fulfilled = Result, Rejected = never>(
    onFulfilled?: ((result: Result) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((error: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    this.isAwaited = true;
    return super.then(onFulfilled, onRejected);
  }
}
