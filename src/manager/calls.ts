import { ClosedError, LeaseLostError } from "../contract/errors.js";
import { type Lease, TaskLease } from "./lease.js";

/** The calls of a manager that are under way. `close` waits for them. */
export class Calls {
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();

  /** Aborts when the manager closes. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  assertOpen(): void {
    if (this.closing.aborted) throw new ClosedError("The checkpoint manager");
  }

  async run<Result>(call: () => Promise<Result>, lease?: Lease): Promise<Result> {
    this.assertOpen();
    return this.track(call(), lease);
  }

  /**
   * Tracks a call, also while the manager closes.
   *
   * @param lease - The lease of the call's writes. If a write is refused because the lease is lost, the lease's signal
   *   aborts.
   */
  async track<Result>(call: Promise<Result>, lease: Lease | undefined): Promise<Result> {
    this.#underWay.add(call);
    try {
      return await call;
    } catch (error) {
      if (error instanceof LeaseLostError && lease instanceof TaskLease) throw await lease.lose(error);
      throw error;
    } finally {
      this.#underWay.delete(call);
    }
  }

  /** Refuses new calls. */
  startClosing(): void {
    this.#closing.abort(new ClosedError("The checkpoint manager"));
  }

  /** Resolves once no call is under way. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }
}
