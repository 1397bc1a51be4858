import type { EncodedState } from "../codec/json.js";
import { CheckpointConflictError, RunCancelledError, RunPausedError } from "../contract/errors.js";
import { ATTEMPTS_ERROR, keptErrorsText, stepTitle } from "../contract/run-record.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import { onAbort } from "../manager/abort-signals.js";
import type { Lease } from "../manager/lease.js";
import { type DiagnosticsMessages, traced, tracing } from "../manager/tracing.js";
import { RunJournal } from "./journal.js";
import type { Parent, ParentRun } from "./nesting.js";
import type { NextTurn } from "./run.js";
import { RunEvents } from "./run-events.js";
import type { RunState } from "./run-state.js";
import type { RunStore } from "./run-store.js";
import { StepValues } from "./step-values.js";
import { isStop, markStop, pausedBy, type StopSignal } from "./stops.js";
import { Turn } from "./turn.js";
import type { AttemptParts } from "./turn-calls.js";

/** A task that a worker has claimed. Its run frees the worker's slot while it waits. */
export interface ClaimedRun {
  readonly lease: Lease;
  readonly state: RunState;
  /** After this many attempts in a row that recorded nothing, the run is recorded as failed. */
  readonly maxAttempts: number;
  /** Called when a child run has recorded something. */
  childSaved(): void;
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

/**
 * Makes the label of a suspended run. Lists show the time limit of a wait for an event next to the label, so the label
 * leaves it out.
 */
function waitsLabel(waits: RunWaits): string {
  return `Run ${describeWaits(waits.waitsFor.length === 0 ? waits : { ...waits, dueAt: NEVER })}`;
}

/** The error of a run that kept crashing its workers. */
class AttemptsError extends Error {
  override readonly name = ATTEMPTS_ERROR;
  /** The steps that the last attempt had started: `render`, `render and 2 more`; `undefined` if it had started none. */
  readonly where: string | undefined;

  /** @param running - The steps that the last attempt had started. */
  constructor(crashes: number, running: readonly string[]) {
    const [first] = running;
    const steps = running.map((title) => JSON.stringify(title)).join(", ");
    const what = steps === "" ? "outside of all steps" : `in ${running.length === 1 ? "step" : "the steps"} ${steps}`;
    super(
      `${crashes} attempts in a row ended without recording anything: each was killed, lost its lease, or met a storage ` +
        `error. The last one ended ${what}. Find the reason in the workers' logs.`,
    );
    this.where = running.length > 1 ? `${first} and ${running.length - 1} more` : first;
  }
}

/** A run's function. The types of `CheckpointManager.run` ensure that it takes this run and the schema's state. */
export type AnyFunction = (run: never) => unknown;

/** One attempt of a run, under a lease. */
export class Attempt {
  readonly #parts: AttemptParts;
  readonly #fn: AnyFunction;
  readonly #state: RunState;
  readonly #claimed: ClaimedRun | undefined;
  #turn: Turn | undefined;
  #errors: ReturnType<Turn["sortErrors"]> = { dropped: [], kept: [] };

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
    readonly parent: Parent | undefined;
  }) {
    const { taskId } = lease;
    this.#fn = fn;
    this.#state = state;
    this.#claimed = claimed;
    const journal = new RunJournal(store, lease, state, parent, (error) => stop.stop(error));
    this.#parts = {
      store,
      taskId,
      journal,
      values: new StepValues(taskId, store.options),
      events: new RunEvents(store, taskId, state.note.received, state.steps, () => journal.lastSequence),
      stop,
      suspend: claimed && ((waits) => stop.stop(new RunWaitsError(taskId, waits))),
    };
  }

  /**
   * Runs the attempt, and publishes it on `waymark:run`. If a subscriber sets `traceparent`, the run's checkpoints
   * record it instead of the former attempt's.
   */
  async run(): Promise<unknown> {
    if (!tracing.run.hasSubscribers) return this.#run();
    const { taskId, journal, stop } = this.#parts;
    const { attempt, turn } = journal.head;
    const { previousTraceparent } = this.#state;
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
          if (reason instanceof RunPausedError && !(reason instanceof RunWaitsError)) void journal.notePausing();
        });
      }
      const { attempt, turn } = journal.head;
      store.notifications.emit("runStarted", { taskId, attempt, turn, recordedSteps: journal.recordedSteps });
      const result = await this.#turns();
      store.notifications.emit("runEnded", { taskId, status: "completed" });
      return result;
    } catch (thrown) {
      throw await this.#end(thrown);
    }
  }

  /** See {@link ParentRun}. */
  get taskId(): string {
    return this.#parts.taskId;
  }

  /** See {@link ParentRun}. */
  get turn(): number {
    return this.#parts.journal.head.turn;
  }

  /** See {@link ParentRun}. */
  async childSaved(): Promise<void> {
    this.#claimed?.childSaved();
    await this.#parts.journal.noteProgress("A child run has recorded something");
  }

  /** Records the start of the attempt, so that it is counted. */
  async #begin(): Promise<void> {
    const { journal } = this.#parts;
    const { start, crashes, running, input } = this.#state;
    if (start === "turn") {
      const isNew = journal.head.generation === "";
      const encoded = isNew && input !== undefined && (["input", input] as const);
      const records = () => (encoded ? [{ kind: "run", fields: { type: "input" }, encoded } as const] : []);
      const label = isNew ? "Run started" : "Run resumed";
      await journal.save({ isTransient: true, startsTurn: true, label, records });
    } else if (start === "resume") {
      await journal.save({ isTransient: true, label: journal.labelAfterLast("Run resumed") });
    } else {
      await journal.append({ kind: "mark" }, true);
    }
    if (this.#claimed !== undefined && crashes >= this.#claimed.maxAttempts) throw new AttemptsError(crashes, running);
  }

  async #turns(): Promise<unknown> {
    const { store, taskId, journal, values, events, stop } = this.#parts;
    const { input } = this.#state;
    for (;;) {
      const state = store.decodeState(taskId, journal.head.generation, journal.begin);
      const turn = new Turn(this.#parts, state, input && values.decode(input));
      this.#turn = turn;
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
        if (!stop.signal.aborted && !isStop(error)) this.#errors = turn.sortErrors(error);
        throw error;
      }
      turn.warnOfUnused();
      if (next === undefined) {
        const result = values.encodeRunValue("result", returned);
        await this.#complete(result);
        return values.decode(result);
      }
      await journal.endTurn(next.state, next.options, await events.endTurn());
      stop.signal.throwIfAborted();
    }
  }

  async #complete(result: EncodedState): Promise<void> {
    const { journal, events } = this.#parts;
    const received = await events.endTurn();
    await journal.save({
      status: "completed",
      label: "Run completed",
      note: { isOver: true, ...(received && { received }) },
      records: () => [{ kind: "run", fields: { type: "completed" }, encoded: ["result", result] }],
    });
    this.#noteEnd();
  }

  /**
   * Records the end of an attempt that threw, unless the lease is lost or a save failed. Returns the error for the
   * caller.
   */
  async #end(thrown: unknown): Promise<unknown> {
    const { store, taskId, stop } = this.#parts;
    const { notifications } = store;
    // If a child run outside of all steps couldn't continue, this run is paused.
    const ownReason = isStop(thrown) && !(thrown instanceof RunPausedError) ? pausedBy(taskId, thrown) : thrown;
    const reason: unknown = stop.signal.aborted ? stop.signal.reason : ownReason;
    const pause = reason instanceof RunPausedError ? reason : undefined;
    if (pause === undefined && stop.signal.aborted) {
      notifications.emit("runEnded", { taskId, status: "stopped", error: reason });
      return markStop(reason);
    }
    try {
      await (pause ? this.#recordPause(pause) : this.#recordFailure(thrown));
      this.#noteEnd();
    } catch (error) {
      // The end of a cancelled run is already recorded.
      if (!(error instanceof RunCancelledError))
        store.options.logger.warn({ taskId, error }, "The end of a run could not be recorded");
    }
    if (pause !== undefined) {
      notifications.emit("runPaused", { taskId, error: pause });
      return markStop(pause);
    }
    if (!(thrown instanceof AttemptsError)) this.#warnOfRecordedResults();
    notifications.emit("runEnded", { taskId, status: "failed", error: thrown });
    return thrown;
  }

  /**
   * Records that the run is paused. A suspended run becomes due when an event arrives that it waits for. If the event
   * has already arrived, it is among the events read here, or it makes the save fail and the loop reads it.
   */
  async #recordPause(reason: RunPausedError): Promise<void> {
    const { store, journal, events } = this.#parts;
    const nowText = () => new Date(store.options.clock()).toISOString();
    if (!(reason instanceof RunWaitsError)) {
      const open = this.#turn?.findWaits();
      // A run that paused for a reason other than its waits is due at once.
      const waits = open && { ...open, dueAt: nowText() };
      await journal.save({ isTransient: true, status: "paused", label: journal.labelAfterLast("Run paused"), waits });
      return;
    }
    const { waits } = reason;
    for (;;) {
      await events.readAll();
      const { readTo } = events;
      const isAnswered = this.#turn?.isAnswered();
      try {
        await journal.save({
          isTransient: true,
          status: "paused",
          label: waitsLabel(waits),
          waits: isAnswered ? { ...waits, dueAt: nowText() } : waits,
          noEventAfter: readTo,
        });
        return;
      } catch (error) {
        if (!(error instanceof CheckpointConflictError)) throw error;
        await events.readAll();
        // No new event: another writer has saved a checkpoint.
        if (events.readTo === readTo) throw error;
      }
    }
  }

  async #recordFailure(error: unknown): Promise<void> {
    const { journal, values } = this.#parts;
    const { dropped, kept } = this.#errors;
    const [failed] = dropped;
    const where = error instanceof AttemptsError ? error.where : failed && stepTitle(failed.name, failed.occurrence);
    const fields = {
      type: "failed",
      dropped: dropped.flatMap(({ sequence, isInterrupted }) => (isInterrupted ? [] : [[sequence, sequence]])),
      kept: kept.map(({ name, occurrence }) => ({ name, occurrence })),
    };
    await journal.save({
      status: "failed",
      error,
      label: where === undefined ? journal.labelAfterLast("Run failed") : `Run failed in ${where}`,
      records: () => [{ kind: "run", fields, encoded: ["error", values.encodeRunError(error)] }],
    });
  }

  /** Notes that the end of the attempt is stored, and wakes the calls that wait for the result. */
  #noteEnd(): void {
    const { store, taskId } = this.#parts;
    store.wake(taskId);
    if (this.#claimed !== undefined) this.#claimed.isEndSaved = true;
  }

  /**
   * Warns of recorded results that would make the next run fail in the same way, and of recorded errors that it would
   * get again.
   */
  #warnOfRecordedResults(): void {
    const { store, taskId, journal } = this.#parts;
    const kept = keptErrorsText(this.#errors.kept);
    const isOwn = this.#errors.dropped.length === 0 && journal.recordedSteps > 0;
    if (kept === undefined && !isOwn) return;
    const own =
      " with an error that no step threw. The next run reuses the recorded results, so fix the function, or start over with " +
      "`restart: true`";
    const failed = `The run of task ${JSON.stringify(taskId)} failed${isOwn ? own : ""}`;
    store.options.logger.warn({ taskId }, kept === undefined ? failed : `${failed}. ${kept}`);
  }
}
