import { checkBoolean, checkFunction, checkSignal, checkText } from "../contract/arguments.js";
import {
  CheckpointConflictError,
  LeaseHeldError,
  LeaseLostError,
  RunCancelledError,
  RunPausedError,
  StorageError,
} from "../contract/errors.js";
import { nextTurn } from "../contract/runtime.js";
import { checkOptions, type OptionChecks, wholeFrom } from "../manager/check-options.js";
import { type LeaseOptions, resolveLeaseOptions, type TaskLease } from "../manager/lease.js";
import { type AnyFunction, type ClaimedRun, RunWaitsError } from "./attempt.js";
import { Poller } from "./poller.js";
import type { RunOptions } from "./run.js";
import type { RunState } from "./run-state.js";
import { ANY_TASK, type RunStore } from "./run-store.js";
import type { Runs } from "./runs.js";
import { isStop, StopSignal } from "./stops.js";

export interface WorkOptions extends Pick<RunOptions, "version" | "ifVersionChanged"> {
  /**
   * The worker takes only tasks whose ids begin with this. The prefix can't be empty, since the storage may also
   * contain tasks that aren't meant for workers.
   */
  readonly prefix: string;
  /** How many tasks to run at once. Default 1. */
  readonly concurrency?: number | undefined;
  /**
   * A task is recorded as failed after this many attempts in a row that ended without a save: each was killed, lost its
   * lease, or met a storage error. An attempt that paused doesn't count, nor does one that was killed after it was
   * asked to pause. After more than half of these attempts, the worker takes no other task until this one has recorded
   * a step or ended, since a task that crashes its worker also ends the other runs there. Default 5.
   */
  readonly maxAttempts?: number | undefined;
  /** Drains the worker when the signal aborts: the runs under way are paused, and their tasks are released. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Drains the worker on SIGINT, SIGTERM or SIGHUP. Afterwards the signal ends the process as it would without Waymark.
   * A second signal ends the process at once. Default true.
   */
  readonly pauseOnSignal?: boolean | undefined;
  /** The options of the tasks' leases. With a shorter `ttlMs`, the tasks of a dead worker are taken over sooner. */
  readonly leaseOptions?: LeaseOptions | undefined;
  /**
   * Called with the error of a run that failed or couldn't continue, or with the error of a failed claim, which has no
   * task id. The worker continues with other tasks. Default: the error is logged.
   */
  readonly onError?: ((error: unknown, taskId: string | undefined) => void) | undefined;
}

const DEFAULT_MAX_ATTEMPTS = 5;
/** A claim takes at most this many tasks, which leaves some to other workers. */
const MAX_CLAIMED = 16;
/** The longest pause between two claims. A task may become due by its time, or because its runner died. */
const POLL_MS = 250;
/** The longest pause after storage errors. The pause doubles with each error in a row. */
const MAX_PAUSE_MS = 10_000;
/** How long a worker leaves a task that it couldn't run to others. */
const REFUSED_MS = 30_000;
/** How long a worker leaves a task to others if the reason is temporary. */
const REFUSED_BRIEFLY_MS = 1000;

/** @internal Runs due tasks until the worker is drained. */
export class Worker {
  readonly #store: RunStore;
  readonly #runs: Runs;
  readonly #fn: AnyFunction;
  readonly #options: WorkOptions;
  readonly #stop: StopSignal;
  readonly #running = new Set<Promise<void>>();
  readonly #releasing = new Set<Promise<void>>();
  /** The tasks that this worker couldn't run, each with the time until which it leaves the task to others. */
  readonly #refused = new Map<string, number>();
  #slotIsFree: () => void = () => undefined;
  /** The running task that may have crashed its last workers and hasn't recorded anything yet. */
  #poisonTask: string | undefined;

  constructor(store: RunStore, runs: Runs, fn: AnyFunction, options: WorkOptions) {
    checkWorkOptions(options);
    if (typeof fn !== "function") throw new TypeError("manager.work needs its options and a function.");
    this.#store = store;
    this.#runs = runs;
    this.#fn = fn;
    this.#options = options;
    const { signal, pauseOnSignal = true } = options;
    this.#stop = new StopSignal(
      (why, cause) => new Error(`The worker is stopping: ${why}.`, { cause }),
      store.closing,
      { signal, pauseOnSignal },
    );
  }

  async work(): Promise<void> {
    const { notifications } = this.#store;
    const poller = new Poller(this.#store, ANY_TASK);
    const saved = ({ taskId }: { readonly taskId: string }) => this.#noteProgress(taskId);
    const listening = [notifications.on("stepEnded", saved), notifications.on("waitEnded", saved)];
    try {
      await this.#loop(poller);
    } finally {
      poller.end();
      for (const stopListening of listening) stopListening();
      await Promise.all(this.#running);
      await Promise.all(this.#releasing);
      await this.#stop.end();
    }
  }

  async #loop(poller: Poller): Promise<void> {
    const { concurrency = 1, leaseOptions = {}, prefix } = this.#options;
    const { signal } = this.#stop;
    let failures = 0;
    let claimed: readonly TaskLease[] = [];
    while (!signal.aborted) {
      // If the poison task crashes this worker as well, every other running task loses an attempt.
      if (this.#poisonTask !== undefined) {
        await this.#store.pause(ANY_TASK, POLL_MS, signal);
        continue;
      }
      if (this.#running.size >= concurrency) {
        await new Promise<void>((resolve) => {
          this.#slotIsFree = resolve;
        });
      }
      // Lets timers and signals fire even if claims never wait. It also lets runs whose saves share a statement end
      // together, so that one claim finds the next tasks for all of them.
      if (claimed.length > 0) await nextTurn(this.#store.options.runtime);
      if (signal.aborted) break;
      const free = concurrency - this.#running.size;
      claimed = [];
      poller.begin();
      try {
        const query = { prefix, except: this.#listRefused() };
        claimed = await this.#store.claimDue(query, leaseOptions, Math.min(free, MAX_CLAIMED));
        failures = 0;
      } catch (error) {
        // These two errors mean that another runner was quicker, or that the claim took too long.
        if (!(error instanceof LeaseHeldError || error instanceof LeaseLostError)) {
          failures += 1;
          this.#tell(error, undefined);
        }
      }
      if (claimed.length > 0) await this.#startAll(claimed);
      else if (failures === 0 && this.#store.isMultiProcess)
        await poller.pauseForChange(signal, { idlePolls: Number.POSITIVE_INFINITY, mostMs: POLL_MS });
      else await this.#store.pause(ANY_TASK, Math.min(POLL_MS * 2 ** failures, MAX_PAUSE_MS), signal);
      if (claimed.length > 0 || failures > 0 || this.#store.isMultiProcess || !this.#store.hasWatch) continue;
      await this.#waitForChange(poller);
    }
  }

  /** Waits until the storage has changed since the last claim, or until a task becomes due without a change. */
  async #waitForChange(poller: Poller): Promise<void> {
    const { options } = this.#store;
    const refused = this.#listRefused();
    // If the storage fails, the next claim reports the error.
    const dueMs = await this.#store.untilDue({ prefix: this.#options.prefix, except: refused }).catch(() => 0);
    const nowMs = options.clock();
    const ms = Math.min(dueMs, ...[...this.#refused.values()].map((untilMs) => untilMs - nowMs));
    await poller.pauseUntilChange(ms, this.#stop.signal);
  }

  /**
   * Starts the claimed tasks together. A task that may have crashed its last workers starts alone, since another crash
   * would also end the attempts of the other tasks.
   */
  async #startAll(leases: readonly TaskLease[]): Promise<void> {
    const { maxAttempts = DEFAULT_MAX_ATTEMPTS } = this.#options;
    const read = await Promise.all(leases.map((lease) => this.#read(lease)));
    const poison = read.find((claim) => claim && claim.state.crashes * 2 > maxAttempts);
    this.#poisonTask = poison?.lease.taskId;
    for (const claim of read) {
      if (claim === undefined) continue;
      if (this.#stop.signal.aborted || (poison !== undefined && claim !== poison)) this.#release(claim.lease);
      else this.#start(claim.lease, claim.state);
    }
  }

  /** Reads a claimed task's run. If the read fails, reports the error and leaves the task to other workers. */
  async #read(lease: TaskLease): Promise<{ readonly lease: TaskLease; readonly state: RunState } | undefined> {
    const { taskId } = lease;
    const { version, ifVersionChanged } = this.#options;
    try {
      return { lease, state: await this.#runs.readClaimed(lease, { version, ifVersionChanged }) };
    } catch (error) {
      this.#tell(error, taskId);
      this.#refuse(taskId, error);
      this.#release(lease);
      return undefined;
    }
  }

  #start(lease: TaskLease, state: RunState): void {
    const running = this.#run(lease, state).finally(() => {
      this.#running.delete(running);
      this.#noteProgress(lease.taskId);
      this.#slotIsFree();
    });
    this.#running.add(running);
  }

  async #run(lease: TaskLease, state: RunState): Promise<void> {
    const { taskId } = lease;
    const { version, ifVersionChanged, maxAttempts = DEFAULT_MAX_ATTEMPTS } = this.#options;
    const { signal } = this.#stop;
    let isPaused = false;
    const childSaved = () => this.#noteProgress(taskId);
    const claimed: ClaimedRun = { lease, state, maxAttempts, childSaved, isEndSaved: false };
    try {
      await this.#runs.runClaimed(claimed, this.#fn, { version, ifVersionChanged, signal });
    } catch (error) {
      isPaused = error instanceof RunWaitsError || (error instanceof RunPausedError && signal.aborted);
      if (!isPaused) this.#tell(error, taskId);
      // The task is still due: its end couldn't be stored, or a child run couldn't continue.
      if (!isPaused && (!claimed.isEndSaved || isStop(error))) this.#refuse(taskId, error);
    }
    // An event may have made the task due meanwhile. The next claim finds the task only if its lease is released.
    if (isPaused) await this.#store.release(lease);
    else this.#release(lease);
  }

  /**
   * Call this when the task has recorded something or has ended. If it was the poison task, the worker takes other
   * tasks again.
   */
  #noteProgress(taskId: string): void {
    if (this.#poisonTask === taskId) this.#poisonTask = undefined;
  }

  #release(lease: TaskLease): void {
    const releasing = this.#store.release(lease).finally(() => this.#releasing.delete(releasing));
    this.#releasing.add(releasing);
  }

  #refuse(taskId: string, error: unknown): void {
    this.#refused.set(taskId, this.#store.options.clock() + refusedMs(error));
  }

  #listRefused(): readonly string[] {
    const nowMs = this.#store.options.clock();
    for (const [taskId, untilMs] of this.#refused) if (untilMs <= nowMs) this.#refused.delete(taskId);
    return [...this.#refused.keys()];
  }

  #tell(error: unknown, taskId: string | undefined): void {
    const { onError } = this.#options;
    const { logger } = this.#store.options;
    if (onError === undefined) {
      logger.error(
        { taskId, error },
        taskId === undefined
          ? "A worker can't look for tasks"
          : `The run of task ${JSON.stringify(taskId)} ended with an error`,
      );
      return;
    }
    try {
      onError(error, taskId);
    } catch (thrown) {
      logger.error({ taskId, error: thrown }, "A worker's onError threw");
    }
  }
}

/** Returns how long to leave a task to other workers after its run has stopped with this error. */
function refusedMs(error: unknown): number {
  // The run was paused because a child run stopped with the cause.
  if (error instanceof RunPausedError && error.cause !== undefined) return refusedMs(error.cause);
  // Losing a lease takes time, so this can't become a busy loop. A cancelled task isn't due.
  if (error instanceof LeaseLostError || error instanceof RunCancelledError) return 0;
  const isChanged = error instanceof LeaseHeldError || error instanceof CheckpointConflictError;
  return isChanged || (error instanceof StorageError && error.retryable) ? REFUSED_BRIEFLY_MS : REFUSED_MS;
}

function checkWorkOptions(options: WorkOptions): void {
  checkOptions("WorkOptions", options, OPTION_CHECKS);
  if (options.prefix === undefined || options.prefix === "") {
    throw new TypeError("manager.work needs a prefix: the beginning of the ids of the tasks that it runs.");
  }
}

const OPTION_CHECKS: OptionChecks<WorkOptions> = {
  prefix: checkText,
  concurrency: wholeFrom(1),
  maxAttempts: wholeFrom(1),
  signal: checkSignal,
  pauseOnSignal: checkBoolean,
  leaseOptions: (_what, leaseOptions) => void resolveLeaseOptions(leaseOptions),
  onError: checkFunction,
  version: true,
  ifVersionChanged: true,
};
