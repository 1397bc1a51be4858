import { setTimeout as pause } from "node:timers/promises";
import { decodeJson } from "../codec/json.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { LeaseHeldError, RunPausedError } from "../contract/errors.js";
import { checkTaskId } from "../manager/arguments.js";
import type { EventHub } from "../manager/events.js";
import type { ResolvedOptions } from "../manager/options.js";
import type { CheckpointReader } from "../manager/reader.js";
import type { SavedStateOf, StateSchema } from "../manager/schema.js";
import { onTermination } from "../manager/termination.js";
import type { CheckpointWriter } from "../manager/writer.js";
import { RunJournal, type Standing } from "./journal.js";
import type { Lease } from "./lease.js";
import { Pass } from "./pass.js";
import type { RunOptions } from "./run.js";
import { checkRunOptions } from "./run-options.js";
import { type Found, type StandingHost, standingOf } from "./standing.js";
import { StepValues } from "./step-values.js";

/** What runs get from their manager. */
export interface RunsHost<Schema extends StateSchema> {
  readonly options: ResolvedOptions<Schema>;
  readonly events: EventHub;
  readonly reader: CheckpointReader<Schema>;
  readonly writer: CheckpointWriter<Schema>;
  /** Aborts when the manager closes, which then waits for its runs. */
  readonly closing: AbortSignal;
  claim(taskId: string): Promise<Lease>;
  hasAutoSave(taskId: string): boolean;
  noted(appended: Promise<CheckpointSummary>, lease: Lease): Promise<CheckpointSummary>;
}

/** A run's function. `CheckpointManager.run` has checked that it takes such a run; the state's type is the schema's. */
type AnyFunction = (run: never) => unknown;

/** How often a lease that somebody else has is asked for. */
const CLAIM_EVERY_MS = 100;

/** The runs of one manager: at most one per task. */
export class Runs<Schema extends StateSchema> {
  readonly #host: RunsHost<Schema>;
  readonly #taskIds = new Set<string>();

  constructor(host: RunsHost<Schema>) {
    this.#host = host;
  }

  has(taskId: string): boolean {
    return this.#taskIds.has(taskId);
  }

  /** See `CheckpointManager.run`. */
  async run(taskId: string, fn: AnyFunction, options: RunOptions): Promise<unknown> {
    checkTaskId(taskId);
    if (typeof fn !== "function") throw new TypeError("manager.run needs a task id and a function.");
    checkRunOptions(taskId, options);
    if (this.#host.hasAutoSave(taskId)) {
      throw new TypeError(`Task ${JSON.stringify(taskId)} has an auto-save: stop() it first. A run saves by itself.`);
    }
    const completed = await this.#completed(taskId, options);
    if (completed !== undefined) return completed.result;
    const stop = new StopSignal(taskId, this.#host.closing, options);
    let outcome: Outcome;
    try {
      outcome = await this.#underLease(taskId, fn, options, stop);
    } finally {
      stop.end();
    }
    // The process is about to end. A rejection could end it before the other runs have paused.
    if (stop.isFinal) await new Promise(() => undefined);
    if (outcome.isFailed) throw outcome.error;
    return outcome.result;
  }

  /** A completed run needs no lease. */
  async #completed(taskId: string, options: RunOptions): Promise<{ readonly result: unknown } | undefined> {
    if (options.restart) return undefined;
    const newest = await this.#host.reader.newestWhere(taskId);
    if (newest?.status !== "completed") return undefined;
    const found = await this.#find(taskId, options);
    return found.isCompleted ? found : undefined;
  }

  #find(taskId: string, options: RunOptions): Promise<Found> {
    const { reader, writer, options: manager } = this.#host;
    const { initialState } = options;
    const host: StandingHost = {
      taskId,
      reader,
      stateVersion: manager.stateVersion,
      values: new StepValues(taskId, manager),
      initialState: () =>
        initialState === undefined ? undefined : writer.stateText(taskId, initialState as SavedStateOf<Schema>),
    };
    return standingOf(host, options);
  }

  async #underLease(taskId: string, fn: AnyFunction, options: RunOptions, stop: StopSignal): Promise<Outcome> {
    const lease = options.lease ?? (await this.#claim(taskId, options, stop.signal));
    this.#taskIds.add(taskId);
    try {
      stop.follow(lease.signal);
      const found = await this.#find(taskId, options);
      if (found.isCompleted) return { isFailed: false, result: found.result };
      return await new Attempt(this.#host, { taskId, fn, lease, stop, found }).run();
    } finally {
      this.#taskIds.delete(taskId);
      if (options.lease === undefined) {
        // If this fails, the lease expires by itself.
        await lease.release().catch((error: unknown) => {
          this.#host.options.logger.warn(
            { taskId, error },
            "A run's lease could not be released; it expires by itself",
          );
        });
      }
    }
  }

  /** @throws {LeaseHeldError} Somebody else still has it after `waitForLease`. */
  async #claim(taskId: string, { waitForLease = 0 }: RunOptions, signal: AbortSignal): Promise<Lease> {
    const lastMs = performance.now() + waitForLease;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await this.#host.claim(taskId);
      } catch (error) {
        const leftMs = lastMs - performance.now();
        if (!(error instanceof LeaseHeldError) || leftMs <= 0) throw error;
        // Its holder may end before it expires.
        await pause(Math.min(leftMs, CLAIM_EVERY_MS), undefined, { signal }).catch(() => undefined);
      }
    }
  }
}

type Outcome =
  | { readonly isFailed: false; readonly result: unknown }
  | { readonly isFailed: true; readonly error: unknown };

/** One attempt of a run, under a lease. */
class Attempt<Schema extends StateSchema> {
  readonly #host: RunsHost<Schema>;
  readonly #taskId: string;
  readonly #fn: AnyFunction;
  readonly #stop: StopSignal;
  readonly #isNew: boolean;
  readonly #values: StepValues;
  readonly #journal: RunJournal;

  constructor(
    host: RunsHost<Schema>,
    {
      taskId,
      fn,
      lease,
      stop,
      found,
    }: {
      readonly taskId: string;
      readonly fn: AnyFunction;
      readonly lease: Lease;
      readonly stop: StopSignal;
      readonly found: { readonly isNew: boolean; readonly standing: Standing };
    },
  ) {
    const { writer, options, noted } = host;
    const { maxPayloadBytes } = options;
    this.#host = host;
    this.#taskId = taskId;
    this.#fn = fn;
    this.#stop = stop;
    this.#isNew = found.isNew;
    this.#values = new StepValues(taskId, options);
    const journalHost = { writer, maxPayloadBytes, noted };
    this.#journal = new RunJournal(taskId, journalHost, lease, found.standing, (error) => stop.stop(error));
  }

  async run(): Promise<Outcome> {
    const { events } = this.#host;
    const taskId = this.#taskId;
    try {
      if (this.#isNew) await this.#journal.save({ isPassing: true, label: "Run started" });
      const { attempt, pass } = this.#journal.head;
      events.emit("runStarted", { taskId, attempt, pass, recordedSteps: this.#journal.size.steps });
      const result = await this.#passes();
      events.emit("runEnded", { taskId, status: "completed" });
      return { isFailed: false, result };
    } catch (thrown) {
      const error = await this.#ended(thrown);
      return { isFailed: true, error };
    }
  }

  /** @throws What the function throws, and what a save throws. */
  async #passes(): Promise<unknown> {
    for (;;) {
      const pass = this.#pass();
      let returned: unknown;
      try {
        returned = await this.#fn(pass as never);
      } catch (error) {
        await pass.end();
        pass.forgetErrorsOf(error);
        throw error;
      }
      await pass.end();
      const next = pass.nextOf(returned);
      pass.tellUnused();
      if (next === undefined) return await this.#complete(returned);
      await this.#journal.next(next.state, next.options);
      this.#stop.signal.throwIfAborted();
    }
  }

  #pass(): Pass<unknown, SavedStateOf<Schema>, unknown> {
    const { events, reader, writer, options } = this.#host;
    const { logger, clock } = options;
    const [taskId, journal, values] = [this.#taskId, this.#journal, this.#values];
    const textOfState = (state: SavedStateOf<Schema>) => writer.stateText(taskId, state);
    const host = { taskId, journal, values, events, logger, signal: this.#stop.signal, clock, textOfState };
    const { begin, input, head } = journal;
    return new Pass(host, {
      state:
        begin === undefined
          ? undefined
          : reader.decoded({ taskId, id: head.generation }, decodeJson("json-tagged", begin)),
      input: input === undefined ? undefined : values.valueOf("The input", input),
    });
  }

  async #complete(returned: unknown): Promise<unknown> {
    const result = this.#values.textOf("The result", returned);
    await this.#journal.save({ status: "completed", isPassOver: true, result, label: "Run completed" });
    return this.#values.valueOf("The result", result);
  }

  /** Records how the attempt ended, if it may. Returns the error for the caller. */
  async #ended(thrown: unknown): Promise<unknown> {
    const { events, options } = this.#host;
    const [taskId, { signal }] = [this.#taskId, this.#stop];
    if (!signal.aborted) {
      await this.#record({ status: "failed", error: thrown, label: this.#journal.after("Run failed") });
      options.logger.debug({ taskId, error: thrown }, "A run failed");
      events.emit("runEnded", { taskId, status: "failed", error: thrown });
      return thrown;
    }
    const reason: unknown = signal.reason;
    if (reason instanceof RunPausedError) {
      await this.#record({ isPassing: true, status: "paused", label: this.#journal.after("Run paused") });
      events.emit("runPaused", { taskId, error: reason });
    } else events.emit("runEnded", { taskId, status: "stopped", error: reason });
    return reason;
  }

  async #record(saving: Parameters<RunJournal["save"]>[0]): Promise<void> {
    try {
      await this.#journal.save(saving);
    } catch (error) {
      this.#host.options.logger.warn({ taskId: this.#taskId, error }, "The end of a run could not be recorded");
    }
  }
}

/** Why a run must stop: the first of the reasons that there may be. */
class StopSignal {
  readonly #taskId: string;
  readonly #controller = new AbortController();
  readonly #ended = new AbortController();
  readonly #unsubscribe: () => void;
  #end: () => void = () => undefined;
  /** A signal of the process has come, which ends it. */
  isFinal = false;

  constructor(taskId: string, closing: AbortSignal, { signal, pauseOnSignal = false }: RunOptions) {
    this.#taskId = taskId;
    this.#on(closing, (cause) => this.#pause("the manager is closing", cause));
    if (signal !== undefined) this.#on(signal, (cause) => this.#pause("its signal was aborted", cause));
    const ended = new Promise<void>((resolve) => {
      this.#end = resolve;
    });
    this.#unsubscribe = pauseOnSignal
      ? onTermination((name, isFinal) => {
          this.isFinal = isFinal;
          this.#pause(`the process got ${name}`);
          return ended;
        })
      : () => undefined;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stop(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Stops with the reason of another signal. */
  follow(signal: AbortSignal): void {
    this.#on(signal, (reason) => this.stop(reason));
  }

  /** The run is over, and its lease released. */
  end(): void {
    this.#ended.abort();
    this.#end();
    this.#unsubscribe();
  }

  #pause(why: string, ...cause: readonly [unknown?]): void {
    this.stop(new RunPausedError(this.#taskId, why, cause.length === 0 ? {} : { cause: cause[0] }));
  }

  #on(signal: AbortSignal, call: (reason: unknown) => void): void {
    if (signal.aborted) call(signal.reason);
    else signal.addEventListener("abort", () => call(signal.reason), { once: true, signal: this.#ended.signal });
  }
}
