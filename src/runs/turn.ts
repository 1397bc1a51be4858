import { types } from "node:util";
import { checkId } from "../contract/arguments.js";
import { stepTitle } from "../contract/run-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import { NextTurn, type Run, type RunSaveOptions, type StepCall, type StepOptions, type WaitOptions } from "./run.js";
import { checkDate, checkRunSaveOptions, checkStepOptions, checkWaitOptions } from "./run-options.js";
import { Steps } from "./steps.js";
import { type AttemptParts, type NamedStep, TurnCalls } from "./turn-calls.js";
import { Waits } from "./waits.js";

/** One call of a run's function, with the methods that the function uses. */
export class Turn implements Run {
  readonly taskId: string;
  readonly state: unknown;
  readonly input: unknown;
  readonly attempt: number;
  readonly signal: AbortSignal;
  readonly #parts: AttemptParts;
  readonly #calls: TurnCalls;
  readonly #steps: Steps;
  readonly #waits: Waits;
  readonly #failures: { readonly error: unknown; readonly call: AwaitedCall }[] = [];
  /** Given while {@link end} waits for the calls under way. */
  #idle: (() => void) | undefined;
  #next: NextTurn | undefined;

  constructor(parts: AttemptParts, state: unknown, input: unknown) {
    this.#parts = parts;
    this.#calls = new TurnCalls(parts);
    this.#steps = new Steps(parts, this.#calls);
    this.#waits = new Waits(parts, this.#calls);
    this.taskId = parts.taskId;
    this.signal = parts.stop.signal;
    this.attempt = parts.journal.head.attempt;
    this.state = state;
    this.input = input;
    // The methods also work when destructured: `async ({ step }) => step(…)`.
    this.step = this.step.bind(this);
    this.sleepUntil = this.sleepUntil.bind(this);
    this.waitFor = this.waitFor.bind(this);
    this.next = this.next.bind(this);
    this.save = this.save.bind(this);
  }

  // The result is `never`, because only Run's signature can type it.
  step(name: string, fn: (call: StepCall) => unknown, options?: StepOptions): Promise<never>;
  step(name: string, fn: (call: StepCall) => unknown, options?: StepOptions): Promise<unknown> {
    const check = () => {
      checkId("A step's name", name);
      if (typeof fn !== "function") throw new TypeError("run.step needs a name and a function.");
      if (options !== undefined) checkStepOptions(name, options);
    };
    return this.#call("run.step", name, check, (step) => this.#steps.run(step, fn, options ?? {}));
  }

  sleepUntil(name: string, date: Date): Promise<void> {
    let untilMs = 0;
    const check = () => {
      checkId("A sleep's name", name);
      checkDate("The date of run.sleepUntil", date);
      // The program may change the date later.
      untilMs = date.getTime();
    };
    return this.#call("run.sleepUntil", name, check, (step) => this.#waits.sleep(step, untilMs));
  }

  waitFor<Value = unknown>(
    name: string,
    options?: WaitOptions<Value> & { readonly timeoutMs?: undefined },
  ): Promise<TaskEvent<Value>>;
  waitFor<Value = unknown>(name: string, options: WaitOptions<Value>): Promise<TaskEvent<Value> | undefined>;
  waitFor(name: string, options: WaitOptions = {}): Promise<TaskEvent | undefined> {
    const check = () => {
      checkId("An event's name", name);
      checkWaitOptions(name, options);
    };
    return this.#call("run.waitFor", name, check, (step) => this.#waits.event(step, options));
  }

  next(state: unknown, options: RunSaveOptions = {}): NextTurn {
    checkRunSaveOptions(options);
    this.#calls.assertNoStep("run.next");
    this.#next = new NextTurn(this.#parts.store.encodeState(this.taskId, state), options);
    this.#calls.close();
    return this.#next;
  }

  async save(state: unknown, options: RunSaveOptions = {}): Promise<{ readonly id: string }> {
    checkRunSaveOptions(options);
    this.#calls.assertNoStep("run.save");
    const { store, journal } = this.#parts;
    const encoded = store.encodeState(this.taskId, state);
    const name = options.stage ?? "";
    const occurrence = this.#calls.count("save", name);
    const { recorded } = journal;
    const saved = recorded?.find({ name, occurrence }, true);
    if (recorded !== undefined && saved !== undefined) {
      saved.isUsed = true;
      return { id: await this.#calls.inOrder(saved.sequence, () => recorded.loadSave(saved)) };
    }
    this.signal.throwIfAborted();
    this.#calls.underWay += 1;
    try {
      const { id, sequence } = await journal.saveMilestone(encoded, { name, occurrence }, options);
      await this.#calls.inOrder(sequence);
      return { id };
    } finally {
      this.#endCall();
    }
  }

  /**
   * @internal Ends the waits under way, waits for the steps under way, then ends the turn. Afterwards its methods
   *   throw.
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
   * @internal Returns the value of `next`, if the function returned it.
   * @throws {TypeError} `next` was called, but the function returned something else.
   * @throws The error of a step that failed and that the function never awaited.
   */
  takeNext(returned: unknown): NextTurn | undefined {
    const missed = this.#failures.find(({ call }) => !call.isAwaited);
    if (missed !== undefined) throw missed.error;
    if (returned === this.#next) return this.#next;
    if (this.#next !== undefined || returned instanceof NextTurn) {
      throw new TypeError("A run's function that calls run.next must return its value: `return run.next(state)`.");
    }
    return undefined;
  }

  /** @internal Warns of recorded steps that the function didn't call. */
  warnOfUnused(): void {
    const { journal, store, taskId } = this.#parts;
    const unused = journal.recorded?.all().filter(({ isUsed, isSave }) => !isUsed && !isSave) ?? [];
    const steps = unused.map(({ name, occurrence }) => stepTitle(name, occurrence));
    if (steps.length === 0) return;
    const names = steps.slice(0, 5).map((step) => JSON.stringify(step));
    const more = steps.length > names.length ? ` and ${steps.length - names.length} more` : "";
    store.options.logger.warn(
      { taskId, steps },
      `The run of task ${JSON.stringify(taskId)} has recorded steps that its function didn't call again (renamed or removed?): ${names.join(", ")}${more}`,
    );
    store.notifications.emit("stepsUnused", { taskId, steps });
  }

  /** @internal See {@link TurnCalls.sortErrors}. */
  sortErrors(thrown: unknown) {
    return this.#calls.sortErrors(thrown);
  }

  /** @internal See {@link Waits.isAnswered}. */
  isAnswered(): boolean {
    return this.#waits.isAnswered();
  }

  /** @internal See {@link Waits.findWaits}. */
  findWaits() {
    return this.#waits.findWaits();
  }

  /** Makes a call of a step or a wait. If the call fails, keeps the error, and whether the function awaits the call. */
  #call<Result>(
    what: string,
    name: string,
    check: () => void,
    work: (step: NamedStep) => Result | Promise<Result>,
  ): Promise<Result> {
    const call: AwaitedCall = { isAwaited: false };
    // The executor settles the promise itself: one more promise for each of thousands of results would slow down a
    // resume.
    return new StepPromise(call, async (resolve, reject) => {
      this.#calls.underWay += 1;
      try {
        check();
        const step = await this.#calls.begin(what, name);
        try {
          this.signal.throwIfAborted();
          const result = work(step);
          resolve(types.isPromise(result) ? await result : result);
        } finally {
          this.#calls.end(step);
        }
      } catch (error) {
        if (!this.#waits.isEndReason(error)) this.#failures.push({ error, call });
        reject(error);
      } finally {
        this.#endCall();
      }
    });
  }

  #endCall(): void {
    this.#calls.underWay -= 1;
    this.#idle?.();
    if (this.#calls.waitsUnderWay > 0) this.#waits.suspendSoon();
  }
}

interface AwaitedCall {
  isAwaited: boolean;
}

/**
 * The promise of a step or a wait. Notes in `call` whether the function waits for the promise. Only a subclass can do
 * this: `await` reads `then` of a promise only if its class isn't Promise itself.
 */
class StepPromise<Result> extends Promise<Result> {
  readonly #call: AwaitedCall;

  constructor(
    call: AwaitedCall,
    work: (resolve: (result: Result) => void, reject: (error: unknown) => void) => unknown,
  ) {
    super((resolve, reject) => {
      void work(resolve, (error) => {
        reject(error);
        // This prevents an unhandled rejection. The turn keeps the error, and throws it at its end if the function
        // never waited for the step. It runs as a microtask, because the constructor may not have returned yet.
        queueMicrotask(() => void super.then(undefined, () => undefined));
      });
    });
    this.#call = call;
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
