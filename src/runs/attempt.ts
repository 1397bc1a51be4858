import type { StepHead } from "../codec/run-body.js";
import { isError, RunCancelledError, RunPausedError } from "../contract/errors.js";
import { keptErrorsText, stepTitle } from "../contract/run-record.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import type { Lease } from "../manager/lease.js";
import { type DiagnosticsMessages, traced, tracing } from "../manager/tracing.js";
import { RunJournal } from "./journal.js";
import type { ParentRun } from "./nesting.js";
import type { NextTurn } from "./run.js";
import type { RunStore } from "./run-store.js";
import type { Found } from "./standing.js";
import { StepValues } from "./step-values.js";
import { isStop, noteStop, pausedBy, type StopSignal } from "./stops.js";
import { RunEvents } from "./task-events.js";
import { Turn } from "./turn.js";

/** A task that a worker has claimed. Its run lets go of the worker while it waits. */
export interface ClaimedRun {
  readonly lease: Lease;
  /** After so many claims without a save, the run is recorded as failed. */
  readonly maxAttempts: number;
  /**
   * Called once the run's standing is known, and its function may be called.
   *
   * @param lost - How many claims in a row ended without a save before this one.
   */
  begins(lost: number): void;
  /** Called when a child run has recorded something. */
  childSaved(): void;
  /** Becomes false if the lease must expire, so that the task is due then. */
  mayRelease: boolean;
  /** Becomes true if the attempt's end is stored. Otherwise the task may still be due. */
  isEndSaved: boolean;
}

/** The run lets go of its worker. */
export class RunWaitsError extends RunPausedError {
  readonly waits: RunWaits;

  constructor(taskId: string, waits: RunWaits) {
    super(taskId, `it ${textOfWaits(waits)}`);
    this.waits = waits;
  }
}

function textOfWaits({ dueAt, waitsFor }: RunWaits): string {
  const names = waitsFor.map((name) => JSON.stringify(name)).join(", ");
  const parts = [...(names === "" ? [] : [`for ${names}`]), ...(dueAt === NEVER ? [] : [`until ${dueAt}`])];
  return `waits ${parts.join(", at most ")}`;
}

/** Without the limit of a wait for an event: lists show it beside the label. */
function labelOfWaits(waits: RunWaits): string {
  return `Run ${textOfWaits(waits.waitsFor.length === 0 ? waits : { ...waits, dueAt: NEVER })}`;
}

/** The reason for the failure of a run that ended its workers. */
class AttemptsError extends Error {
  override readonly name = "AttemptsError";

  constructor(lost: number) {
    super(
      `${lost} attempts in a row ended without a save: each was killed, lost its lease, or met an error of the storage, ` +
        "before it recorded anything. The recorded steps are kept. Find the reason in the workers' logs, then put the task " +
        'back with "waymark retry".',
    );
  }
}

/** A run's function. The types of `CheckpointManager.run` ensure that it takes this run and the schema's state. */
export type AnyFunction = (run: never) => unknown;

/** A run that isn't completed. */
type ToRun = Extract<Found, { readonly isCompleted: false }>;

/** One attempt of a run, under a lease. */
export class Attempt {
  readonly #store: RunStore;
  readonly #taskId: string;
  readonly #fn: AnyFunction;
  readonly #stop: StopSignal;
  readonly #isNew: boolean;
  readonly #values: StepValues;
  readonly #journal: RunJournal;
  readonly #events: RunEvents;
  readonly #claimed: ClaimedRun | undefined;
  readonly #lease: Lease;
  #failedStep: StepHead | undefined;

  constructor({
    store,
    fn,
    lease,
    stop,
    found,
    claimed,
    parent,
  }: {
    readonly store: RunStore;
    readonly fn: AnyFunction;
    readonly lease: Lease;
    readonly stop: StopSignal;
    readonly found: ToRun;
    /** Given if a worker has claimed the task. */
    readonly claimed: ClaimedRun | undefined;
    /** Given if the run began within another run. */
    readonly parent: ParentRun | undefined;
  }) {
    const { taskId } = lease;
    this.#store = store;
    this.#taskId = taskId;
    this.#fn = fn;
    this.#stop = stop;
    this.#isNew = found.isNew;
    this.#claimed = claimed;
    this.#lease = lease;
    this.#values = new StepValues(taskId, store.options);
    this.#events = new RunEvents(store, taskId);
    const failed = (error: unknown) => stop.stop(error);
    this.#journal = new RunJournal({ store, lease, standing: found.standing, parent, failed });
  }

  async run(): Promise<unknown> {
    const { notifications } = this.#store;
    const taskId = this.#taskId;
    try {
      await this.#begin();
      if (this.#claimed !== undefined) this.#onPause(() => void this.#journal.pausing());
      const { attempt, turn } = this.#journal.head;
      notifications.emit("runStarted", { taskId, attempt, turn, recordedSteps: this.#journal.steps.size });
      const result = await this.#turns();
      notifications.emit("runEnded", { taskId, status: "completed" });
      return result;
    } catch (thrown) {
      throw await this.#ended(thrown);
    } finally {
      if (this.#claimed !== undefined) this.#claimed.isEndSaved = this.#journal.isEndSaved;
    }
  }

  /** See {@link ParentRun}. */
  async childSaved(): Promise<void> {
    this.#claimed?.childSaved();
    await this.#journal.childSaved();
  }

  /** Calls `call` once the run is asked to pause. A run that lets go of its worker is recorded as paused at once. */
  #onPause(call: () => void): void {
    const { signal } = this.#stop;
    const stopped = () => {
      if (signal.reason instanceof RunPausedError && !(signal.reason instanceof RunWaitsError)) call();
    };
    if (signal.aborted) stopped();
    else signal.addEventListener("abort", stopped, { once: true });
  }

  async #begin(): Promise<void> {
    const { head, steps } = this.#journal;
    // The former attempt may have been killed before it marked them.
    const received = steps.all().flatMap(({ head: step }) => step.event?.id ?? []);
    try {
      await this.#events.receive(new Set(received));
    } catch (error) {
      // The function hasn't failed, so neither has the run. The next attempt marks them.
      this.#stop.stop(error);
      throw error;
    }
    if (this.#claimed === undefined) {
      if (this.#isNew) await this.#journal.save({ isTransient: true, label: "Run started" });
      return;
    }
    const { nextToken, starts = 0 } = head;
    if (starts >= this.#claimed.maxAttempts) throw new AttemptsError(starts);
    // Without claims that saved nothing, the first save needn't wait for the start to be counted.
    if (nextToken !== undefined && this.#lease.token <= nextToken) return;
    // If this attempt is killed before it saves anything, the next one counts it by this save.
    const label = nextToken === undefined ? "Run started" : this.#journal.after("Run resumed");
    await this.#journal.save({ isTransient: true, label, starts: starts + 1 });
  }

  async #turns(): Promise<unknown> {
    for (;;) {
      const turn = this.#turn();
      let returned: unknown;
      let next: NextTurn | undefined;
      try {
        returned = await this.#fn(turn as never);
        await turn.end();
        // If the run was stopped, the function may have caught the error of the stop, so its result can't be trusted.
        this.#stop.signal.throwIfAborted();
        next = turn.nextOf(returned);
      } catch (error) {
        await turn.end();
        // A stop isn't the function's own error, so the errors that the function caught before it stay recorded.
        if (!this.#stop.signal.aborted && !isStop(error)) this.#failedStep = turn.forgetErrorsOf(error);
        throw error;
      }
      turn.tellUnused();
      if (next === undefined) return await this.#complete(returned);
      await this.#journal.next(next.state, next.options);
      this.#stop.signal.throwIfAborted();
    }
  }

  #turn(): Turn {
    const { begin, input, head } = this.#journal;
    const { generation } = head;
    const suspend = (waits: RunWaits) => this.#stop.stop(new RunWaitsError(this.#taskId, waits));
    return new Turn({
      store: this.#store,
      journal: this.#journal,
      values: this.#values,
      events: this.#events,
      stop: this.#stop,
      taskId: this.#taskId,
      state: begin === undefined ? undefined : this.#store.decodeState(this.#taskId, generation, begin),
      input: input === undefined ? undefined : this.#values.valueOf("input", input),
      suspend: this.#claimed && suspend,
    });
  }

  async #complete(returned: unknown): Promise<unknown> {
    const result = this.#values.textOf("result", returned);
    const label = "Run completed";
    await this.#journal.save({ status: "completed", isTurnOver: true, isEnd: true, result, label });
    return this.#values.valueOf("result", result);
  }

  /**
   * Records the end of an attempt that threw, unless the lease is lost or a save failed. Returns the error for the
   * caller.
   */
  async #ended(thrown: unknown): Promise<unknown> {
    const { notifications } = this.#store;
    const [taskId, { signal }] = [this.#taskId, this.#stop];
    const reason: unknown = signal.aborted ? signal.reason : this.#pauseFor(thrown);
    if (!signal.aborted && !(reason instanceof RunPausedError)) {
      await this.#record({ status: "failed", isEnd: true, error: thrown, ...this.#failure() });
      if (!(thrown instanceof AttemptsError)) this.#warnOfRecordedResults();
      notifications.emit("runEnded", { taskId, status: "failed", error: thrown });
      return thrown;
    }
    if (reason instanceof RunPausedError) {
      const waits = reason instanceof RunWaitsError ? reason.waits : undefined;
      const label = waits === undefined ? this.#journal.after("Run paused") : labelOfWaits(waits);
      await this.#record({ isTransient: true, isEnd: true, status: "paused", label, waits });
      if (waits !== undefined) await this.#wake();
      notifications.emit("runPaused", { taskId, error: reason });
    } else notifications.emit("runEnded", { taskId, status: "stopped", error: reason });
    noteStop(reason);
    return reason;
  }

  /** Warns of results that make the next run end in the same way, and of errors that it gets again. */
  #warnOfRecordedResults(): void {
    const kept = keptErrorsText(this.#journal.steps.all().map(({ head }) => head));
    const isOwn = this.#failedStep === undefined && this.#journal.steps.size > 0;
    if (kept === undefined && !isOwn) return;
    const own =
      " with an error that no step threw. The next run reuses the recorded results, so fix the function, or start over with " +
      "`restart: true`";
    const failed = `The run of task ${JSON.stringify(this.#taskId)} failed${isOwn ? own : ""}`;
    this.#store.options.logger.warn({ taskId: this.#taskId }, kept === undefined ? failed : `${failed}. ${kept}`);
  }

  /** If a child run outside of all steps couldn't go on: the error that pauses this run. Otherwise the same error. */
  #pauseFor(thrown: unknown): unknown {
    if (!isError(thrown) || thrown instanceof RunPausedError || !isStop(thrown)) return thrown;
    return pausedBy(this.#taskId, thrown);
  }

  /** An event that came before the run was recorded as paused found nothing to wake. So this looks again. */
  async #wake(): Promise<void> {
    try {
      await this.#store.makeDueIfEventPending(this.#taskId);
    } catch (error) {
      // A task whose lease isn't released is due once the lease has expired.
      if (this.#claimed !== undefined) this.#claimed.mayRelease = false;
      this.#store.options.logger.warn(
        { taskId: this.#taskId, error },
        "A paused run couldn't look for events; a worker continues it once its lease has expired",
      );
    }
  }

  /** What the checkpoint of a failure says of the step that failed. */
  #failure(): Pick<Parameters<RunJournal["save"]>[0], "label" | "failedStep"> {
    if (this.#failedStep === undefined) return { label: this.#journal.after("Run failed") };
    const { name, occurrence, startedAt, durationMs = 0, attempts = 1, runAttempt } = this.#failedStep;
    return {
      label: `Run failed in ${stepTitle(name, occurrence)}`,
      failedStep: { name, occurrence, startedAt, runAttempt, durationMs, attempts },
    };
  }

  async #record(saving: Parameters<RunJournal["save"]>[0]): Promise<void> {
    try {
      await this.#journal.save(saving);
    } catch (error) {
      // A cancelled run has its end.
      if (error instanceof RunCancelledError) return;
      this.#store.options.logger.warn({ taskId: this.#taskId, error }, "The end of a run could not be recorded");
    }
  }
}

/**
 * Runs an attempt, and publishes it on `waymark:run`. Its record keeps the `traceparent` that a subscriber gives, instead
 * of the former attempt's.
 */
export function tracedAttempt(
  taskId: string,
  found: ToRun,
  stop: AbortSignal,
  run: (found: ToRun) => Promise<unknown>,
): Promise<unknown> {
  const { traceparent: previousTraceparent, ...head } = found.standing.head;
  const runUnder = (traceparent: string | undefined) =>
    run({
      ...found,
      standing: { ...found.standing, head: { ...head, ...(traceparent === undefined ? undefined : { traceparent }) } },
    });
  if (!tracing.run.hasSubscribers) return runUnder(undefined);
  const { attempt, turn } = head;
  const context: DiagnosticsMessages["waymark:run"] = {
    taskId,
    attempt,
    turn,
    ...(previousTraceparent === undefined ? undefined : { previousTraceparent }),
  };
  return traced(
    tracing.run,
    context,
    () => runUnder(context.traceparent),
    () => ended("completed"),
    (thrown) => ended(thrown instanceof RunPausedError ? "paused" : stop.aborted ? "stopped" : "failed"),
  );
}

type Status = NonNullable<DiagnosticsMessages["waymark:run"]["status"]>;

function ended(status: Status): { readonly status: Status } {
  return { status };
}
