import { setMaxListeners } from "node:events";
import { types } from "node:util";
import type { EncodedState } from "../codec/json.js";
import { RunMismatchError, StepInterruptedError } from "../contract/errors.js";
import type { RunNote } from "../contract/run-note.js";
import type { StepRecord } from "../contract/run-record.js";
import type { Runtime } from "../contract/runtime.js";
import { onAbort, pause } from "../manager/abort-signals.js";
import { traced, tracing } from "../manager/tracing.js";
import { ChunkWriter } from "./chunk-writer.js";
import { runInCall } from "./nesting.js";
import type { RecordedStep, StepValue } from "./recorded-turn.js";
import type { StepFunction, StepOptions, StepRetry } from "./run.js";
import { hashText } from "./step-values.js";
import { isStop, pausedBy } from "./stops.js";
import type { AttemptParts, NamedStep, TurnCalls } from "./turn-calls.js";

/** The result or the error with which a step ended, and the number of its attempts. */
type StepEnd = { readonly attempts: number } & ({ readonly result: unknown } | { readonly error: unknown });

/** Executes the steps of one turn, or returns their recorded results. */
export class Steps {
  readonly #parts: AttemptParts;
  readonly #calls: TurnCalls;

  constructor(parts: AttemptParts, calls: TurnCalls) {
    this.#parts = parts;
    this.#calls = calls;
  }

  /**
   * Returns the recorded result of a step, or a promise of a new result.
   *
   * @throws What the step throws; the promise may also reject with it.
   */
  run(step: NamedStep, fn: StepFunction, options: StepOptions): unknown {
    const { taskId, journal, values } = this.#parts;
    const { title, recorded } = step;
    const input = options.input === undefined ? undefined : values.digestInput(title, options.input);
    if (recorded !== undefined) {
      assertKind(taskId, title, recorded.value, undefined);
      if (recorded.value.input === input || recorded.value.status === "interrupted") return this.#reuse(step, options);
      this.#dropFrom(recorded.step);
    }
    const execute = () => {
      if (!tracing.step.hasSubscribers) return this.#execute(step, fn, options, input);
      const { attempt, turn } = journal.head;
      const details = { taskId, attempt, turn, step: title };
      return traced(tracing.step, details, () => this.#execute(step, fn, options, input));
    };
    return options.atMostOnce && recorded === undefined ? this.#unlessInterrupted(step, execute) : execute();
  }

  /**
   * Executes an `atMostOnce` step, unless an earlier attempt was interrupted in it.
   *
   * @throws {StepInterruptedError} An earlier attempt was interrupted in the step.
   */
  async #unlessInterrupted(step: NamedStep, execute: () => Promise<unknown>): Promise<unknown> {
    return (await this.#parts.journal.recorded?.wasInterrupted(step)) ? this.#interrupt(step) : execute();
  }

  #reuse(step: NamedStep, { schema }: StepOptions): unknown {
    const { store, taskId, journal, values } = this.#parts;
    const { title, recorded } = step;
    if (recorded === undefined) return undefined;
    const { value } = recorded;
    recorded.step.isUsed = true;
    if (value.status === "interrupted") throw this.#addInterrupted(step, recorded.step.sequence);
    store.notifications.emit("stepReused", { taskId, turn: journal.head.turn, step: title });
    if (value.status === "failed") throw this.#calls.addThrown(step, value.error, recorded.step.sequence);
    return values.decodeStored(title, value.result, schema);
  }

  /**
   * Records that an earlier attempt was interrupted in an `atMostOnce` step, and throws when that record is next in the
   * order of results.
   */
  async #interrupt(step: NamedStep): Promise<never> {
    const { journal, store } = this.#parts;
    const startedAt = new Date(store.options.clock()).toISOString();
    const sequence = await journal.recordStep(step, { fields: { status: "interrupted", startedAt } });
    await this.#calls.inOrder(sequence);
    throw this.#addInterrupted(step, sequence);
  }

  #addInterrupted(step: NamedStep, sequence: number): unknown {
    return this.#calls.addThrown(step, new StepInterruptedError(this.#parts.taskId, step.title), sequence, true);
  }

  async #execute(step: NamedStep, fn: StepFunction, options: StepOptions, input: string | undefined): Promise<unknown> {
    const { store, taskId, journal, values } = this.#parts;
    const { notifications, options: settings } = store;
    const { title } = step;
    const startedAt = new Date(settings.clock()).toISOString();
    const earlier = journal.recorded === undefined ? 0 : await journal.recorded.countStarts(step);
    const start = { hasEnded: false };
    const isAtMostOnce = options.atMostOnce === true;
    if (isAtMostOnce || journal.marksFirst) await this.#mark(step, isAtMostOnce);
    else this.#markSoon(step, start);
    const details = { taskId, turn: journal.head.turn, step: title };
    notifications.emit("stepStarted", details);
    const startedMs = settings.runtime.elapsedMs();
    const end = await this.#attempt(step, fn, options, { input, earlier });
    start.hasEnded = true;
    // If encoding throws, the function has already run: it isn't called again, and nothing is recorded.
    const isFailed = "error" in end;
    const encoded = isFailed ? this.#encodeError(step, end.error) : values.encodeResult(step, end.result);
    const tookMs = settings.runtime.elapsedMs() - startedMs;
    journal.notePace(tookMs);
    const durationMs = Math.round(tookMs);
    const { attempts } = end;
    const status: StepValue["status"] = isFailed ? "failed" : "completed";
    // If `input` is `undefined`, JSON leaves it out.
    const fields = { status, startedAt, durationMs, attempts, input };
    const sequence = await journal.recordStep(step, { fields, encoded: [isFailed ? "error" : "result", encoded] });
    await this.#calls.inOrder(sequence);
    const stored = values.decode(encoded);
    if (isFailed) {
      const error = this.#calls.addThrown(step, stored, sequence);
      notifications.emit("stepEnded", { ...details, durationMs, attempts, error });
      throw error;
    }
    notifications.emit("stepEnded", { ...details, durationMs, attempts });
    return values.decodeStored(title, stored, options.schema);
  }

  /** Calls the step's function, and calls it again after an error up to the limit of `retry`. Never rejects. */
  async #attempt(
    step: NamedStep,
    fn: StepFunction,
    { retry, timeoutMs, schema }: StepOptions,
    { input, earlier }: { readonly input: string | undefined; readonly earlier: number },
  ): Promise<StepEnd> {
    const { store, taskId, journal, values, stop } = this.#parts;
    const { runtime } = store.options;
    const { title } = step;
    const key = () => makeKey(taskId, journal.head, step, input);
    for (let attempts = 1; ; attempts++) {
      if (attempts > 1) await this.#mark(step, false);
      const timed = timeoutMs === undefined ? undefined : timedSignal(runtime, stop.signal, timeoutMs, title);
      const { signal } = timed ?? stop;
      const attempt = earlier + attempts;
      let writer: ChunkWriter | undefined;
      const newWriter = () => new ChunkWriter(this.#parts, step, attempt);
      const call = {
        // These are getters, because most steps neither read their key nor write output.
        get key() {
          return key();
        },
        attempt,
        signal,
        get write() {
          writer ??= newWriter();
          return writer.write;
        },
      };
      try {
        const called = runInCall({ of: this.#calls, name: title, signal }, () => fn(call));
        const result = types.isPromise(called) ? await called : called;
        writer?.end();
        return { attempts, result: schema === undefined ? result : values.checkResult(title, result, schema) };
      } catch (thrown) {
        writer?.end();
        const error = timed !== undefined && signal.reason === timed.error ? timed.error : thrown;
        const isLast = stop.signal.aborted || retry === undefined || attempts > retry.times;
        if (isLast || !(retry.if?.(error) ?? true)) return { attempts, error };
        await pause(runtime, pauseMs(retry, attempts), stop.signal);
        // If the run stops during the pause, the step ends with its last error.
        if (stop.signal.aborted) return { attempts, error };
      } finally {
        timed?.clear();
      }
    }
  }

  /**
   * Records a step's start if the step is still running after a turn of the event loop.
   *
   * @throws The reason of the stop, if the run is stopping.
   */
  #markSoon(step: NamedStep, start: { readonly hasEnded: boolean }): void {
    const { store, stop } = this.#parts;
    stop.signal.throwIfAborted();
    store.options.runtime.setImmediate(() => {
      // A failed write stops the run.
      if (!start.hasEnded && !this.#calls.isOver) this.#mark(step, false).catch(() => undefined);
    });
  }

  /**
   * Records that a step has started, so that the step's name is known while it runs, and if the process is killed
   * meanwhile.
   *
   * @throws The reason of the stop, if the run is stopping.
   */
  async #mark({ name, occurrence }: NamedStep, isDurable: boolean): Promise<void> {
    const { journal, stop } = this.#parts;
    const sequence = await journal.append({ kind: "mark", name, occurrence }, !isDurable);
    if (isDurable && stop.signal.aborted) {
      const fields = { type: "dropped", dropped: [[sequence, sequence]] };
      // If this write fails, a resume treats the step as interrupted.
      await journal.append({ kind: "run", fields }, true).catch(() => undefined);
    }
    stop.signal.throwIfAborted();
  }

  /** Encodes the error of a failed step. @throws The reason of the stop, if a stop interrupted the step. */
  #encodeError(step: NamedStep, error: unknown): EncodedState {
    const { taskId, stop, values } = this.#parts;
    // If the run is stopping, the error isn't the step's own.
    if (stop.signal.aborted) throw stop.signal.reason;
    if (!isStop(error)) return values.encodeError(step, error);
    // The step's function started another run, and that run was paused, or couldn't continue.
    const paused = pausedBy(taskId, error);
    stop.stop(paused);
    throw paused;
  }

  /** Drops a recorded step and all steps recorded after it, except steps that the function has already called. */
  #dropFrom(first: RecordedStep): void {
    const { journal, events } = this.#parts;
    const steps = journal.recorded?.dropFrom(first) ?? [];
    const dropped = steps.map(({ sequence }) => [sequence, sequence]);
    // The records of the drop needn't be durable before the new result is. If their write fails, the write of the
    // result also fails.
    void journal.note({ kind: "run", fields: { type: "dropped", dropped } });
    for (const { occurrence, event } of steps) {
      if (event === undefined) continue;
      events.giveBack(event);
      void journal.note({ kind: "run", occurrence, event, fields: { type: "dropped" } });
    }
  }
}

/**
 * Makes the key of a step or wait.
 *
 * @param input - The digest of the step's input. A step with a different input gets a different key, since it does
 *   something else.
 */
export function makeKey(
  taskId: string,
  { generation, turn }: RunNote,
  { name, occurrence }: Pick<NamedStep, "name" | "occurrence">,
  input?: string,
): string {
  const parts = [taskId, generation, turn, name, occurrence, ...(input === undefined ? [] : [input])];
  return hashText(JSON.stringify(parts));
}

/** @throws {RunMismatchError} The call was recorded as another kind: a step, a sleep, or a wait for an event. */
export function assertKind(taskId: string, title: string, { waitsFor }: StepValue, kind: StepRecord["waitsFor"]): void {
  if (waitsFor === kind) return;
  const name = (of: StepRecord["waitsFor"]) => (of === undefined ? "a step" : of === "sleep" ? "a sleep" : "a wait");
  throw new RunMismatchError(
    taskId,
    `${JSON.stringify(title)} of the run of task ${JSON.stringify(taskId)} was recorded as ${name(waitsFor)}, but is now ${name(kind)}. ` +
      "The record is kept. Give the new call another name, or pass `restart: true` to start over.",
  );
}

function pauseMs({ backoffMs = 1000, factor = 2, maxMs = 60_000 }: StepRetry, attempts: number): number {
  return Math.min(backoffMs * factor ** (attempts - 1), maxMs);
}

/** Makes a signal that aborts with the run's signal, or with `error` once the attempt has taken too long. */
function timedSignal(runtime: Runtime, runSignal: AbortSignal, timeoutMs: number, title: string) {
  const controller = new AbortController();
  const { signal } = controller;
  // A step may pass the signal to many calls, so Node's warning about many listeners is switched off.
  setMaxListeners(0, signal);
  const error = new DOMException(`Step ${JSON.stringify(title)} took longer than ${timeoutMs} ms`, "TimeoutError");
  const cancel = runtime.setTimeout(() => controller.abort(error), timeoutMs);
  const forget = onAbort(runSignal, (reason) => controller.abort(reason));
  return {
    signal,
    error,
    clear() {
      cancel();
      forget();
    },
  };
}
