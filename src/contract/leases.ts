import { LeaseLostError } from "./errors.js";
import { holderHasEnded } from "./holder.js";
import { CLOCK_SKEW_MS } from "./runtime.js";

/**
 * Grants leases. A lease is the right to run a task. An optional part of a `StorageAdapter`.
 *
 * - A claim MUST grant a task to one holder at a time. Each token MUST be higher than all earlier tokens of the task,
 *   even after the task was removed or the storage reopened. (cases: leases.one-holder, leases.tokens-grow)
 * - A write with a `fencingToken` MUST check it in its own atomic step: see {@link checkLease}. (cases: leases.fencing,
 *   leases.one-step)
 * - One clock MUST decide when a lease expires: the server's clock, or on a single machine `monotonicMs`, which
 *   nobody can set. (case: leases.expiry)
 *
 * {@link leaseStore} implements this interface on a storage's lease records.
 */
export interface LeaseStore {
  /**
   * Grants the task to the holder, unless a lease of the task is held. An expired lease isn't held.
   *
   * @param options.force - Takes the task even from its current holder, whose lease is then lost. (case: leases.forced)
   */
  claim(taskId: string, holder: string, ttlMs: number, options?: ClaimOptions): Promise<LeaseClaim>;
  /** Extends the lease to `ttlMs` from now. False if it had expired, was released, or belongs to another holder. */
  renew(taskId: string, token: number, ttlMs: number): Promise<boolean>;
  /**
   * Ends the lease at once, unless the task was claimed again since. An expired lease also counts as released
   * afterwards.
   */
  release(taskId: string, token: number): Promise<void>;
  /** Returns the lease that is held now. */
  current(taskId: string): Promise<HeldLease | undefined>;
  /**
   * Returns the task's last lease if it ended without a release, because its holder died, was suspended or was cut off.
   * (case: leases.lapsed)
   */
  lapsed(taskId: string): Promise<LapsedLease | undefined>;
  /**
   * Yields all leases that are held now, in any order, including those of tasks without checkpoints. Damaged lease
   * records are left out here, but make `current` throw. (case: leases.held)
   */
  held(): AsyncIterable<HeldTask>;
}

export interface ClaimOptions {
  readonly force?: boolean | undefined;
}

/** A lease that is held now. */
export interface HeldLease {
  readonly holder: string;
  /** The fencing token: 1, 2, 3 … per task. */
  readonly token: number;
  /** The time until the lease expires unless it is renewed, in milliseconds. */
  readonly remainingMs: number;
}

/** A held lease with its task. */
export interface HeldTask extends HeldLease {
  readonly taskId: string;
}

/** A lease that ended without a release. */
export interface LapsedLease extends Pick<HeldLease, "holder" | "token"> {
  /** True if the holder's process is known to have ended. If false, the process may still run, without the lease. */
  readonly hasDied: boolean;
  /** Milliseconds since the lease expired. If `hasDied` is true, milliseconds since its last renewal. */
  readonly endedMs: number;
}

/** The result of a claim: the caller's new lease, or the lease of the current holder. */
export interface LeaseClaim extends HeldLease {
  readonly isGranted: boolean;
}

/** A stored lease. It is kept after the lease ends and its task is removed, so that tokens only grow. */
export interface LeaseRecord {
  readonly holder: string;
  readonly token: number;
  /** In milliseconds by the storage's lease clock. */
  readonly renewedAtMs: number;
  readonly expiresAtMs: number;
}

/** Reads a lease from stored fields; `undefined` if they are damaged. */
export function parseLease(fields: Readonly<Partial<Record<keyof LeaseRecord, unknown>>>): LeaseRecord | undefined {
  const { holder, token, renewedAtMs, expiresAtMs } = fields;
  const isLease = typeof holder === "string" && isWhole(token) && isWhole(renewedAtMs) && isWhole(expiresAtMs);
  return isLease ? { holder, token, renewedAtMs, expiresAtMs } : undefined;
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

/** A storage's lease records, one per task. */
export interface LeaseRecords {
  read(taskId: string): Promise<TimedLease>;
  /** Yields the readable lease records of all tasks. */
  all(): AsyncIterable<TimedLease & { readonly taskId: string }>;
  /**
   * Calls `change` with a task's record and stores the result, as durably as `append`, in one atomic step. If the
   * result is `undefined`, nothing is stored. If the step must be retried, `change` is called again.
   */
  update(taskId: string, change: (now: TimedLease) => LeaseRecord | undefined): Promise<void>;
}

/** A task's lease record, if there is one, and the time by the storage's lease clock. */
export interface TimedLease {
  readonly lease: LeaseRecord | undefined;
  readonly nowMs: number;
}

/** A task without a lease, at any time: for a storage that doesn't exist yet. */
export const NO_LEASE: TimedLease = { lease: undefined, nowMs: 0 };

/**
 * Makes a lease store from a storage's lease records.
 *
 * @param options.oneMachine - True if all users of the storage are on one machine. Then the lease of an ended process
 *   is free at once, if its holder names the process: see `ownHolder`.
 */
export function leaseStore(records: LeaseRecords, options: { readonly oneMachine?: boolean } = {}): LeaseStore {
  const hasDied = ({ holder }: { readonly holder: string }): boolean =>
    options.oneMachine === true && holderHasEnded(holder);
  const heldNow = (now: TimedLease): HeldLease | undefined => {
    const held = heldIn(now);
    return held && hasDied(held) ? undefined : held;
  };
  return {
    async claim(taskId, holder, ttlMs, { force = false } = {}) {
      let claim: LeaseClaim | undefined;
      await records.update(taskId, (now) => {
        const held = force ? undefined : heldNow(now);
        const next = nextLease(now, holder, ttlMs);
        claim = held
          ? { ...held, isGranted: false }
          : { holder, token: next.token, remainingMs: ttlMs, isGranted: true };
        return held ? undefined : next;
      });
      if (claim === undefined) throw new Error("LeaseRecords.update never called `change`.");
      return claim;
    },
    async renew(taskId, token, ttlMs) {
      let isRenewed = false;
      await records.update(taskId, (now) => {
        isRenewed = heldIn(now)?.token === token;
        return isRenewed && now.lease ? lasting(now.lease, now.nowMs, ttlMs) : undefined;
      });
      return isRenewed;
    },
    release: (taskId, token) =>
      records.update(taskId, ({ lease, nowMs }) =>
        lease?.token === token && !isReleased(lease) ? lasting(lease, nowMs, 0) : undefined,
      ),
    current: async (taskId) => heldNow(await records.read(taskId)),
    async lapsed(taskId) {
      const { lease, nowMs } = await records.read(taskId);
      // A renewal in the future was made before a reboot, so its age is unknown.
      if (lease === undefined || isReleased(lease) || nowMs < lease.renewedAtMs) return undefined;
      const { holder, token, renewedAtMs, expiresAtMs } = lease;
      if (hasDied(lease)) return { holder, token, hasDied: true, endedMs: nowMs - renewedAtMs };
      return nowMs < expiresAtMs ? undefined : { holder, token, hasDied: false, endedMs: nowMs - expiresAtMs };
    },
    async *held() {
      for await (const now of records.all()) {
        const held = heldNow(now);
        if (held) yield { taskId: now.taskId, ...held };
      }
    },
  };
}

/**
 * Refuses a write if its lease is lost. For adapters; call it in the same atomic step as the write.
 *
 * @throws {LeaseLostError} The condition has a token, and no lease with that token is held now.
 */
export function checkLease(
  taskId: string,
  now: TimedLease,
  { fencingToken }: { readonly fencingToken?: number | undefined } = {},
): void {
  if (fencingToken === undefined) return;
  const held = heldIn(now);
  if (held?.token === fencingToken) return;
  const { lease } = now;
  const why =
    lease && lease.token > fencingToken
      ? `${JSON.stringify(lease.holder)} has claimed it since, under token ${lease.token}`
      : "it has expired, or was released";
  throw new LeaseLostError(
    `The lease of task ${JSON.stringify(taskId)} under token ${fencingToken} is lost: ${why}. Nothing was changed; stop this ` +
      "run, and claim the task again.",
    { taskId },
  );
}

/** Returns the record of the task's next lease, under the next token. For adapters that have a `queue`. */
export function nextLease({ lease, nowMs }: TimedLease, holder: string, ttlMs: number): LeaseRecord {
  return { holder, token: (lease?.token ?? 0) + 1, renewedAtMs: nowMs, expiresAtMs: nowMs + ttlMs };
}

/**
 * Judges the task's last lease: it is `held` now, it ended without a release (`unreleased`), or it was released or
 * never existed (`free`). For adapters that have a `queue`.
 *
 * @param hasDied - Whether a holder's process is known to have ended. Only for storages whose users are on one machine.
 */
export function judgeLease(
  now: TimedLease,
  hasDied: (holder: string) => boolean = () => false,
): "held" | "unreleased" | "free" {
  const { lease } = now;
  if (lease === undefined || isReleased(lease)) return "free";
  return heldIn(now) === undefined || hasDied(lease.holder) ? "unreleased" : "held";
}

/**
 * Whether a worker may run the task: its time has come and nobody holds its lease, or the lease ended without a
 * release.
 */
export function isDue(now: TimedLease, dueAt: string, dueBy: string, hasDied?: (holder: string) => boolean): boolean {
  const status = judgeLease(now, hasDied);
  return status === "unreleased" || (status === "free" && dueAt <= dueBy);
}

/**
 * Returns the lease that is held at `nowMs`. If its renewal is further in the future than the clocks of two processes
 * can differ, it was made before a reboot, so the lease counts as ended.
 */
function heldIn({ lease, nowMs }: TimedLease): HeldLease | undefined {
  if (lease === undefined || nowMs < lease.renewedAtMs - CLOCK_SKEW_MS || nowMs >= lease.expiresAtMs) return undefined;
  const { holder, token, expiresAtMs } = lease;
  return { holder, token, remainingMs: expiresAtMs - nowMs };
}

function isReleased({ renewedAtMs, expiresAtMs }: LeaseRecord): boolean {
  return expiresAtMs === renewedAtMs;
}

function lasting({ holder, token }: LeaseRecord, nowMs: number, ttlMs: number): LeaseRecord {
  return { holder, token, renewedAtMs: nowMs, expiresAtMs: nowMs + ttlMs };
}
