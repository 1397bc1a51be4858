// Random lives of a lease in simulated time, without a run: the storage fails or answers late, the process is suspended,
// and other runners claim the task.
import fc from "fast-check";
import { CheckpointManager, type Lease, type Runtime, type StorageAdapter, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { deferred } from "../support/deferred.js";
import { withMembers } from "../support/with-members.js";
import { errorCode } from "./error-code.js";

const TASK = "t";
/** The lease renews itself every second. */
const TTL_MS = 3000;
/** After this time without disturbances, the lease has been renewed. */
const RECOVERED_AFTER_MS = 2 * TTL_MS;
const CHECKED_EVERY_MS = 250;
/** What another runner's lease lasts. */
const LONG_MS = 600_000;

/** One disturbance. The lease must outlast it. */
type Disturbance =
  /** The next renewal fails. */
  | { readonly is: "failing" }
  /** The next renewal is answered after `ms`. */
  | { readonly is: "late"; readonly ms: number }
  /** The process is suspended for `ms`: its timers are late. */
  | { readonly is: "suspended"; readonly ms: number };

/** The end of the lease. It may come while the process is suspended for `suspendedMs`. */
type End =
  /** If `fails` is true, the storage's release fails. */
  | { readonly is: "released"; readonly fails: boolean }
  | { readonly is: "robbed"; readonly suspendedMs: number; readonly fails: boolean }
  /** The storage doesn't answer any more. */
  | { readonly is: "cut off"; readonly suspendedMs: number };

export interface LeaseCase {
  /** The time until the storage answers the claim. */
  readonly claimMs: number;
  readonly disturbances: readonly Disturbance[];
  readonly end: End;
}

/** At most twice the lease's time, and some just below it. */
const suspendedMs = fc.constantFrom(0, 1500, 2900, 3200, 6000);
export const leaseCases: fc.Arbitrary<LeaseCase> = fc.record({
  claimMs: fc.constantFrom(0, 500, 1500, 2900, 4000),
  disturbances: fc.array(
    fc.oneof(
      fc.record({ is: fc.constant("failing" as const) }),
      fc.record({ is: fc.constant("late" as const), ms: fc.constantFrom(300, 1500) }),
      fc.record({ is: fc.constant("suspended" as const), ms: suspendedMs }),
    ),
    { maxLength: 3 },
  ),
  end: fc.oneof(
    fc.record({ is: fc.constant("released" as const), fails: fc.boolean() }),
    fc.record({ is: fc.constant("robbed" as const), suspendedMs, fails: fc.boolean() }),
    fc.record({ is: fc.constant("cut off" as const), suspendedMs }),
  ),
});

/** Returns descriptions of the violations. */
export async function leaseViolations({ claimMs, disturbances, end }: LeaseCase): Promise<readonly string[]> {
  const life = new LeaseLife();
  const lease = await life.claim(claimMs);
  await life.watch(lease, "claim");
  for (const disturbance of disturbances) {
    if (disturbance.is === "suspended") await life.suspend(disturbance.ms, async () => undefined);
    else life.disturb(disturbance.is === "late" ? { answersAfterMs: disturbance.ms } : { fails: true });
    await life.watch(lease, disturbance.is);
  }
  if (end.is === "released") await life.release(lease, end.fails);
  else if (end.is === "robbed") await life.rob(lease, end.suspendedMs, end.fails);
  else await life.cutOff(lease, end.suspendedMs);
  return life.violations;
}

/** What happens to the next call of the storage. */
interface Answer {
  readonly answersAfterMs?: number;
  readonly fails?: boolean;
}

class LeaseLife {
  readonly violations: string[] = [];
  readonly #runtime = new SimulatedRuntime();
  readonly #storage: Required<Pick<StorageAdapter, "leases">> & StorageAdapter = new MemoryAdapter({
    runtime: this.#runtime,
  });
  readonly #manager: CheckpointManager;
  #next: Answer = {};
  #isCutOff = false;
  /** The calls of timers that were due while the process was suspended; `undefined` if it isn't suspended. */
  #late: (() => void)[] | undefined;

  constructor() {
    const { leases } = this.#storage;
    const storage = withMembers(this.#storage, {
      // A suspended process isn't told of changes.
      log: undefined,
      leases: withMembers(leases, {
        claim: (...args) => this.#answer(() => leases.claim(...args)),
        renew: (...args) => this.#answer(() => leases.renew(...args)),
        release: (...args) => this.#answer(() => leases.release(...args)),
      }),
    });
    const runtime = withMembers<Runtime>(this.#runtime, {
      outside: undefined,
      setTimeout: (call, ms) => this.#setTimeout(call, ms),
    });
    this.#manager = new CheckpointManager({ storage, runtime });
  }

  async claim(answersAfterMs: number): Promise<Lease> {
    this.disturb({ answersAfterMs });
    const claimed = this.#manager.lease(TASK, { ttlMs: TTL_MS });
    const [lease] = await Promise.all([claimed, this.#runtime.advance(answersAfterMs + 1)]);
    return lease;
  }

  disturb(next: Answer): void {
    this.#next = next;
  }

  /** Checks that the lease is held until it has recovered from a disturbance. */
  async watch(lease: Lease, after: string): Promise<void> {
    for (let ms = 0; ms < RECOVERED_AFTER_MS; ms += CHECKED_EVERY_MS) {
      await this.#runtime.advance(CHECKED_EVERY_MS);
      if (lease.signal.aborted) this.#report(`after ${after}, the lease was lost: ${lease.signal.reason}`);
      if (await this.#contest()) this.#report(`after ${after}, another runner got the lease`);
      const held = await this.#storage.leases.current(TASK);
      const leftMs = Date.parse(lease.expiresAt) - this.#runtime.now();
      if (held !== undefined && leftMs > held.remainingMs)
        this.#report(`after ${after}, the lease lasts ${leftMs} ms, and ${held.remainingMs} ms in the storage`);
    }
  }

  /** Suspends the process. @param meanwhile - Called at the end of this time. */
  async suspend(ms: number, meanwhile: () => Promise<void>): Promise<void> {
    const late: (() => void)[] = [];
    this.#late = late;
    await this.#runtime.advance(ms);
    await meanwhile();
    this.#late = undefined;
    for (const call of late) call();
  }

  async release(lease: Lease, fails: boolean): Promise<void> {
    this.disturb({ fails });
    const end = await lease.release().then(() => "released", errorCode);
    const expected = fails ? "STORAGE_FAILED" : "released";
    if (end !== expected) this.#report(`the release ended with ${end}, not ${expected}`);
    this.#expectLost(lease, "its release");
    if (fails) return;
    await this.#runtime.advance(RECOVERED_AFTER_MS);
    if ((await this.#storage.leases.current(TASK)) !== undefined) this.#report("the released lease is held again");
  }

  async rob(lease: Lease, suspendedMs: number, fails: boolean): Promise<void> {
    await this.suspend(suspendedMs, async () => {
      await this.#storage.leases.claim(TASK, "robber", LONG_MS, { force: true });
    });
    await this.#runtime.advance(TTL_MS);
    this.#expectLost(lease, "another runner claimed the task");
    this.disturb({ fails });
    const end = await lease.release().then(() => "released", errorCode);
    if (end !== "released") this.#report(`the release of the lost lease ended with ${end}`);
    const held = await this.#storage.leases.current(TASK);
    if (held?.holder !== "robber") this.#report(`${held?.holder} has the lease, not the other runner`);
  }

  async cutOff(lease: Lease, suspendedMs: number): Promise<void> {
    this.#isCutOff = true;
    await this.suspend(suspendedMs, async () => undefined);
    for (let ms = 0; ms <= TTL_MS; ms += CHECKED_EVERY_MS) {
      await this.#runtime.advance(CHECKED_EVERY_MS);
      // A process that was suspended asks once more whether its lease is its own.
      if (suspendedMs === 0 && !lease.signal.aborted && (await this.#contest()))
        this.#report("another runner got the lease before the cut off holder lost it");
    }
    this.#expectLost(lease, "it was cut off");
  }

  #expectLost({ signal }: Lease, after: string): void {
    const reason = signal.aborted ? errorCode(signal.reason) : "nothing";
    if (reason !== "LEASE_LOST") this.#report(`after ${after}, the lease's signal aborted with ${reason}`);
  }

  /** Whether another runner is granted the lease. It releases the lease at once. */
  async #contest(): Promise<boolean> {
    const claim = await this.#storage.leases.claim(TASK, "another", LONG_MS);
    if (claim.isGranted) await this.#storage.leases.release(TASK, claim.token);
    return claim.isGranted;
  }

  async #answer<Result>(call: () => Promise<Result>): Promise<Result> {
    const { answersAfterMs = 0, fails = false } = this.#next;
    this.#next = {};
    if (this.#isCutOff) return deferred<never>().promise;
    if (fails) throw new StorageError("The storage fails.");
    const result = await call();
    if (answersAfterMs > 0) {
      const answered = deferred();
      this.#runtime.setTimeout(answered.resolve, answersAfterMs);
      await answered.promise;
    }
    return result;
  }

  /** Like the runtime's method, but a suspended process calls later. */
  #setTimeout(call: () => void, ms: number): () => void {
    let isCancelled = false;
    const unlessCancelled = () => {
      if (!isCancelled) call();
    };
    const cancel = this.#runtime.setTimeout(() => {
      if (this.#late === undefined) call();
      else this.#late.push(unlessCancelled);
    }, ms);
    return () => {
      isCancelled = true;
      cancel();
    };
  }

  #report(violation: string): void {
    this.violations.push(violation);
  }
}
