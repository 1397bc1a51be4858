import { checkSignal, checkTaskId } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import {
  CheckpointConflictError,
  CheckpointCorruptError,
  CheckpointNotFoundError,
  LeaseHeldError,
  RunCancelledError,
  RunFailedError,
  RunPausedError,
  StepInterruptedError,
} from "../contract/errors.js";
import { readRunNote } from "../contract/run-note.js";
import { formatRunKey } from "../contract/run-record.js";
import { hasEnded, isCancelled } from "../contract/transient.js";
import { anySignal, pause } from "../manager/abort-signals.js";
import { checkOptions } from "../manager/check-options.js";
import { type Lease, TaskLease } from "../manager/lease.js";
import { draftEncoded } from "../manager/record-drafts.js";
import { type AnyFunction, Attempt, type ClaimedRun } from "./attempt.js";
import { findCallName, findParent, runInCall } from "./nesting.js";
import { Poller } from "./poller.js";
import type { RunOptions } from "./run.js";
import { checkDate, checkRunOptions } from "./run-options.js";
import { type RunState, readResult, readRunError, readRunState } from "./run-state.js";
import { ANY_TASK, type RunStore } from "./run-store.js";
import { joinFields } from "./step-values.js";
import { StopSignal, throwStop } from "./stops.js";

/** The options of `manager.enqueue`. */
interface EnqueueOptions {
  readonly dueAt?: Date | undefined;
}

const CLAIM_EVERY_MS = 100;

/** The runs of one manager: at most one per task. */
export class Runs {
  readonly #store: RunStore;
  readonly #autoSaves: { has(taskId: string): boolean };
  /** The leases of the tasks whose runs are under way. */
  readonly #leases = new Map<string, Lease>();

  constructor(store: RunStore, autoSaves: { has(taskId: string): boolean }) {
    this.#store = store;
    this.#autoSaves = autoSaves;
  }

  has(taskId: string): boolean {
    return this.#leases.has(taskId);
  }

  /** @throws {TypeError} The call comes from inside one of these runs, so it would wait for itself. */
  assertOutside(what: string): void {
    const taskId = findCallName(this);
    if (taskId === undefined || !this.has(taskId)) return;
    throw new TypeError(
      `${what} was called inside the run of task ${JSON.stringify(taskId)}, so it would wait for itself. Call it once manager.run has ` +
        "resolved. To stop the run from outside, abort the `signal` that manager.run takes.",
    );
  }

  async run(taskId: string, fn: AnyFunction, options: RunOptions): Promise<unknown> {
    checkTaskId(taskId);
    if (typeof fn !== "function") throw new TypeError("manager.run needs a task id and a function.");
    checkRunOptions(taskId, options);
    if (findCallName(this, taskId) !== undefined) {
      throw new TypeError(
        `manager.run was called for task ${JSON.stringify(taskId)} inside that task's own run. Give the child run its own task id.`,
      );
    }
    if (this.#autoSaves.has(taskId)) {
      throw new TypeError(
        `Task ${JSON.stringify(taskId)} has an auto-save. Call its stop() first, since a run saves its own checkpoints.`,
      );
    }
    const completed = await this.#readCompleted(taskId, options).catch(throwStop);
    return completed === undefined ? this.#stoppable(taskId, fn, options) : completed.result;
  }

  /**
   * Reads the run of a task that a worker has claimed.
   *
   * @throws {LeaseLostError} Another runner has taken the task since.
   */
  async readClaimed(lease: TaskLease, options: RunOptions): Promise<RunState> {
    const { taskId } = lease;
    const state = await readRunState({ store: this.#store, taskId, options });
    if (!state.isCompleted) return state;
    // If the process was suspended after the claim, another process may have completed the task. The renewal then
    // throws.
    await lease.renew();
    throw new CheckpointCorruptError(
      `The storage gave task ${JSON.stringify(taskId)} to a worker, but the task's newest intact checkpoint is completed. Either a newer ` +
        "checkpoint is damaged, or the storage's record of due tasks is wrong. Nothing was run or changed. " +
        '"waymark verify" shows the damage, and "waymark repair" removes it from the task.',
    );
  }

  /** Runs a task that a worker has claimed and will release. */
  async runClaimed(claimed: ClaimedRun, fn: AnyFunction, options: RunOptions): Promise<unknown> {
    return this.#stoppable(claimed.lease.taskId, fn, { ...options, lease: claimed.lease }, claimed);
  }

  /**
   * Saves a run that hasn't started, so that a worker picks it up. Returns false if the task already has a run with the
   * same input.
   *
   * @throws {RunMismatchError} The task has a run with another input.
   */
  async enqueue(taskId: string, input: unknown, options: EnqueueOptions): Promise<boolean> {
    checkTaskId(taskId);
    checkOptions("EnqueueOptions", options, { dueAt: checkDate });
    const { dueAt } = options;
    const store = this.#store;
    for (;;) {
      const state = await readRunState({ store, taskId, options: { input, ifVersionChanged: "resume" } });
      if (state.isCompleted || state.isOfRun) return false;
      try {
        await this.#saveEnqueued(taskId, state, dueAt);
        store.wake(ANY_TASK);
        return true;
      } catch (error) {
        // Lost a race with another writer, perhaps of the same task: read again.
        if (!(error instanceof CheckpointConflictError)) throw error;
      }
    }
  }

  async result(taskId: string, options: { readonly signal?: AbortSignal | undefined }): Promise<unknown> {
    checkTaskId(taskId);
    checkOptions("ResultOptions", options, { signal: checkSignal });
    const store = this.#store;
    const newest = await this.#findEnd(taskId, anySignal(store.closing, options.signal));
    if (newest.status === "completed") return readRunNote(newest) && readResult(store, newest);
    if (isCancelled(newest)) throw new RunCancelledError(taskId, newest.error?.message ?? "");
    const cause = await readRunError(store, newest);
    const { message = "no reason was given", code } = newest.error ?? {};
    // A StepInterruptedError contains its own advice.
    const advice = code === StepInterruptedError.code ? "" : "; run it again, or put it back with `manager.retry`";
    throw new RunFailedError(
      taskId,
      `The run of task ${JSON.stringify(taskId)} failed: ${message.replace(/\.$/, "")}. Its recorded steps are kept${advice}.`,
      { cause },
    );
  }

  /** Waits for the checkpoint at which the run ends. The task may not have any checkpoint yet. */
  async #findEnd(taskId: string, signal: AbortSignal): Promise<CheckpointSummary> {
    const store = this.#store;
    const poller = new Poller(store, taskId);
    try {
      for (let idlePolls = 0; ; idlePolls++) {
        signal.throwIfAborted();
        poller.begin();
        const newest = await store.reader.newest(taskId).catch((error: unknown) => {
          if (!(error instanceof CheckpointNotFoundError)) throw error;
        });
        if (newest && hasEnded(newest) && (await store.isDurable(newest))) return newest;
        await poller.pauseForChange(signal, { idlePolls });
      }
    } finally {
      poller.end();
    }
  }

  /** Saves the checkpoint at which the run's first turn or next turn starts. */
  async #saveEnqueued(
    taskId: string,
    { note, input, newest, state }: RunState,
    dueAt: Date | undefined,
  ): Promise<void> {
    const store = this.#store;
    const { stage, transientId: replaces, id: resembles, sequence: expectedSequence } = newest;
    const draft = store.draft(taskId, {
      status: "paused",
      label: "Enqueued",
      stage,
      transient: { replaces },
      // Enqueuing doesn't count as an attempt.
      note: { ...note, attempt: note.attempt - 1 },
      waits: dueAt && { dueAt: dueAt.toISOString(), waitsFor: [] },
    });
    const isNew = note.generation === "";
    const recordKey = formatRunKey({ generation: draft.id, turn: note.turn, attempt: 0 });
    const record = { taskId, kind: "run", recordKey } as const;
    const records =
      isNew && input
        ? [await draftEncoded(store.options, record, joinFields({ type: "input" }, ["input", input]))]
        : [];
    await store.append(draft, state, { expectedSequence, replaces, resembles, records });
  }

  async #stoppable(taskId: string, fn: AnyFunction, options: RunOptions, claimed?: ClaimedRun): Promise<unknown> {
    const stop = new StopSignal(
      (why, cause) => new RunPausedError(taskId, why, { cause }),
      this.#store.closing,
      options,
    );
    try {
      return await this.#runUnderLease(taskId, fn, options, stop, claimed);
    } finally {
      await stop.end();
    }
  }

  /** Reads the result of a completed run, without claiming a lease. Returns `undefined` if the run isn't completed. */
  async #readCompleted(taskId: string, options: RunOptions): Promise<{ readonly result: unknown } | undefined> {
    if (options.restart || (await this.#store.reader.newestWhere(taskId))?.status !== "completed") return undefined;
    const state = await readRunState({ store: this.#store, taskId, options });
    return state.isCompleted ? state : undefined;
  }

  async #runUnderLease(
    taskId: string,
    fn: AnyFunction,
    options: RunOptions,
    stop: StopSignal,
    claimed: ClaimedRun | undefined,
  ): Promise<unknown> {
    const store = this.#store;
    const lease = options.lease ?? (await this.#claim(taskId, options, stop.signal).catch(throwStop));
    this.#leases.set(taskId, lease);
    const forget = stop.follow(lease.signal);
    try {
      const state = claimed?.state ?? (await readRunState({ store, taskId, options }).catch(throwStop));
      if (state.isCompleted) return state.result;
      const attempt = new Attempt({ store, fn, lease, stop, state, claimed, parent: findParent() });
      return await runInCall({ of: this, name: taskId, signal: stop.signal, run: attempt }, () => attempt.run());
    } finally {
      this.#leases.delete(taskId);
      forget();
      if (options.lease === undefined) await store.release(lease);
    }
  }

  /**
   * Claims the task. A child run's lease has the same duration as the parent run's. By default, a child run waits for
   * its lease as long as a lease lasts: a runner that died may have a lease on the child that expires later than its
   * lease on the parent.
   *
   * @throws {LeaseHeldError} Another runner still has the lease after `waitForLeaseMs`.
   */
  async #claim(taskId: string, options: RunOptions, signal: AbortSignal): Promise<Lease> {
    const parent = this.#leases.get(findCallName(this) ?? "");
    const leaseOptions = parent instanceof TaskLease ? { ttlMs: parent.ttlMs, holder: parent.holder } : {};
    const { waitForLeaseMs = leaseOptions.ttlMs ?? 0 } = options;
    const { runtime } = this.#store.options;
    const lastMs = runtime.elapsedMs() + waitForLeaseMs;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await this.#store.claim(taskId, leaseOptions);
      } catch (error) {
        const leftMs = lastMs - runtime.elapsedMs();
        if (!(error instanceof LeaseHeldError) || leftMs <= 0) throw error;
        // The holder may release the lease before it expires, so retry soon. If the signal aborts, the loop throws the
        // signal's reason.
        await pause(runtime, Math.min(leftMs, CLAIM_EVERY_MS), signal);
      }
    }
  }
}
