import type { StepHead } from "../codec/run-body.js";
import { checkId } from "../contract/arguments.js";
import { stepTitle } from "../contract/run-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import type { RunWaits } from "../contract/transient.js";
import type { RunJournal } from "./journal.js";
import { NextTurn, type Run, type RunSaveOptions, type StepCall, type StepOptions } from "./run.js";
import { checkDate, checkRunSaveOptions, checkStepOptions, checkWaitOptions } from "./run-options.js";
import type { RunStore } from "./run-store.js";
import type { StepValues } from "./step-values.js";
import { Steps } from "./steps.js";
import type { StopSignal } from "./stops.js";
import type { RunEvents } from "./task-events.js";
import { type NamedStep, TurnCalls } from "./turn-calls.js";
import { type WaitOptions, Waits } from "./waits.js";

/** One call of a run's function, from its top: the methods that the function uses. */
export class Turn implements Run {
  readonly taskId: string;
  readonly state: unknown;
  readonly input: unknown;
  readonly attempt: number;
  readonly signal: AbortSignal;
  readonly #store: RunStore;
  readonly #journal: RunJournal;
  readonly #calls: TurnCalls;
  readonly #steps: Steps;
  readonly #waits: Waits;
  readonly #failures: { readonly error: unknown; readonly call: AwaitedCall }[] = [];
  #idle: () => void = () => undefined;
  #next: NextTurn | undefined;

  constructor(parts: {
    readonly store: RunStore;
    readonly taskId: string;
    readonly journal: RunJournal;
    readonly values: StepValues;
    readonly events: RunEvents;
    readonly stop: StopSignal;
    readonly state: unknown;
    readonly input: unknown;
    /** Given if the run is suspended while it only waits. */
    readonly suspend: ((waits: RunWaits) => void) | undefined;
  }) {
    const { store, taskId, journal, stop } = parts;
    const calls = new TurnCalls(journal.steps, stop.signal);
    this.#store = store;
    this.#journal = journal;
    this.#calls = calls;
    this.#steps = new Steps({ ...parts, calls });
    this.#waits = new Waits({ ...parts, calls });
    this.taskId = taskId;
    this.signal = stop.signal;
    this.attempt = journal.head.attempt;
    this.state = parts.state;
    this.input = parts.input;
    // The methods also work when destructured: `async ({ step }) => step(…)`.
    this.step = this.step.bind(this);
    this.sleepUntil = this.sleepUntil.bind(this);
    this.waitFor = this.waitFor.bind(this);
    this.next = this.next.bind(this);
    this.save = this.save.bind(this);
  }

  // `never`, because only Run's signature can type the result.
  step(name: string, fn: (call: StepCall) => unknown, options?: StepOptions): Promise<never>;
  step(name: string, fn: (call: StepCall) => unknown, options?: StepOptions): Promise<unknown> {
    return this.#watch(async () => {
      checkId("A step's name", name);
      if (typeof fn !== "function") throw new TypeError("run.step needs a name and a function.");
      if (options !== undefined) checkStepOptions(name, options);
      const step = this.#calls.begin("run.step", name);
      this.#steps.begins();
      try {
        return await this.#steps.run(step, fn, options ?? {});
      } finally {
        this.#calls.end(step);
      }
    });
  }

  sleepUntil(name: string, date: Date): Promise<void> {
    return this.#watch(async () => {
      checkId("A sleep's name", name);
      checkDate("The date of run.sleepUntil", date);
      const untilMs = date.getTime();
      return this.#wait("run.sleepUntil", name, (step) => this.#waits.sleep(step, untilMs));
    });
  }

  waitFor<Value = unknown>(
    name: string,
    options?: WaitOptions<Value> & { readonly timeoutMs?: undefined },
  ): Promise<TaskEvent<Value>>;
  waitFor<Value = unknown>(name: string, options: WaitOptions<Value>): Promise<TaskEvent<Value> | undefined>;
  waitFor(name: string, options: WaitOptions = {}): Promise<TaskEvent | undefined> {
    return this.#watch(async () => {
      checkId("An event's name", name);
      checkWaitOptions(name, options);
      return this.#wait("run.waitFor", name, (step) => this.#waits.event(step, options));
    });
  }

  next(state: unknown, options: RunSaveOptions = {}): NextTurn {
    checkRunSaveOptions(options);
    this.#calls.assertAlone("run.next");
    const text = this.#store.encodeState(this.taskId, state);
    this.#journal.assertFits(text);
    this.#next = new NextTurn(text, options);
    this.#calls.close();
    return this.#next;
  }

  async save(state: unknown, options: RunSaveOptions = {}): Promise<{ readonly id: string }> {
    checkRunSaveOptions(options);
    this.#calls.assertAlone("run.save");
    const text = this.#store.encodeState(this.taskId, state);
    const name = options.stage ?? "";
    const occurrence = this.#calls.count(`save ${name}`);
    const key = { name, occurrence, status: "saved" } as const;
    const saved = this.#journal.steps.find(key);
    if (saved !== undefined) {
      saved.isUsed = true;
      await this.#calls.inOrder(saved);
      return { id: saved.head.id ?? "" };
    }
    this.signal.throwIfAborted();
    return this.#count(async () => {
      const startedAt = new Date(this.#store.options.clock()).toISOString();
      const id = await this.#journal.show(text, { ...key, startedAt, runAttempt: this.attempt }, options);
      const entry = this.#journal.steps.find(key);
      if (entry !== undefined) await this.#calls.inOrder(entry);
      return { id };
    });
  }

  /**
   * @internal Ends the waits under way, waits for the steps under way, then ends the turn. From then on its methods
   * throw.
   */
  async end(): Promise<void> {
    this.#waits.end();
    while (this.#calls.underWay > 0) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
    }
    this.#calls.close();
  }

  /**
   * @internal The value of `next`, if the function returned it.
   * @throws {TypeError} `next` was called, but the function returned something else.
   * @throws The error of a step that failed and that the function never awaited.
   */
  nextOf(returned: unknown): NextTurn | undefined {
    const missed = this.#failures.find(({ call }) => !call.isAwaited);
    if (missed !== undefined) throw missed.error;
    if (returned === this.#next) return this.#next;
    if (this.#next !== undefined || returned instanceof NextTurn) {
      throw new TypeError("A run's function that calls run.next must return its value: `return run.next(state)`.");
    }
    return undefined;
  }

  /** @internal Warns of recorded steps that the function didn't call. */
  tellUnused(): void {
    const { notifications, options } = this.#store;
    const { taskId } = this;
    const unused = this.#journal.steps
      .all()
      .filter(({ isUsed, head }) => !isUsed && head.status !== "saved")
      .map(({ head }) => stepTitle(head.name, head.occurrence));
    if (unused.length === 0) return;
    const names = unused.slice(0, 5).map((step) => JSON.stringify(step));
    const more = unused.length > names.length ? ` and ${unused.length - names.length} more` : "";
    options.logger.warn(
      { taskId, steps: unused },
      `The run of task ${JSON.stringify(taskId)} has recorded steps that its function didn't call again (renamed or removed?): ${names.join(", ")}${more}`,
    );
    notifications.emit("stepsUnused", { taskId, steps: unused });
  }

  /** @internal See {@link Steps.forgetErrorsOf}. */
  forgetErrorsOf(thrown: unknown): StepHead | undefined {
    return this.#steps.forgetErrorsOf(thrown);
  }

  async #wait<Result>(what: string, name: string, wait: (step: NamedStep) => Promise<Result>): Promise<Result> {
    const step = this.#calls.begin(what, name);
    this.#steps.begins();
    this.#calls.waitsUnderWay += 1;
    try {
      await step.turn;
      this.signal.throwIfAborted();
      return await wait(step);
    } finally {
      this.#calls.waitsUnderWay -= 1;
      this.#calls.end(step);
    }
  }

  /** Counts a step or a wait as under way, and notes its failure with whether the function awaits it. */
  #watch<Result>(work: () => Promise<Result>): Promise<Result> {
    const call: AwaitedCall = { isAwaited: false };
    return new StepPromise(call, this.#count(work, call));
  }

  async #count<Result>(work: () => Promise<Result>, call?: AwaitedCall): Promise<Result> {
    this.#calls.underWay += 1;
    try {
      return await work();
    } catch (error) {
      if (call !== undefined && !this.#waits.isEndOf(error)) this.#failures.push({ error, call });
      throw error;
    } finally {
      this.#calls.underWay -= 1;
      this.#idle();
      this.#waits.suspendSoon();
    }
  }
}

interface AwaitedCall {
  isAwaited: boolean;
}

/**
 * The promise of a step. Notes whether the function waits for it, in `call`. Only a subclass can do this: `await` reads
 * `then` of a promise only if its class isn't Promise itself.
 */
class StepPromise<Result> extends Promise<Result> {
  readonly #call: AwaitedCall;

  constructor(call: AwaitedCall, running: Promise<Result>) {
    super((resolve) => resolve(running));
    this.#call = call;
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
    this.#call.isAwaited = true;
    return super.then(onFulfilled, onRejected);
  }
}
