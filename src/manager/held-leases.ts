import { checkTaskId } from "../contract/arguments.js";
import type { DueQuery } from "../contract/task-queue.js";
import { claimLease, claimNextLeases, type Lease, type LeaseOptions, type TaskLease } from "./lease.js";
import type { ResolvedOptions } from "./options.js";

/** The leases that a manager has claimed. `close` releases them. */
export class HeldLeases {
  readonly #options: ResolvedOptions;
  readonly #leases = new Set<Lease>();

  constructor(options: ResolvedOptions) {
    this.#options = options;
  }

  /** Those that are neither released nor lost. */
  get all(): ReadonlySet<Lease> {
    return this.#leases;
  }

  async claim(taskId: string, options: LeaseOptions): Promise<Lease> {
    checkTaskId(taskId);
    return this.#keep(await claimLease(this.#options.storage, taskId, options));
  }

  /** Claims the next tasks that are due, at most `limit`. */
  async claimNext(query: Omit<DueQuery, "dueBy">, options: LeaseOptions, limit: number): Promise<readonly TaskLease[]> {
    const { clock, storage } = this.#options;
    const dueBy = new Date(clock()).toISOString();
    const leases = await claimNextLeases(storage, { ...query, dueBy }, options, limit);
    return leases.map((lease) => this.#keep(lease));
  }

  async releaseAll(): Promise<void> {
    for (const lease of this.#leases) {
      await lease.release().catch((error: unknown) => {
        const { taskId } = lease;
        this.#options.logger.warn({ taskId, error }, "A lease could not be released; it expires by itself");
      });
    }
  }

  #keep(lease: TaskLease): TaskLease {
    this.#leases.add(lease);
    lease.signal.addEventListener("abort", () => this.#leases.delete(lease), { once: true });
    return lease;
  }
}
