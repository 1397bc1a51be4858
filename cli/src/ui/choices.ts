import { randomUUID } from "node:crypto";
import { isCancelled, isOfRun } from "waymark/kit";
import { findCancellation, retryTasks } from "../actions/runs.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { findTask } from "../langgraph/find-tasks.js";
import { LeaseReader, type RunTask } from "../leases.js";
import { listTasks } from "../queries/tasks.js";
import { canRetry, hasEnded } from "../waits.js";
import type {
  CancelChosenRequest,
  ChoiceAnswer,
  ChooseRequest,
  ChosenAnswer,
  RetryChosenRequest,
} from "./api-choices.js";
import { errorInfo } from "./error-info.js";
import { givingWay } from "./giving-way.js";
import type { PageSession } from "./page-session.js";
import { contentFilter } from "./task-filter.js";

const MOST_CHOICES = 8;
const MOST_FAILURES = 100;
/** How many tasks are changed concurrently. */
const AT_ONCE = 16;

interface Choice {
  readonly all: readonly string[];
  readonly toRetry: readonly string[];
  readonly toCancel: readonly string[];
}

/** Remembers the last few choices of tasks for an action. */
export class Choices {
  readonly #choices = new Map<string, Choice>();

  async choose(session: PageSession, request: ChooseRequest): Promise<ChoiceAnswer> {
    const [all, toRetry, toCancel]: [string[], string[], string[]] = [[], [], []];
    let running = 0;
    for await (const task of givingWay(chosenTasks(session, request))) {
      const { taskId, newest, thread } = task;
      all.push(taskId);
      if (thread !== undefined || !isOfRun(newest)) continue;
      if (canRetry(newest)) toRetry.push(taskId);
      if (hasEnded(newest) || isCancelled(newest)) continue;
      toCancel.push(taskId);
      if (task.lease !== undefined) running += 1;
    }
    const choiceId = randomUUID();
    this.#choices.set(choiceId, { all, toRetry, toCancel });
    for (const id of this.#choices.keys()) {
      if (this.#choices.size <= MOST_CHOICES) break;
      this.#choices.delete(id);
    }
    return { choiceId, tasks: all.length, retry: toRetry.length, cancel: toCancel.length, running };
  }

  /** @throws {CommandError} The choice has expired. */
  taskIds(choiceId: string): readonly string[] {
    return this.#find(choiceId).all;
  }

  retry(session: PageSession, { choiceId }: RetryChosenRequest): Promise<ChosenAnswer> {
    return changeEach(this.#find(choiceId).toRetry, async (task) => (await retryTasks(session, { task })).retried);
  }

  cancel(session: PageSession, { choiceId, reason }: CancelChosenRequest): Promise<ChosenAnswer> {
    return changeEach(this.#find(choiceId).toCancel, async (task) =>
      (await findCancellation(session, { task })).cancel(reason),
    );
  }

  #find(choiceId: string): Choice {
    const choice = this.#choices.get(choiceId);
    if (choice !== undefined) return choice;
    throw new CommandError(
      ExitCode.conflict,
      "This selection has expired: newer ones replaced it. Nothing was changed; select the tasks again.",
    );
  }
}

async function* chosenTasks(
  session: PageSession,
  { taskIds, filter }: ChooseRequest,
): AsyncGenerator<RunTask, void, void> {
  if (taskIds !== undefined) {
    const leases = new LeaseReader(session);
    for (const taskId of taskIds) {
      const task = await findTask(session.storage, taskId);
      if (task !== undefined) yield await leases.described(task);
    }
    return;
  }
  const { prefix, status, stage } = filter ?? {};
  const isWanted = contentFilter(filter ?? {}, Date.now());
  for await (const task of listTasks(session, { order: "recent", prefix, status, stage, isWanted })) {
    if ("newest" in task) yield task;
  }
}

/** Changes the tasks. If one can't be changed, the others still are. */
async function changeEach(
  taskIds: readonly string[],
  change: (taskId: string) => Promise<number>,
): Promise<ChosenAnswer> {
  let changed = 0;
  const failed: ChosenAnswer["failed"][number][] = [];
  for (let from = 0; from < taskIds.length; from += AT_ONCE) {
    const some = taskIds.slice(from, from + AT_ONCE);
    const results = await Promise.allSettled(some.map(change));
    for (const [index, result] of results.entries()) {
      if (result.status === "fulfilled") changed += result.value;
      else if (failed.length < MOST_FAILURES)
        failed.push({ taskId: some[index] ?? "", error: errorInfo(result.reason) });
    }
  }
  return { changed, failed };
}
