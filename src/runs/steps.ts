import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import type { StepHead } from "../codec/run-body.js";
import { RunMismatchError, StepInterruptedError } from "../contract/errors.js";
import type { StepRecord } from "../contract/run-record.js";
import { onAbort } from "../manager/abort-signals.js";
import { traced, tracing } from "../manager/tracing.js";
import type { Entry } from "./journal.js";
import { runInCall } from "./nesting.js";
import type { StepCall, StepOptions, StepRetry } from "./run.js";
import { hashText } from "./step-values.js";
import { isStop, pausedBy } from "./stops.js";
import type { AttemptParts, NamedStep, TurnCalls } from "./turn-calls.js";

type StepFunction = (call: StepCall) => unknown;

/** How a step ended, after how many attempts. */
type StepEnd = { readonly attempts: number } & ({ readonly result: unknown } | { readonly error: unknown });

/** Executes the steps of one turn, or returns their recorded results. */
export class Steps {
  readonly #parts: AttemptParts;
  readonly #calls: TurnCalls;

  constructor(parts: AttemptParts, calls: TurnCalls) {
    this.#parts = parts;
    this.#calls = calls;
  }

  async run(step: NamedStep, fn: StepFunction, options: StepOptions): Promise<unknown> {
    const { taskId, journal, values } = this.#parts;
    const { title } = step;
    const input = options.input === undefined ? undefined : values.digestInput(title, options.input);
    const recorded = journal.steps.find(step);
    if (recorded !== undefined) {
      assertKind(taskId, title, recorded, undefined);
      if (recorded.head.input === input || recorded.head.status === "started") {
        return this.#reuse(recorded, title, options);
      }
      this.#forgetFrom(recorded);
    }
    if (!tracing.step.hasSubscribers) return this.#execute(step, fn, options, input);
    const { attempt, turn } = journal.head;
    return traced(tracing.step, { taskId, attempt, turn, step: title }, () => this.#execute(step, fn, options, input));
  }

  #reuse(recorded: Entry, title: string, { schema }: StepOptions): unknown {
    const { store, taskId, journal, values } = this.#parts;
    recorded.isUsed = true;
    const { status } = recorded.head;
    if (status === "started") throw new StepInterruptedError(taskId, title);
    store.notifications.emit("stepReused", { taskId, turn: journal.head.turn, step: title });
    if (status === "failed") throw this.#recordedError(recorded, title);
    return values.decodeResult(title, recorded.value ?? "null", schema);
  }

  async #execute(step: NamedStep, fn: StepFunction, options: StepOptions, input: string | undefined): Promise<unknown> {
    const { store, taskId, journal, values } = this.#parts;
    const { notifications, options: settings } = store;
    const { name, occurrence, title } = step;
    const { attempt: runAttempt, turn } = journal.head;
    const startedAt = new Date(settings.clock()).toISOString();
    const begun = { name, occurrence, startedAt, runAttempt, ...(input && { input }) };
    if (options.atMostOnce) await this.#recordStart(begun);
    const details = { taskId, turn, step: title };
    notifications.emit("stepStarted", details);
    const startedMs = performance.now();
    const end = await this.#attempt(step, fn, options, input);
    // If the result can't be stored, the step's function has ended. So the step isn't tried again, and nothing is recorded.
    const result = "error" in end ? undefined : values.encodeResult(step, end.result);
    const value = "error" in end ? this.#encodeError(step, end.error) : result?.text;
    const durationMs = Math.round(performance.now() - startedMs);
    const { attempts } = end;
    const status = result === undefined ? "failed" : "completed";
    const entry = await journal.record({ ...begun, durationMs, attempts, status }, value);
    await this.#calls.inOrder(entry);
    const error = result === undefined ? { error: this.#recordedError(entry, title) } : undefined;
    notifications.emit("stepEnded", { ...details, durationMs, attempts, ...error });
    if (result === undefined) throw error?.error;
    return values.decodeResult(title, result.text, options.schema, result.encoding);
  }

  /** Calls the step's function, and again after an error as often as `retry` says. Never rejects. */
  async #attempt(
    step: NamedStep,
    fn: StepFunction,
    { retry, timeoutMs, schema }: StepOptions,
    input: string | undefined,
  ): Promise<StepEnd> {
    const { values, stop } = this.#parts;
    const { title } = step;
    const key = () => this.#key(step, input);
    for (let attempts = 1; ; attempts++) {
      const timed = timeoutMs === undefined ? undefined : timedSignal(stop.signal, timeoutMs, title);
      const { signal } = timed ?? stop;
      const call = {
        // A getter, because most steps don't read their keys.
        get key() {
          return key();
        },
        attempt: attempts,
        signal,
      };
      try {
        const result = await runInCall({ of: this.#calls, name: title, signal }, () => fn(call));
        return { attempts, result: schema === undefined ? result : values.checkResult(title, result, schema) };
      } catch (thrown) {
        const error = timed !== undefined && signal.reason === timed.error ? timed.error : thrown;
        const isLast = stop.signal.aborted || retry === undefined || attempts > retry.times;
        if (isLast || !(retry.if?.(error) ?? true)) return { attempts, error };
        // If the run stops during the pause, the step ends with its last error.
        const isStopped = await pause(pauseMs(retry, attempts), false, { signal: stop.signal }).catch(() => true);
        if (isStopped) return { attempts, error };
      } finally {
        timed?.clear();
      }
    }
  }

  /** Records that an `atMostOnce` step starts. If the run is stopping, the step won't start, so the record is removed. */
  async #recordStart(begun: Omit<StepHead, "status">): Promise<void> {
    const { journal, stop } = this.#parts;
    const start = await journal.record({ ...begun, status: "started" }, undefined);
    if (stop.signal.aborted) journal.steps.forget((entry) => entry === start);
    stop.signal.throwIfAborted();
  }

  /** The text of a failed step's error. @throws The reason of a stop that interrupted the step. */
  #encodeError(step: NamedStep, error: unknown): string {
    const { taskId, stop, values } = this.#parts;
    // The error isn't the step's own.
    if (stop.signal.aborted) throw stop.signal.reason;
    if (!isStop(error)) return values.encodeError(step, error);
    // The step's function started another run, and that run was paused, or couldn't continue.
    const paused = pausedBy(taskId, error);
    stop.stop(paused);
    throw paused;
  }

  /** Decodes the recorded error, which the function receives. */
  #recordedError(entry: Entry, title: string): unknown {
    const error = this.#parts.values.decodeError(title, entry.value ?? "null");
    this.#calls.addThrown(error, entry);
    return error;
  }

  /** Forgets the step `first` and all steps recorded after it, except those that the function has already called. */
  #forgetFrom(first: Entry): void {
    let isAfter = false;
    this.#parts.journal.steps.forget((entry) => {
      isAfter ||= entry === first;
      return isAfter && !entry.isUsed;
    });
  }

  /**
   * @param input - The digest of the step's input. With another input, the step does something else, so it gets another
   *   key.
   */
  #key({ name, occurrence }: NamedStep, input: string | undefined): string {
    const { taskId, journal } = this.#parts;
    const { generation, turn } = journal.head;
    const parts = [taskId, generation, turn, name, occurrence, ...(input === undefined ? [] : [input])];
    return hashText(JSON.stringify(parts));
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

function pauseMs({ backoffMs = 1000, factor = 2, maxMs = 60_000 }: StepRetry, attempts: number): number {
  return Math.min(backoffMs * factor ** (attempts - 1), maxMs);
}

/** A signal that aborts with the run's, and with `error` once the attempt has taken too long. */
function timedSignal(runSignal: AbortSignal, timeoutMs: number, title: string) {
  const controller = new AbortController();
  const { signal } = controller;
  // A step may pass it to many calls, so Node's warning about many listeners is switched off.
  setMaxListeners(0, signal);
  const error = new DOMException(`Step ${JSON.stringify(title)} took longer than ${timeoutMs} ms`, "TimeoutError");
  const timer = setTimeout(() => controller.abort(error), timeoutMs);
  const forget = onAbort(runSignal, (reason) => controller.abort(reason));
  return {
    signal,
    error,
    clear() {
      clearTimeout(timer);
      forget();
    },
  };
}
