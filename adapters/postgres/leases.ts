import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AppendCondition } from "../../src/contract/conditions.js";
import { holderHasEnded } from "../../src/contract/holder.js";
import {
  type ClaimOptions,
  checkLease,
  type HeldLease,
  type HeldTask,
  type LapsedLease,
  type LeaseClaim,
} from "../../src/contract/leases.js";
import type { ClaimedTask, DueCount, DueQuery } from "../../src/contract/task-queue.js";
import { HIGHEST } from "../sql/rows.js";
import { parseNumber } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import type { PostgresStatements } from "./statements.js";

/** The number of due tasks to find beyond `limit`, since other workers may claim the first ones. */
const RESERVE = 15;

/**
 * Works with the table of leases, and finds the tasks that are due for workers. The server's clock decides which leases
 * are held.
 */
export class PostgresLeases {
  readonly #connection: PostgresConnection;
  readonly #sql: PostgresStatements;
  readonly #toRelease: { readonly taskId: string; readonly token: number }[] = [];
  #releasing: Promise<void> | undefined;

  constructor(connection: PostgresConnection, sql: PostgresStatements) {
    this.#connection = connection;
    this.#sql = sql;
  }

  async claim(
    taskId: string,
    holder: string,
    ttlMs: number,
    { force = false }: ClaimOptions = {},
  ): Promise<LeaseClaim> {
    const claimed = addClaimId(holder);
    for (;;) {
      const [[token] = []] = await this.#connection.rows(this.#sql.leases.claim, taskId, claimed, ttlMs, force);
      if (token !== undefined) return { holder, token: Number(token), remainingMs: ttlMs, isGranted: true };
      const held = await this.current(taskId);
      // The other lease has expired in the meantime, so claim again.
      if (held === undefined) continue;
      if (!holderHasEnded(held.holder)) return { ...held, isGranted: false };
      // The holder was a process on this machine and has ended, so release its lease.
      await this.release(taskId, held.token);
    }
  }

  async renew(taskId: string, token: number, ttlMs: number): Promise<boolean> {
    return (await this.#connection.change(this.#sql.leases.renew, taskId, token, ttlMs)) > 0;
  }

  /** Runs whose last saves shared a statement end together, so their releases also share a statement. */
  release(taskId: string, token: number): Promise<void> {
    this.#toRelease.push({ taskId, token });
    this.#releasing ??= this.#releaseAll();
    return this.#releasing;
  }

  async #releaseAll(): Promise<void> {
    await nextTurn();
    const leases = this.#toRelease.splice(0);
    this.#releasing = undefined;
    const taskIds = leases.map(({ taskId }) => taskId);
    const tokens = leases.map(({ token }) => token);
    await this.#connection.change(this.#sql.acrossTasks.release, taskIds, tokens);
  }

  async current(taskId: string): Promise<HeldLease | undefined> {
    const [row] = await this.#connection.rows(this.#sql.leases.read, taskId);
    const lease = row && parseLease(row);
    return lease && lease.remainingMs > 0 ? lease : undefined;
  }

  /** `hasDied` is always false, because the server doesn't know whether the holder died. */
  async lapsed(taskId: string): Promise<LapsedLease | undefined> {
    const [row] = await this.#connection.rows(this.#sql.leases.lapsed, taskId);
    if (row === undefined) return undefined;
    const { holder, token, remainingMs } = parseLease(row);
    return { holder, token, hasDied: false, endedMs: remainingMs };
  }

  async held(): Promise<readonly HeldTask[]> {
    const rows = await this.#connection.rows(this.#sql.acrossTasks.leasesHeld);
    return rows.map(([taskId, ...lease]) => ({ taskId: String(taskId), ...parseLease(lease) }));
  }

  /**
   * Finds some due tasks, then claims the first ones that are still free. If no task is due, locks nothing. If an
   * answer is lost, the claim is sent again for the same tasks, and finds its own leases among them.
   */
  async claimNext(query: DueQuery, holder: string, ttlMs: number, limit: number): Promise<readonly ClaimedTask[]> {
    for (let before = ""; ; ) {
      const due = await this.#connection.rowsUnprepared(
        this.#sql.acrossTasks.dueTasks,
        ...toParameters(query),
        limit + RESERVE,
      );
      const taskIds = due.flat();
      // If the same tasks are found again, other processes have locked them, probably to claim them.
      if (taskIds.length === 0 || JSON.stringify(taskIds) === before) return [];
      before = JSON.stringify(taskIds);
      const claim = [taskIds, addClaimId(holder), ttlMs, query.dueBy, limit];
      const claimed = await this.#connection.rows(this.#sql.acrossTasks.claimDue, ...claim);
      if (claimed.length > 0)
        return claimed.map(([taskId, token]) => ({ taskId: String(taskId), token: Number(token) }));
    }
  }

  async countDue(query: DueQuery): Promise<DueCount> {
    const [[tasks, oldest] = []] = await this.#connection.rowsUnprepared(
      this.#sql.acrossTasks.countDue,
      ...toParameters(query),
    );
    return { tasks: Number(tasks), oldestDueAt: typeof oldest === "string" ? oldest : undefined };
  }

  /**
   * Checks the lease. In a transaction, also prevents other claims of the task until the transaction ends.
   *
   * @throws {LeaseLostError} See `checkLease`.
   */
  async check(run: Statements, taskId: string, condition: AppendCondition = {}): Promise<void> {
    if (condition.fencingToken === undefined) return;
    const [row] = await run.rows(this.#sql.leases.lock, taskId);
    const { holder, token, remainingMs } = row ? parseLease(row) : NOBODYS;
    const lease = { holder, token, renewedAtMs: 0, expiresAtMs: remainingMs };
    checkLease(taskId, { lease, nowMs: 0 }, condition);
  }
}

const NOBODYS: HeldLease = { holder: "", token: 0, remainingMs: 0 };

function toParameters({ prefix, dueBy, except = [] }: DueQuery): readonly unknown[] {
  return [prefix, prefix + HIGHEST, dueBy, except];
}

/**
 * Adds a new id for the claim to the holder. If a claim's answer is lost, its statement is repeated, and recognises by
 * this id the row that it made itself, as opposed to a row of another claim by the same holder.
 */
function addClaimId(holder: string): string {
  return `${holder} (claim ${randomUUID()})`;
}

const CLAIM_ID = / \(claim [\da-f-]{36}\)$/;

function parseLease([claimed, token, remainingMs]: readonly unknown[]): HeldLease {
  const holder = String(claimed).replace(CLAIM_ID, "");
  return { holder, token: Number(parseNumber(token)), remainingMs: Number(remainingMs) };
}
