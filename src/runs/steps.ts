import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import type { StepHead } from "../codec/run-body.js";
import { RunMismatchError, StateInvalidError, StepInterruptedError } from "../contract/errors.js";
import type { StepRecord } from "../contract/run-record.js";
import { traced, tracing } from "../manager/tracing.js";
import type { RunJournal } from "./journal.js";
import { within } from "./nesting.js";
import type { StepCall, StepOptions, StepRetry } from "./run.js";
import type { RunStore } from "./run-store.js";
import { type Entry, ThrownErrors } from "./step-entries.js";
import { hashOf, type StepValues } from "./step-values.js";
import { isStop, pausedBy, type StopSignal } from "./stops.js";
import type { NamedStep, TurnCalls } from "./turn-calls.js";

type StepFunction = (call: StepCall) => unknown;

/** Executes the steps of one turn, or returns their recorded results. */
export class Steps {
  readonly #store: RunStore;
  readonly #taskId: string;
  readonly #journal: RunJournal;
  readonly #values: StepValues;
  readonly #stop: StopSignal;
  readonly #calls: TurnCalls;
  readonly #thrown = new ThrownErrors();
  readonly #turn: number;
  readonly #attempt: number;

  constructor(parts: {
    readonly store: RunStore;
    readonly taskId: string;
    readonly journal: RunJournal;
    readonly values: StepValues;
    readonly stop: StopSignal;
    readonly calls: TurnCalls;
  }) {
    const { turn, attempt } = parts.journal.head;
    this.#store = parts.store;
    this.#taskId = parts.taskId;
    this.#journal = parts.journal;
    this.#values = parts.values;
    this.#stop = parts.stop;
    this.#calls = parts.calls;
    this.#turn = turn;
    this.#attempt = attempt;
  }

  /** Call it when the function calls a step or a wait: the errors so far didn't end the run. */
  begins(): void {
    this.#thrown.stepBegins();
  }

  async run(step: NamedStep, fn: StepFunction, options: StepOptions): Promise<unknown> {
    const { name, occurrence, title, turn } = step;
    const input = options.input === undefined ? undefined : this.#values.digestOfInput(title, options.input);
    await turn;
    this.#stop.signal.throwIfAborted();
    const recorded = this.#journal.steps.find({ name, occurrence, status: "completed" });
    if (recorded !== undefined) {
      assertKind(this.#taskId, title, recorded, undefined);
      if (recorded.head.input === input || recorded.head.status === "started") {
        return this.#reuse(recorded, title, options);
      }
      this.#forgetFrom(recorded);
    }
    if (!tracing.step.hasSubscribers) return this.#execute(step, fn, options, input);
    const context = { taskId: this.#taskId, attempt: this.#attempt, turn: this.#turn, step: title };
    return traced(tracing.step, context, () => this.#execute(step, fn, options, input));
  }

  /**
   * Forgets the errors that ended the run, so that the next run tries their steps again.
   *
   * @returns The step whose error ended the run, if it was a step's error.
   */
  forgetErrorsOf(thrown: unknown): StepHead | undefined {
    const gone = this.#thrown.toRetryAfter(thrown);
    if (gone.size > 0) this.#journal.steps.forget((entry) => gone.has(entry));
    const [first] = gone;
    return first?.head;
  }

  #reuse(recorded: Entry, title: string, { schema }: StepOptions): unknown {
    recorded.isUsed = true;
    const { status } = recorded.head;
    if (status === "started") throw new StepInterruptedError(this.#taskId, title);
    this.#store.notifications.emit("stepReused", { taskId: this.#taskId, turn: this.#turn, step: title });
    if (status === "failed") throw this.#errorOf(recorded, title);
    return this.#values.result(title, recorded.value ?? "null", schema);
  }

  async #execute(step: NamedStep, fn: StepFunction, options: StepOptions, input: string | undefined): Promise<unknown> {
    const { notifications, options: settings } = this.#store;
    const { name, occurrence, title } = step;
    const { signal } = this.#stop;
    const startedAt = new Date(settings.clock()).toISOString();
    const begun = { name, occurrence, startedAt, runAttempt: this.#attempt, ...(input && { input }) };
    if (options.atMostOnce) await this.#recordStart(begun);
    const told = { taskId: this.#taskId, turn: this.#turn, step: title };
    notifications.emit("stepStarted", told);
    const startedMs = performance.now();
    /**
     * The error of a result that can't be stored. The step's function has ended, so the step isn't tried again, and the
     * error isn't recorded.
     */
    let unstorable: { readonly error: unknown } | undefined;
    const perform = async (call: StepCall): Promise<string> => {
      const result = await within({ of: this.#calls, name: title, signal: call.signal }, () => fn(call));
      try {
        return this.#values.textOfResult(name, title, result, options.schema);
      } catch (error) {
        if (error instanceof StateInvalidError) throw error;
        unstorable = { error };
        return "";
      }
    };
    const end = await attemptStep(perform, options, { title, keyOf: () => this.#keyOf(step, input), signal });
    if (unstorable !== undefined) throw unstorable.error;
    const durationMs = Math.round(performance.now() - startedMs);
    const { attempts } = end;
    const head = { ...begun, durationMs, attempts, status: end.isFailed ? "failed" : "completed" } as const;
    const entry = this.#journal.note(head, end.isFailed ? this.#textOfFailure(name, title, end.error) : end.result);
    await this.#journal.stored();
    await this.#calls.inOrder(entry);
    const error = end.isFailed ? { error: this.#errorOf(entry, title) } : undefined;
    notifications.emit("stepEnded", { ...told, durationMs, attempts, ...error });
    if (error !== undefined) throw error.error;
    return this.#values.result(title, entry.value ?? "null", options.schema);
  }

  /** Records that an `atMostOnce` step starts. If the run is stopping, the step won't start, so the record is removed. */
  async #recordStart(begun: Omit<StepHead, "status">): Promise<void> {
    const { signal } = this.#stop;
    const noted = this.#journal.note({ ...begun, status: "started" }, undefined);
    await this.#journal.stored();
    if (signal.aborted) this.#journal.steps.forget((each) => each === noted);
    signal.throwIfAborted();
  }

  /** The text of a failed step's error. @throws The reason of a stop that interrupted the step. */
  #textOfFailure(name: string, title: string, error: unknown): string {
    const { signal } = this.#stop;
    // The error isn't the step's own.
    if (signal.aborted) throw signal.reason;
    if (!isStop(error)) return this.#values.textOfError(name, title, error);
    // The step's function started another run, and that run was paused, or couldn't go on.
    const paused = pausedBy(this.#taskId, error);
    this.#stop.stop(paused);
    throw paused;
  }

  /**
   * The recorded error, decoded. It is remembered, so that {@link forgetErrorsOf} can tell whether it ended the run.
   */
  #errorOf(entry: Entry, title: string): unknown {
    const error = this.#values.error(title, entry.value ?? "null");
    this.#thrown.add(error, entry);
    return error;
  }

  /** Forgets the step `first` and all steps recorded after it, except those that the function has already called. */
  #forgetFrom(first: Entry): void {
    let isAfter = false;
    this.#journal.steps.forget((entry) => {
      isAfter ||= entry === first;
      return isAfter && !entry.isUsed;
    });
  }

  /**
   * @param input - The digest of the step's input. With another input, the step does something else, so it gets another
   *   key.
   */
  #keyOf({ name, occurrence }: NamedStep, input: string | undefined): string {
    const { generation } = this.#journal.head;
    const parts = [this.#taskId, generation, this.#turn, name, occurrence, ...(input === undefined ? [] : [input])];
    return hashOf(JSON.stringify(parts));
  }
}

/** @throws {RunMismatchError} The recorded step is of another kind: a step, a sleep, or a wait for an event. */
export function assertKind(taskId: string, title: string, { head }: Entry, kind: StepRecord["waitsFor"]): void {
  if (head.waitsFor === kind) return;
  const name = (of: StepRecord["waitsFor"]) => (of === undefined ? "a step" : of === "sleep" ? "a sleep" : "a wait");
  throw new RunMismatchError(
    taskId,
    `${JSON.stringify(title)} of the run of task ${JSON.stringify(taskId)} was recorded as ${name(head.waitsFor)}, and is ${name(kind)} ` +
      "now. The record is kept. Give the new one another name, or pass `restart: true` to start over.",
  );
}

/** How a step ended. */
type StepEnd<Result> = { readonly attempts: number } & (
  | { readonly isFailed: false; readonly result: Result }
  | { readonly isFailed: true; readonly error: unknown }
);

const DEFAULT_RETRY = { backoffMs: 1000, factor: 2, maxMs: 60_000 };

/**
 * Calls a step's function, and again after an error as often as `retry` says. Never rejects.
 *
 * @param title - The step's title, for messages.
 * @param keyOf - Returns the step's key.
 * @param signal - The run's signal. Once it aborts, the step isn't tried again.
 */
async function attemptStep<Result>(
  fn: (call: StepCall) => Result | Promise<Result>,
  { retry, timeoutMs }: StepOptions,
  { title, keyOf, signal }: { readonly title: string; readonly keyOf: () => string; readonly signal: AbortSignal },
): Promise<StepEnd<Result>> {
  for (let attempt = 1; ; attempt++) {
    const timed = timeoutMs === undefined ? undefined : new TimedSignal(signal, timeoutMs, title);
    try {
      const call = {
        // The key is a getter, because most steps don't read it.
        get key() {
          return keyOf();
        },
        attempt,
        signal: timed?.signal ?? signal,
      };
      const result = await fn(call);
      return { isFailed: false, result, attempts: attempt };
    } catch (thrown) {
      const error = timed?.errorOf(thrown) ?? thrown;
      if (signal.aborted || retry === undefined || attempt > retry.times || !(retry.if?.(error) ?? true)) {
        return { isFailed: true, error, attempts: attempt };
      }
      // If the run stops during the pause, the step ends with its last error.
      const isOver = await pause(pauseMs(retry, attempt), false, { signal }).catch(() => true);
      if (isOver) return { isFailed: true, error, attempts: attempt };
    } finally {
      timed?.clear();
    }
  }
}

function pauseMs(retry: StepRetry, attempt: number): number {
  const { backoffMs = DEFAULT_RETRY.backoffMs, factor = DEFAULT_RETRY.factor, maxMs = DEFAULT_RETRY.maxMs } = retry;
  return Math.min(backoffMs * factor ** (attempt - 1), maxMs);
}

class TimedSignal {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #abort = () => this.#controller.abort(this.#outer.reason);
  #timeout: DOMException | undefined;

  constructor(outer: AbortSignal, timeoutMs: number, title: string) {
    this.#outer = outer;
    // A step may pass it to many calls, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.signal);
    this.#timer = setTimeout(() => {
      this.#timeout = new DOMException(
        `Step ${JSON.stringify(title)} took longer than ${timeoutMs} ms`,
        "TimeoutError",
      );
      this.#controller.abort(this.#timeout);
    }, timeoutMs);
    if (outer.aborted) this.#abort();
    else outer.addEventListener("abort", this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The timeout, if it came before the attempt threw. */
  errorOf(thrown: unknown): unknown {
    return this.#timeout !== undefined && this.signal.reason === this.#timeout ? this.#timeout : thrown;
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#outer.removeEventListener("abort", this.#abort);
  }
}
