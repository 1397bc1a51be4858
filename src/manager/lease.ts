import { setMaxListeners } from "node:events";
import type { StorageAdapter } from "../contract/adapter.js";
import { checkTaskId, checkText, MAX_DELAY_MS } from "../contract/arguments.js";
import {
  isError,
  LeaseHeldError,
  LeaseLostError,
  type RunCancelledError,
  UnsupportedOperationError,
} from "../contract/errors.js";
import { ownHolder } from "../contract/holder.js";
import type { ClaimOptions, LeaseStore } from "../contract/leases.js";
import { repeat } from "../contract/runtime.js";
import type { DueCount, DueQuery, TaskQueue } from "../contract/task-queue.js";
import { NEVER } from "../contract/transient.js";
import { findCancellation, watchCancellation } from "./cancellations.js";
import { checkOptions, wholeFrom } from "./check-options.js";
import type { ResolvedOptions } from "./options.js";
import { publishLostLease, traced, tracing } from "./tracing.js";

export interface LeaseOptions {
  /**
   * How long the lease lasts without a renewal, in milliseconds, from 100. The lease renews itself after each third of
   * this time. Default 30,000.
   */
  readonly ttlMs?: number | undefined;
  /**
   * The name of this runner, shown to other runners that claim the task. Default: the machine's name, the process id,
   * and a mark that distinguishes this process from all others. On SQLite and files (on Linux), the default holder's
   * lease is free once its process has ended. The lease of any other holder must expire.
   */
  readonly holder?: string | undefined;
}

/**
 * The right to run a task, until it is released or lost. Pass it to `save`, `setStatus` and `remove`. Once the lease is
 * lost, these calls change nothing and throw a LeaseLostError.
 */
export interface Lease extends AsyncDisposable {
  readonly taskId: string;
  readonly holder: string;
  /**
   * The fencing token: 1, 2, 3 … per task. Every claim of the task gets a higher token. So does a lease that is renewed
   * after it has expired.
   */
  readonly token: number;
  /** When the lease expires unless it is renewed, in ISO 8601 UTC by the manager's clock. */
  readonly expiresAt: string;
  /**
   * Aborts with a LeaseLostError once the lease is released or lost, or with a RunCancelledError if it is lost because
   * the task was cancelled. A lease is lost when it expires, or when a write under it is refused. If it expired because
   * the process was blocked or suspended, it is first renewed, and the signal aborts only if another runner has claimed
   * the task meanwhile.
   */
  readonly signal: AbortSignal;
  /**
   * Renews the lease now. If a renewal is already under way, waits for it instead. An expired lease is claimed again,
   * unless another runner has claimed the task since.
   *
   * @throws {LeaseLostError} The lease is lost.
   */
  renew(): Promise<void>;
  /**
   * Ends the lease, so that the task is free. Idempotent. Also release a lost lease, since the storage may still hold
   * it.
   */
  release(): Promise<void>;
}

/** Who has a task's lease, and until when. */
export type LeaseInfo = Pick<Lease, "taskId" | "holder" | "token" | "expiresAt">;

const DEFAULT_TTL_MS = 30_000;
const MIN_TTL_MS = 100;
/** If the expiry timer fires at least this late, the process was blocked or suspended, and couldn't renew the lease. */
const LATE_MS = 100;

/**
 * Claims a task.
 *
 * @throws {LeaseHeldError} Another runner holds the task's lease.
 * @throws {LeaseLostError} The lease expired before the storage answered, and another runner claimed the task.
 * @throws {UnsupportedOperationError} The storage has no leases.
 */
export async function claimLease(
  parts: LeaseParts,
  taskId: string,
  options: LeaseOptions,
  claimOptions?: ClaimOptions,
): Promise<TaskLease> {
  const { ttlMs, holder } = resolveLeaseOptions(options);
  const leases = requireLeases(parts.storage);
  return traced(
    tracing.claim,
    { taskId, holder },
    async () => {
      const askedAtMs = parts.runtime.elapsedMs();
      const claimed = await leases.claim(taskId, holder, ttlMs, claimOptions);
      if (!claimed.isGranted) throw new LeaseHeldError(taskId, { ...claimed, isOwn: claimed.holder === ownHolder() });
      return beginLease(parts, { taskId, holder, token: claimed.token, ttlMs, askedAtMs });
    },
    ({ token }) => ({ token }),
  );
}

/**
 * Claims at most `limit` of the tasks that are due. Returns no lease if no task is due.
 *
 * @throws {UnsupportedOperationError} The storage has no queue.
 */
export async function claimNextLeases(
  parts: LeaseParts,
  query: DueQuery,
  options: LeaseOptions,
  limit: number,
): Promise<readonly TaskLease[]> {
  const { ttlMs, holder } = resolveLeaseOptions(options);
  return traced(
    tracing.claim,
    { prefix: query.prefix, holder },
    async () => {
      const askedAtMs = parts.runtime.elapsedMs();
      const claimed = await requireQueue(parts.storage).claimNext(query, holder, ttlMs, limit);
      const begun = await Promise.allSettled(
        claimed.map((task) => beginLease(parts, { ...task, holder, ttlMs, askedAtMs })),
      );
      const held = begun.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
      // A task whose lease is lost is due again, so its error is thrown only if no lease was claimed.
      const [failed] = begun.filter((each) => each.status === "rejected");
      if (failed !== undefined && held.length === 0) throw failed.reason;
      return held;
    },
    (leases) => ({ taskIds: leases.map(({ taskId }) => taskId) }),
  );
}

/** @throws {TypeError | RangeError} An option is misspelled or out of range. */
export function resolveLeaseOptions(options: LeaseOptions): { readonly ttlMs: number; readonly holder: string } {
  checkOptions("LeaseOptions", options, {
    ttlMs: wholeFrom(MIN_TTL_MS, MAX_DELAY_MS),
    holder: (what, holder) => checkText(what, holder, 1),
  });
  const { ttlMs = DEFAULT_TTL_MS, holder = ownHolder() } = options;
  return { ttlMs, holder };
}

async function beginLease(parts: LeaseParts, claimed: Claimed): Promise<TaskLease> {
  const answeredAtMs = parts.runtime.elapsedMs();
  if (answeredAtMs - claimed.askedAtMs < renewalMs(claimed.ttlMs)) return new TaskLease(parts, claimed);
  // The answer took so long that the first timed renewal would come too late, and the lease may have expired. So it is
  // renewed at once.
  const lease = new TaskLease(parts, { ...claimed, askedAtMs: answeredAtMs });
  try {
    await lease.renew();
  } catch (error) {
    // If this fails too, the lease expires by itself.
    await lease.release().catch(() => undefined);
    throw error;
  }
  return lease;
}

/** Counts the tasks with the prefix that are due now, and returns since when the oldest one has been due. */
export function countDue({ storage, clock }: ResolvedOptions, prefix: string): Promise<DueCount> {
  return requireQueue(storage).count({ prefix, dueBy: new Date(clock()).toISOString() });
}

/**
 * Returns the milliseconds until a task of the query becomes due by itself, because its time comes or its lease
 * expires.
 */
export async function untilDue(
  { storage, clock }: LeaseParts,
  query: Pick<DueQuery, "prefix" | "except">,
): Promise<number> {
  const { oldestDueAt = NEVER } = await requireQueue(storage).count({ ...query, dueBy: NEVER });
  let ms = Date.parse(oldestDueAt) - clock();
  for await (const { taskId, remainingMs } of requireLeases(storage).held()) {
    if (taskId.startsWith(query.prefix)) ms = Math.min(ms, remainingMs);
  }
  return ms;
}

export async function readLease({ storage, clock }: LeaseParts, taskId: string): Promise<LeaseInfo | undefined> {
  checkTaskId(taskId);
  const held = await requireLeases(storage).current(taskId);
  if (held === undefined) return undefined;
  const { holder, token, remainingMs } = held;
  return { taskId, holder, token, expiresAt: new Date(clock() + remainingMs).toISOString() };
}

function renewalMs(ttlMs: number): number {
  return ttlMs / 3;
}

/** @throws {UnsupportedOperationError} The storage has no leases. */
function requireLeases({ leases, name }: StorageAdapter): LeaseStore {
  if (leases !== undefined) return leases;
  throw new UnsupportedOperationError(`The ${name} storage has no leases. Nothing was changed.`);
}

/** @throws {UnsupportedOperationError} The storage has no queue. */
export function requireQueue({ queue, name }: StorageAdapter): TaskQueue {
  if (queue !== undefined) return queue;
  throw new UnsupportedOperationError(`The ${name} storage has no queue for workers. Nothing was changed.`);
}

function lostLease(taskId: string, token: number, why: string, cause?: unknown): LeaseLostError {
  return new LeaseLostError(
    `The lease of task ${JSON.stringify(taskId)} under token ${token} is lost: ${why}. Stop this run, and claim the task again.`,
    { taskId, cause },
  );
}

/** The parts of the manager that leases use. */
type LeaseParts = Pick<ResolvedOptions, "storage" | "clock" | "runtime">;

interface Claimed {
  readonly taskId: string;
  readonly holder: string;
  readonly token: number;
  readonly ttlMs: number;
  /**
   * The time of the request to the storage, by the runtime's `elapsedMs`. The lease lasts at least `ttlMs` from this
   * time.
   */
  readonly askedAtMs: number;
}

/** A lease that renews itself. Its timers don't keep the process alive. */
export class TaskLease implements Lease {
  readonly taskId: string;
  readonly holder: string;
  readonly ttlMs: number;
  readonly #parts: LeaseParts;
  readonly #leases: LeaseStore;
  readonly #ending = new AbortController();
  readonly signal: AbortSignal = this.#ending.signal;
  readonly #endRenewals: () => void;
  readonly #endWatch: () => void;
  #renewing: Promise<void> | undefined;
  /** The error of the last renewal, if it failed. */
  #failure: unknown;
  #cancelExpiry: (() => void) | undefined;
  #expiresAtMs = 0;
  token: number;
  #released: Promise<void> | undefined;

  constructor(parts: LeaseParts, { taskId, holder, token, ttlMs, askedAtMs }: Claimed) {
    this.#parts = parts;
    this.#leases = requireLeases(parts.storage);
    this.ttlMs = ttlMs;
    this.taskId = taskId;
    this.holder = holder;
    this.token = token;
    // Each step under way may add a listener, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.signal);
    this.#extendFrom(askedAtMs);
    // If a renewal fails, the lease stays. The next renewal may succeed, or the lease expires.
    const renew = () =>
      void this.renew().catch((error: unknown) => {
        this.#failure = error;
      });
    this.#endRenewals = repeat(parts.runtime, renew, renewalMs(ttlMs));
    // A cancellation claims the task by force, so the renewal finds that the lease is lost.
    this.#endWatch = watchCancellation(parts, taskId, () => this.token, renew);
  }

  get expiresAt(): string {
    const { clock, runtime } = this.#parts;
    return new Date(clock() + this.#expiresAtMs - runtime.elapsedMs()).toISOString();
  }

  get hasExpired(): boolean {
    return this.#parts.runtime.elapsedMs() >= this.#expiresAtMs;
  }

  renew(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  release(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  /**
   * Ends the lease, because the storage refused a write under it, or another runner has claimed the task.
   *
   * @returns The reason: a RunCancelledError if the task was cancelled, otherwise `error`.
   */
  async lose(error: LeaseLostError): Promise<LeaseLostError | RunCancelledError> {
    const reason = (await findCancellation(this.#parts.storage, this.taskId)) ?? error;
    this.#lose(reason);
    return reason;
  }

  #lose(reason: LeaseLostError | RunCancelledError): void {
    if (!this.signal.aborted) publishLostLease(this);
    this.#stop(reason);
  }

  #stop(error: LeaseLostError | RunCancelledError): void {
    this.#endRenewals();
    this.#endWatch();
    this.#cancelExpiry?.();
    this.#ending.abort(error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #renew(): Promise<void> {
    this.signal.throwIfAborted();
    const askedAtMs = this.#parts.runtime.elapsedMs();
    const isHeld = await this.#leases.renew(this.taskId, this.token, this.ttlMs);
    if (!isHeld && !(await this.#claimedAgain())) {
      await this.lose(lostLease(this.taskId, this.token, "another runner has claimed the task since"));
    }
    this.signal.throwIfAborted();
    this.#extendFrom(askedAtMs);
  }

  /**
   * Claims the expired lease again. Returns false if another runner has claimed the task since, or the lease was
   * released.
   */
  async #claimedAgain(): Promise<boolean> {
    if (this.signal.aborted) return false;
    const claim = await this.#leases.claim(this.taskId, this.holder, this.ttlMs);
    if (!claim.isGranted) return false;
    // If `release` was called during the claim, it released the old token, so the new one is released here.
    const isNext = claim.token === this.token + 1 && !this.signal.aborted;
    if (isNext) this.token = claim.token;
    else await this.#leases.release(this.taskId, claim.token);
    return isNext;
  }

  async #release(): Promise<void> {
    const isLost = this.signal.aborted;
    this.#stop(lostLease(this.taskId, this.token, "it was released"));
    // A lost lease is released too, since the storage may have stored a renewal whose answer got lost.
    const released = this.#leases.release(this.taskId, this.token);
    await (isLost ? released.catch(() => undefined) : released);
  }

  #extendFrom(askedAtMs: number): void {
    const { runtime } = this.#parts;
    this.#failure = undefined;
    this.#cancelExpiry?.();
    this.#expiresAtMs = askedAtMs + this.ttlMs;
    const leftMs = Math.max(0, this.#expiresAtMs - runtime.elapsedMs());
    this.#cancelExpiry = runtime.setTimeout(() => this.#expire(), leftMs, true);
  }

  #expire(): void {
    const expired = () => this.#expired(this.#failure);
    const { runtime } = this.#parts;
    if (runtime.elapsedMs() - this.#expiresAtMs < LATE_MS) {
      expired();
      return;
    }
    this.#cancelExpiry = runtime.setTimeout(expired, renewalMs(this.ttlMs), true);
    void this.renew().catch((error: unknown) => this.#expired(error));
  }

  #expired(failure: unknown): void {
    const why = isError(failure) ? `. The last renewal failed: ${failure.message.replace(/\.$/, "")}` : "";
    this.#lose(lostLease(this.taskId, this.token, `it expired before it was renewed${why}`, failure));
  }
}
