import type { ClaimedTask, DueCount, DueQuery } from "../../src/contract/task-queue.js";
import { nextDueAtIn } from "../sql/due.js";
import { HIGHEST } from "../sql/rows.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { claimedBy } from "./leases.js";
import type { PostgresStatements } from "./statements.js";

/** How many due tasks to find beyond `limit`, since other workers may claim the first ones. */
const RESERVE = 15;

/** Finds the tasks that are due for workers. The server's clock decides which leases are held. */
export class PostgresQueue {
  readonly #connection: PostgresConnection;
  readonly #sql: PostgresStatements["acrossTasks"];

  constructor(connection: PostgresConnection, { acrossTasks }: PostgresStatements) {
    this.#connection = connection;
    this.#sql = acrossTasks;
  }

  /**
   * Finds some due tasks, then claims the first ones that are still free. If nothing is due, it locks nothing. If an
   * answer is lost, the claim is sent again for the same tasks, and finds its own leases among them.
   */
  async claimNext(asked: DueQuery, holder: string, ttlMs: number, limit: number): Promise<readonly ClaimedTask[]> {
    for (let before = ""; ; ) {
      const found = await this.#connection.rowsUnprepared(this.#sql.dueTasks, ...valuesOf(asked), limit + RESERVE);
      const taskIds = found.flat();
      // If the same tasks are found again, others have locked them, probably to claim them.
      if (taskIds.length === 0 || JSON.stringify(taskIds) === before) return [];
      before = JSON.stringify(taskIds);
      const claim = [taskIds, claimedBy(holder), ttlMs, asked.dueBy, limit];
      const claimed = await this.#connection.rows(this.#sql.claimDue, ...claim);
      if (claimed.length > 0)
        return claimed.map(([taskId, token]) => ({ taskId: String(taskId), token: Number(token) }));
    }
  }

  async count(asked: DueQuery): Promise<DueCount> {
    const [[tasks, oldest] = []] = await this.#connection.rowsUnprepared(this.#sql.countDue, ...valuesOf(asked));
    return { tasks: Number(tasks), oldestDueAt: typeof oldest === "string" ? oldest : undefined };
  }
}

function valuesOf({ prefix, dueBy, except = [] }: DueQuery): readonly unknown[] {
  return [prefix, prefix + HIGHEST, dueBy, except];
}

/**
 * Brings a task's `due_at` up to date, in the transaction that has changed the task's row.
 *
 * @param row - The row's values that decide it, as the change returned them. Without a row, nothing was changed.
 */
export async function updateDueAt(
  run: Statements,
  sql: PostgresStatements,
  taskId: string,
  [row]: Awaited<ReturnType<Statements["rows"]>>,
): Promise<void> {
  if (row === undefined) return;
  const [dueAt, ...newest] = row;
  const next = nextDueAtIn(newest, dueAt);
  if (next !== dueAt) await run.change(sql.setDueAt, taskId, next);
}
