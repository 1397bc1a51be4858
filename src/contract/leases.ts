import { LeaseLostError } from "./errors.js";
import { holderHasEnded } from "./holder.js";

/**
 * Who may run a task. The part of a {@link StorageAdapter} that gives leases.
 *
 * - A claim MUST give each task to one holder at a time, and a token that is higher than all before, also after the task
 *   was removed and the storage opened anew. (cases: leases.one-holder, leases.tokens-grow)
 * - A write with a `fencingToken` MUST check it in its own atomic step: see {@link checkLease}. (cases: leases.fencing, leases.one-step)
 * - One clock judges when a lease expires: the server's, or on one machine {@link monotonicMs}, which nobody sets.
 *   (case: leases.expiry)
 *
 * {@link leaseStore} makes one of a storage's own way to change a record.
 */
export interface LeaseStore {
  /** Gives the task to the holder, unless somebody holds it. An expired lease is nobody's. */
  claim(taskId: string, holder: string, ttlMs: number): Promise<LeaseClaim>;
  /** The lease lasts `ttlMs` from now. False if it is lost: it had expired, was released, or somebody else has it. */
  renew(taskId: string, token: number, ttlMs: number): Promise<boolean>;
  /** Ends the lease at once, if nobody has claimed the task since. One that has expired counts as released then, too. */
  release(taskId: string, token: number): Promise<void>;
  /** The lease that somebody holds now. */
  current(taskId: string): Promise<HeldLease | undefined>;
  /**
   * The task's last lease, if it ended without being released: its holder died, or was stopped or cut off.
   * (case: leases.lapsed)
   */
  lapsed(taskId: string): Promise<LapsedLease | undefined>;
  /**
   * The leases that somebody holds now, in any order, also of tasks that have no checkpoint. A damaged record is left out:
   * `current` throws. (case: leases.held)
   */
  held(): AsyncIterable<HeldTask>;
}

/** A lease that somebody holds. */
export interface HeldLease {
  readonly holder: string;
  /** The fencing token: 1, 2, 3 … per task. */
  readonly token: number;
  /** How long it lasts unless it is renewed, in milliseconds. */
  readonly remainingMs: number;
}

/** A lease that somebody holds, and its task. */
export interface HeldTask extends HeldLease {
  readonly taskId: string;
}

/** A lease that ended without being released. */
export interface LapsedLease extends Pick<HeldLease, "holder" | "token"> {
  /** Its process has ended. If false, it may have, or it runs on without the lease. */
  readonly hasDied: boolean;
  /** How long ago it ended, in milliseconds: since it expired, or if its process has died, since the last renewal. */
  readonly endedMs: number;
}

/** The result of a claim: the caller's own lease, or that of the one who has the task. */
export interface LeaseClaim extends HeldLease {
  readonly isGranted: boolean;
}

/** A lease as it is stored. It outlives its holder and its task, so that tokens only grow. */
export interface LeaseRecord {
  readonly holder: string;
  readonly token: number;
  /** By the clock that judges it, in milliseconds. */
  readonly renewedAtMs: number;
  readonly expiresAtMs: number;
}

/** A lease from what a storage holds; `undefined` for what makes no sense. */
export function parseLease(fields: Readonly<Partial<Record<keyof LeaseRecord, unknown>>>): LeaseRecord | undefined {
  const { holder, token, renewedAtMs, expiresAtMs } = fields;
  const isLease = typeof holder === "string" && isWhole(token) && isWhole(renewedAtMs) && isWhole(expiresAtMs);
  return isLease ? { holder, token, renewedAtMs, expiresAtMs } : undefined;
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

/** How a storage keeps leases: one record per task. */
export interface LeaseRecords {
  read(taskId: string): Promise<TimedLease>;
  /** The records of all tasks, without those that can't be read. */
  all(): AsyncIterable<TimedLease & { readonly taskId: string }>;
  /**
   * Stores what `change` makes of a task's record, as durably as `append` does, in one atomic step; nothing if it makes
   * nothing. `change` may be called again if the step has to begin anew.
   */
  update(taskId: string, change: (now: TimedLease) => LeaseRecord | undefined): Promise<void>;
}

/** A task's record, if it has one, and the time by the clock that judges it. */
export interface TimedLease {
  readonly lease: LeaseRecord | undefined;
  readonly nowMs: number;
}

/** The lease record of a storage that doesn't exist yet: nobody has a lease there, whatever the time. */
export const NO_LEASE: TimedLease = { lease: undefined, nowMs: 0 };

/**
 * A lease store over a storage's records.
 *
 * @param options.oneMachine - All who use the storage are on one machine. Then the lease of a process that has ended is free
 *   at once, as far as its holder tells the process: see `ownHolder`.
 */
export function leaseStore(records: LeaseRecords, options: { readonly oneMachine?: boolean } = {}): LeaseStore {
  const hasDied = ({ holder }: { readonly holder: string }): boolean =>
    options.oneMachine === true && holderHasEnded(holder);
  const heldNow = (now: TimedLease): HeldLease | undefined => {
    const held = heldIn(now);
    return held && hasDied(held) ? undefined : held;
  };
  return {
    async claim(taskId, holder, ttlMs) {
      let claim: LeaseClaim | undefined;
      await records.update(taskId, (now) => {
        const held = heldNow(now);
        const token = (now.lease?.token ?? 0) + 1;
        claim = held ? { ...held, isGranted: false } : { holder, token, remainingMs: ttlMs, isGranted: true };
        return held ? undefined : { holder, token, renewedAtMs: now.nowMs, expiresAtMs: now.nowMs + ttlMs };
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
      // One renewed in the future is of a time before a reboot: how long ago that was can't be said.
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
 * Refuses a write under a lease that its caller has no more. For adapters; call it in the same atomic step as the write.
 *
 * @throws {LeaseLostError} The condition has a token, and it isn't that of the lease that is held now.
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
      "run, and claim the task anew.",
    { taskId },
  );
}

/** Milliseconds by a clock that all processes of this machine share and nobody can set. It begins anew at a reboot. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** The lease that is held at that time. One renewed in the future is of a time before a reboot. */
function heldIn({ lease, nowMs }: TimedLease): HeldLease | undefined {
  if (lease === undefined || nowMs < lease.renewedAtMs || nowMs >= lease.expiresAtMs) return undefined;
  const { holder, token, expiresAtMs } = lease;
  return { holder, token, remainingMs: expiresAtMs - nowMs };
}

/** A released lease ended the moment it was last changed. */
function isReleased({ renewedAtMs, expiresAtMs }: LeaseRecord): boolean {
  return expiresAtMs === renewedAtMs;
}

function lasting({ holder, token }: LeaseRecord, nowMs: number, ttlMs: number): LeaseRecord {
  return { holder, token, renewedAtMs: nowMs, expiresAtMs: nowMs + ttlMs };
}
