import type { StepHead } from "../codec/run-body.js";
import { RunCancelledError, RunPausedError } from "../contract/errors.js";
import { keptErrorsText, stepTitle } from "../contract/run-record.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import { onAbort } from "../manager/abort-signals.js";
import type { Lease } from "../manager/lease.js";
import { type DiagnosticsMessages, traced, tracing } from "../manager/tracing.js";
import { RunJournal, type RunSave } from "./journal.js";
import type { ParentRun } from "./nesting.js";
import type { NextTurn } from "./run.js";
import type { RunState } from "./run-state.js";
import type { RunStore } from "./run-store.js";
import { StepValues } from "./step-values.js";
import { isStop, markStop, pausedBy, type StopSignal } from "./stops.js";
import { RunEvents } from "./task-events.js";
import { Turn } from "./turn.js";
import type { AttemptParts } from "./turn-calls.js";

/** A task that a worker has claimed. Its run frees the worker's slot while it waits. */
export interface ClaimedRun {
  readonly lease: Lease;
  /** After so many claims without a save, the run is recorded as failed. */
  readonly maxAttempts: number;
  /**
   * Called once the run's state is read, and its function may be called.
   *
   * @param starts - How many claims in a row ended without a save before this one.
   */
  begins(starts: number): void;
  /** Called when a child run has recorded something. */
  childSaved(): void;
  /** Becomes false if the lease must expire, so that the task is due then. */
  mayRelease: boolean;
  /** Becomes true if the attempt's end is stored. Otherwise the task may still be due. */
  isEndSaved: boolean;
}

/** The run is suspended: it waits, and frees its worker's slot. */
export class RunWaitsError extends RunPausedError {
  readonly waits: RunWaits;

  constructor(taskId: string, waits: RunWaits) {
    super(taskId, `it ${describeWaits(waits)}`);
    this.waits = waits;
  }
}

function describeWaits({ dueAt, waitsFor }: RunWaits): string {
  const names = waitsFor.map((name) => JSON.stringify(name)).join(", ");
  const parts = [...(names === "" ? [] : [`for ${names}`]), ...(dueAt === NEVER ? [] : [`until ${dueAt}`])];
  return `waits ${parts.join(", at most ")}`;
}

/** Without the limit of a wait for an event: lists show it beside the label. */
function waitsLabel(waits: RunWaits): string {
  return `Run ${describeWaits(waits.waitsFor.length === 0 ? waits : { ...waits, dueAt: NEVER })}`;
}

/** The reason for the failure of a run that ended its workers. */
class AttemptsError extends Error {
  override readonly name = "AttemptsError";

  constructor(starts: number) {
    super(
      `${starts} attempts in a row ended without a save: each was killed, lost its lease, or met an error of the storage, ` +
        "before it recorded anything. The recorded steps are kept. Find the reason in the workers' logs, then put the task " +
        'back with "waymark retry".',
    );
  }
}

/** A run's function. The types of `CheckpointManager.run` ensure that it takes this run and the schema's state. */
export type AnyFunction = (run: never) => unknown;

/** One attempt of a run, under a lease. */
export class Attempt {
  readonly #parts: AttemptParts;
  readonly #fn: AnyFunction;
  readonly #lease: Lease;
  readonly #input: string | undefined;
  readonly #previousTraceparent: string | undefined;
  readonly #claimed: ClaimedRun | undefined;
  #failedStep: StepHead | undefined;

  constructor({
    store,
    fn,
    lease,
    stop,
    state,
    claimed,
    parent,
  }: {
    readonly store: RunStore;
    readonly fn: AnyFunction;
    readonly lease: Lease;
    readonly stop: StopSignal;
    readonly state: RunState;
    /** Given if a worker has claimed the task. */
    readonly claimed: ClaimedRun | undefined;
    /** Given if the run began inside another run. */
    readonly parent: ParentRun | undefined;
  }) {
    const { taskId } = lease;
    this.#fn = fn;
    this.#lease = lease;
    this.#input = state.input;
    this.#previousTraceparent = state.head.traceparent;
    this.#claimed = claimed;
    this.#parts = {
      store,
      taskId,
      journal: new RunJournal(store, lease, state, parent, (error) => stop.stop(error)),
      values: new StepValues(taskId, store.options),
      events: new RunEvents(store, taskId),
      stop,
      suspend: claimed && ((waits) => stop.stop(new RunWaitsError(taskId, waits))),
    };
  }

  /**
   * Runs the attempt, and publishes it on `waymark:run`. Its record keeps the `traceparent` that a subscriber gives,
   * instead of the former attempt's.
   */
  async run(): Promise<unknown> {
    if (!tracing.run.hasSubscribers) return this.#run();
    const { taskId, journal, stop } = this.#parts;
    const { attempt, turn } = journal.head;
    const previousTraceparent = this.#previousTraceparent;
    const context: DiagnosticsMessages["waymark:run"] = {
      taskId,
      attempt,
      turn,
      ...(previousTraceparent === undefined ? undefined : { previousTraceparent }),
    };
    const ended = (status: NonNullable<typeof context.status>) => ({ status });
    return traced(
      tracing.run,
      context,
      () => {
        const { traceparent } = context;
        if (traceparent !== undefined) journal.head = { ...journal.head, traceparent };
        return this.#run();
      },
      () => ended("completed"),
      (thrown) => ended(thrown instanceof RunPausedError ? "paused" : stop.signal.aborted ? "stopped" : "failed"),
    );
  }

  async #run(): Promise<unknown> {
    const { store, taskId, journal, stop } = this.#parts;
    try {
      await this.#begin();
      if (this.#claimed !== undefined) {
        onAbort(stop.signal, (reason) => {
          // A run that is suspended is recorded as paused at once.
          if (reason instanceof RunPausedError && !(reason instanceof RunWaitsError)) void journal.pausing();
        });
      }
      const { attempt, turn } = journal.head;
      store.notifications.emit("runStarted", { taskId, attempt, turn, recordedSteps: journal.steps.size });
      const result = await this.#turns();
      store.notifications.emit("runEnded", { taskId, status: "completed" });
      return result;
    } catch (thrown) {
      throw await this.#end(thrown);
    } finally {
      if (this.#claimed !== undefined) this.#claimed.isEndSaved = journal.isEndSaved;
    }
  }

  /** See {@link ParentRun}. */
  async childSaved(): Promise<void> {
    this.#claimed?.childSaved();
    await this.#parts.journal.childSaved();
  }

  async #begin(): Promise<void> {
    const { journal, events, stop } = this.#parts;
    // The former attempt may have been killed before it marked them.
    const received = journal.steps.all().flatMap(({ head }) => head.event?.id ?? []);
    try {
      await events.receive(new Set(received));
    } catch (error) {
      // The function hasn't failed, so neither has the run. The next attempt marks them.
      stop.stop(error);
      throw error;
    }
    const { generation, nextToken, starts = 0 } = journal.head;
    if (this.#claimed === undefined) {
      if (generation === "") await journal.save({ isTransient: true, label: "Run started" });
      return;
    }
    if (starts >= this.#claimed.maxAttempts) throw new AttemptsError(starts);
    // Without claims that saved nothing, the first save needn't wait for the start to be counted.
    if (nextToken !== undefined && this.#lease.token <= nextToken) return;
    // If this attempt is killed before it saves anything, the next one counts it by this save.
    const label = nextToken === undefined ? "Run started" : journal.labelAfterLast("Run resumed");
    await journal.save({ isTransient: true, label, starts: starts + 1 });
  }

  async #turns(): Promise<unknown> {
    const { store, taskId, journal, values, stop } = this.#parts;
    for (;;) {
      const { begin, head } = journal;
      const state = begin === undefined ? undefined : store.decodeState(taskId, head.generation, begin);
      const input = this.#input === undefined ? undefined : values.decodeRunValue("input", this.#input);
      const turn = new Turn(this.#parts, state, input);
      let returned: unknown;
      let next: NextTurn | undefined;
      try {
        returned = await this.#fn(turn as never);
        await turn.end();
        // If the run was stopped, the function may have caught the error of the stop, so its result can't be trusted.
        stop.signal.throwIfAborted();
        next = turn.takeNext(returned);
      } catch (error) {
        await turn.end();
        // A stop isn't the function's own error, so the errors that the function caught before it stay recorded.
        if (!stop.signal.aborted && !isStop(error)) this.#failedStep = turn.forgetErrors(error);
        throw error;
      }
      turn.warnOfUnused();
      if (next === undefined) {
        const result = values.encodeRunValue("result", returned);
        await journal.save({ status: "completed", isTurnOver: true, isEnd: true, result, label: "Run completed" });
        return values.decodeRunValue("result", result);
      }
      await journal.endTurn(next.state, next.options);
      stop.signal.throwIfAborted();
    }
  }

  /**
   * Records the end of an attempt that threw, unless the lease is lost or a save failed. Returns the error for the
   * caller.
   */
  async #end(thrown: unknown): Promise<unknown> {
    const { store, taskId, journal, stop } = this.#parts;
    const { notifications } = store;
    // If a child run outside of all steps couldn't continue, this run is paused.
    const ownReason = isStop(thrown) && !(thrown instanceof RunPausedError) ? pausedBy(taskId, thrown) : thrown;
    const reason: unknown = stop.signal.aborted ? stop.signal.reason : ownReason;
    if (reason instanceof RunPausedError) {
      const waits = reason instanceof RunWaitsError ? reason.waits : undefined;
      const label = waits === undefined ? journal.labelAfterLast("Run paused") : waitsLabel(waits);
      await this.#record({ isTransient: true, isEnd: true, status: "paused", label, waits });
      if (waits !== undefined) await this.#wake();
      notifications.emit("runPaused", { taskId, error: reason });
    } else if (stop.signal.aborted) {
      notifications.emit("runEnded", { taskId, status: "stopped", error: reason });
    } else {
      await this.#record({ status: "failed", isEnd: true, error: thrown, ...this.#failure() });
      if (!(thrown instanceof AttemptsError)) this.#warnOfRecordedResults();
      notifications.emit("runEnded", { taskId, status: "failed", error: thrown });
      return thrown;
    }
    return markStop(reason);
  }

  /** Warns of results that make the next run end in the same way, and of errors that it gets again. */
  #warnOfRecordedResults(): void {
    const { store, taskId, journal } = this.#parts;
    const kept = keptErrorsText(journal.steps.all().map(({ head }) => head));
    const isOwn = this.#failedStep === undefined && journal.steps.size > 0;
    if (kept === undefined && !isOwn) return;
    const own =
      " with an error that no step threw. The next run reuses the recorded results, so fix the function, or start over with " +
      "`restart: true`";
    const failed = `The run of task ${JSON.stringify(taskId)} failed${isOwn ? own : ""}`;
    store.options.logger.warn({ taskId }, kept === undefined ? failed : `${failed}. ${kept}`);
  }

  /** An event that came before the run was recorded as paused found nothing to wake. So this looks again. */
  async #wake(): Promise<void> {
    const { store, taskId } = this.#parts;
    try {
      await store.makeDueIfEventPending(taskId);
    } catch (error) {
      // A task whose lease isn't released is due once the lease has expired.
      if (this.#claimed !== undefined) this.#claimed.mayRelease = false;
      store.options.logger.warn(
        { taskId, error },
        "A paused run couldn't look for events; a worker continues it once its lease has expired",
      );
    }
  }

  /** What the checkpoint of a failure tells about the step that failed. */
  #failure(): Pick<RunSave, "label" | "failedStep"> {
    if (this.#failedStep === undefined) return { label: this.#parts.journal.labelAfterLast("Run failed") };
    const { name, occurrence, startedAt, durationMs = 0, attempts = 1, runAttempt } = this.#failedStep;
    return {
      label: `Run failed in ${stepTitle(name, occurrence)}`,
      failedStep: { name, occurrence, startedAt, runAttempt, durationMs, attempts },
    };
  }

  async #record(saving: RunSave): Promise<void> {
    const { store, taskId, journal } = this.#parts;
    try {
      await journal.save(saving);
    } catch (error) {
      // A cancelled run has its end.
      if (error instanceof RunCancelledError) return;
      store.options.logger.warn({ taskId, error }, "The end of a run could not be recorded");
    }
  }
}
