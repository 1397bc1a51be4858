import { setTimeout as pause } from "node:timers/promises";
import { runText } from "../codec/run-body.js";
import { checkKeys, checkTaskId, keysOf } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointConflictError, CheckpointCorruptError, LeaseHeldError } from "../contract/errors.js";
import type { DueQuery } from "../contract/task-queue.js";
import { type Lease, type LeaseOptions, TaskLease } from "../manager/lease.js";
import { type AnyFunction, Attempt, type ClaimedRun, lostBefore, tracedAttempt } from "./attempt.js";
import type { AttemptHost } from "./journal.js";
import { enclosing, isEnclosed, parentRun, within } from "./nesting.js";
import type { RunOptions } from "./run.js";
import { checkDate, checkRunOptions } from "./run-options.js";
import { type Found, type StandingHost, standingOf } from "./standing.js";
import { StepValues } from "./step-values.js";
import { notingStops, StopSignal } from "./stop-signal.js";
import { ANY } from "./wakers.js";

/** The parts of a manager that its runs use. */
export interface RunsHost extends AttemptHost {
  /** Aborts when the manager closes, which then waits for its runs. */
  readonly closing: AbortSignal;
  claim(taskId: string, options: LeaseOptions): Promise<Lease>;
  /** Claims the next tasks that are due, at most `limit`. */
  claimNext(query: Omit<DueQuery, "dueBy">, options: LeaseOptions, limit: number): Promise<readonly TaskLease[]>;
  hasAutoSave(taskId: string): boolean;
}

const CLAIM_EVERY_MS = 100;

/** The runs of one manager: at most one per task. */
export class Runs {
  readonly #host: RunsHost;
  /** The leases of the tasks under way. */
  readonly #leases = new Map<string, Lease>();

  constructor(host: RunsHost) {
    this.#host = host;
  }

  has(taskId: string): boolean {
    return this.#leases.has(taskId);
  }

  /** @throws {TypeError} The call comes from within one of these runs, so it would wait for itself. */
  assertOutside(what: string): void {
    const taskId = enclosing(this);
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
    if (isEnclosed(this, taskId)) {
      throw new TypeError(
        `manager.run was called for task ${JSON.stringify(taskId)} inside that task's own run. Give the child run a task id of its own.`,
      );
    }
    if (this.#host.hasAutoSave(taskId)) {
      throw new TypeError(
        `Task ${JSON.stringify(taskId)} has an auto-save. stop() it first, since a run saves by itself.`,
      );
    }
    const completed = await notingStops(this.#completed(taskId, options));
    if (completed !== undefined) return completed.result;
    return this.#stoppable(taskId, fn, options);
  }

  /** Runs a task that a worker has claimed, and will release. */
  async runClaimed(claimed: ClaimedRun, fn: AnyFunction, options: RunOptions): Promise<unknown> {
    return this.#stoppable(claimed.lease.taskId, fn, { ...options, lease: claimed.lease }, claimed);
  }

  /** Saves a run for workers. */
  async enqueue(taskId: string, input: unknown, options: EnqueueOptions): Promise<boolean> {
    checkTaskId(taskId);
    checkEnqueueOptions(options);
    const { events, wakers } = this.#host;
    const saved = await enqueueRun(this.#standingHost(taskId), input, options);
    if (saved === undefined) return false;
    events.emit("saved", saved);
    wakers.wake(ANY);
    return true;
  }

  async #stoppable(taskId: string, fn: AnyFunction, options: RunOptions, claimed?: ClaimedRun): Promise<unknown> {
    const stop = new StopSignal(taskId, this.#host.closing, options);
    try {
      return await this.#underLease(taskId, fn, options, stop, claimed);
    } finally {
      stop.end();
      // The process is about to end. This promise never settles, since a rejection could end the process before the
      // other runs have paused.
      if (stop.isFinal) await new Promise(() => undefined);
    }
  }

  /** The result of a run that is completed already, read without a lease; `undefined` if the run isn't completed. */
  async #completed(taskId: string, options: RunOptions): Promise<{ readonly result: unknown } | undefined> {
    if (options.restart) return undefined;
    const newest = await this.#host.reader.newestWhere(taskId);
    if (newest?.status !== "completed") return undefined;
    const found = await this.#find(taskId, options);
    return found.isCompleted ? found : undefined;
  }

  #find(taskId: string, options: RunOptions): Promise<Found> {
    return standingOf(this.#standingHost(taskId), options);
  }

  #standingHost(taskId: string): StandingHost {
    return { ...this.#host, taskId, values: new StepValues(taskId, this.#host.options) };
  }

  async #underLease(
    taskId: string,
    fn: AnyFunction,
    options: RunOptions,
    stop: StopSignal,
    claimed: ClaimedRun | undefined,
  ): Promise<unknown> {
    const lease = options.lease ?? (await notingStops(this.#claim(taskId, options, stop.signal)));
    this.#leases.set(taskId, lease);
    try {
      stop.follow(lease.signal);
      const found = await notingStops(this.#find(taskId, options));
      if (found.isCompleted) {
        if (claimed !== undefined) throw isCompletedAndDue(taskId);
        return found.result;
      }
      claimed?.begins(lostBefore(lease, found.standing.head));
      let attempt: Attempt | undefined;
      const parts = { taskId, fn, lease, stop, claimed, outer: parentRun() };
      const run = (traced: typeof found) => {
        attempt = new Attempt(this.#host, { ...parts, found: traced });
        return attempt.run();
      };
      const own = { childSaved: async () => attempt?.childSaved() };
      return await within(this, taskId, stop.signal, () => tracedAttempt(taskId, found, stop.signal, run), own);
    } finally {
      this.#leases.delete(taskId);
      if (options.lease === undefined) {
        // If the release fails, the lease expires by itself.
        await lease.release().catch((error: unknown) => {
          this.#host.options.logger.warn(
            { taskId, error },
            "A run's lease could not be released; it expires by itself",
          );
        });
      }
    }
  }

  /**
   * Claims the task. A child run's lease lasts as long as the lease of the run around it. It waits so long by default:
   * if a runner has died, the child lease may expire after the parent.
   *
   * @throws {LeaseHeldError} Another runner still has the lease after `waitForLeaseMs`.
   */
  async #claim(taskId: string, options: RunOptions, signal: AbortSignal): Promise<Lease> {
    const outer = this.#leases.get(enclosing(this) ?? "");
    const own = outer instanceof TaskLease ? { ttlMs: outer.ttlMs, holder: outer.holder } : {};
    const { waitForLeaseMs = own.ttlMs ?? 0 } = options;
    const lastMs = performance.now() + waitForLeaseMs;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await this.#host.claim(taskId, own);
      } catch (error) {
        const leftMs = lastMs - performance.now();
        if (!(error instanceof LeaseHeldError) || leftMs <= 0) throw error;
        // The holder may release the lease before it expires, so this asks again soon.
        await pause(Math.min(leftMs, CLAIM_EVERY_MS), undefined, { signal }).catch(() => undefined);
      }
    }
  }
}

function isCompletedAndDue(taskId: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `The storage gave task ${JSON.stringify(taskId)} to a worker, but the task's newest intact checkpoint is completed. Either a newer ` +
      "checkpoint is damaged, or the storage's record of due tasks is wrong. Nothing was run or changed. " +
      '"waymark verify" shows the damage, and "waymark repair" removes it from the task.',
  );
}

/** The options of `manager.enqueue`. */
export interface EnqueueOptions {
  readonly dueAt?: Date | undefined;
}

/**
 * Saves a run that no attempt has begun, so that a worker takes it.
 *
 * @returns The saved checkpoint; `undefined` if the task has a run with the same input already.
 * @throws {RunMismatchError} The task has a run with another input.
 */
export async function enqueueRun(
  host: StandingHost,
  input: unknown,
  { dueAt }: EnqueueOptions,
): Promise<CheckpointSummary | undefined> {
  for (;;) {
    const found = await standingOf(host, { input, ifVersionChanged: "resume" });
    if (found.isCompleted || found.isOfRun) return undefined;
    const { head, steps: _steps, sequence, transientId: replaces, stage, ...texts } = found.standing;
    const waits = dueAt && { dueAt: dueAt.toISOString(), waitsFor: [] };
    const options = { status: "paused", label: "Enqueued", stage } as const;
    const draft = host.writer.draftOfRun(host.taskId, options, { replaces }, waits);
    const { generation, attempt } = head;
    const begun = {
      ...head,
      id: draft.id,
      generation: generation || draft.id,
      attempt: attempt - 1,
      isTurnOver: false,
    };
    const how = { replaces, isRepeated: false };
    try {
      return await host.writer.appendOfRun(
        draft,
        runText({ head: begun, ...texts }, ""),
        { expectedSequence: sequence },
        how,
      );
    } catch (error) {
      // Somebody saved meanwhile, perhaps the same task. So this looks again.
      if (!(error instanceof CheckpointConflictError)) throw error;
    }
  }
}

export function checkEnqueueOptions(options: EnqueueOptions): void {
  checkKeys("EnqueueOptions", options, keysOf<EnqueueOptions>({ dueAt: true }));
  if (options.dueAt !== undefined) checkDate("EnqueueOptions.dueAt", options.dueAt);
}
