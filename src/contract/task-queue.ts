/**
 * Finds the tasks that are due for a worker. An optional part of a `StorageAdapter` that has `leases`. Without it,
 * the manager refuses `work` and `queue`.
 *
 * A task is due if {@link findDueTime} of its newest checkpoint is at most `dueBy`, and nobody holds its lease. If the
 * last lease ended without a release, the task is due at any time, because its worker may have died before it looked
 * for events. If `findDueTime` returns `undefined`, the task is never due. (cases: due.only-due, due.changes,
 * due.unreleased)
 */
export interface TaskQueue {
  /**
   * Claims the next tasks that are due, each in one atomic step, as `LeaseStore.claim` does.
   *
   * - MUST return each task to only one caller. (cases: due.one-holder, due.many-processes)
   * - MUST return the `paused` tasks that nobody holds in the order of their times. (case: due.order)
   * - MUST return at most `limit` tasks, and MAY return fewer than are due. (case: due.limit)
   *
   * @param limit - A positive integer.
   * @returns Empty if no task is due.
   */
  claimNext(query: DueQuery, holder: string, ttlMs: number, limit: number): Promise<readonly ClaimedTask[]>;
  /** Counts the tasks that are due. (cases: due.only-due, due.order) */
  count(query: DueQuery): Promise<DueCount>;
}

/** Selects tasks for workers. */
export interface DueQuery {
  /** Only tasks whose ids begin with this. */
  readonly prefix: string;
  /** Only tasks that are due by this time, in ISO 8601 UTC. */
  readonly dueBy: string;
  /**
   * Leaves these tasks out. A worker lists tasks that it couldn't run, so that other workers take them. (case:
   * due.except)
   */
  readonly except?: readonly string[] | undefined;
}

/** A task that a worker has claimed. */
export interface ClaimedTask {
  readonly taskId: string;
  /** The fencing token of the claim. */
  readonly token: number;
}

export interface DueCount {
  readonly tasks: number;
  /** The earliest time of these tasks, in ISO 8601 UTC; `undefined` if there is none. */
  readonly oldestDueAt: string | undefined;
}
