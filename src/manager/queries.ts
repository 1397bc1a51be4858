import type { CheckpointQuery, TaskQuery } from "../contract/adapter.js";
import { checkId, checkInteger, checkKeys, checkTaskId, checkText, checkWord, keysOf } from "../contract/arguments.js";
import { type CheckpointStatus, checkStatus } from "../contract/checkpoint.js";

/** Selects the checkpoints of a task that meet all given conditions. */
export interface ListQuery {
  readonly stage?: string | undefined;
  /** Only checkpoints with this status, or one of these. */
  readonly status?: CheckpointStatus | readonly CheckpointStatus[] | undefined;
  /** The direction of the sequences. Default `newest`. */
  readonly order?: "newest" | "oldest" | undefined;
  /** Only sequences below this one. */
  readonly beforeSequence?: number | undefined;
  /** Only sequences above this one. */
  readonly afterSequence?: number | undefined;
  /** Default: all. */
  readonly limit?: number | undefined;
}

/** The checkpoints that `latest` considers. */
export type LatestFilter = Pick<ListQuery, "stage" | "status">;

/** The checkpoints that `firstWhere` considers. */
export type SearchRange = Pick<ListQuery, "stage" | "status" | "afterSequence" | "beforeSequence">;

/** Selects the tasks that meet all given conditions. */
export interface TasksQuery {
  /** Only ids that begin with this text, for example a namespace or a tenant. */
  readonly prefix?: string | undefined;
  /** Only tasks whose newest checkpoint has this status, or one of these. */
  readonly status?: CheckpointStatus | readonly CheckpointStatus[] | undefined;
  /** Default `taskId`. `recent` orders by the newest checkpoint's `createdAt`, latest first. */
  readonly order?: "taskId" | "recent" | undefined;
  /** Only ids after this one, for paging by `taskId`. */
  readonly after?: string | undefined;
  /** Default: all. */
  readonly limit?: number | undefined;
}

/** Selects incomplete tasks. */
export type IncompleteQuery = Pick<TasksQuery, "prefix" | "limit">;

const LATEST_KEYS = keysOf<LatestFilter>({ stage: true, status: true });
const SEARCH = { stage: true, status: true, beforeSequence: true, afterSequence: true } as const;
const SEARCH_KEYS = keysOf<SearchRange>(SEARCH);
const LIST_KEYS = keysOf<ListQuery>({ ...SEARCH, order: true, limit: true });
const TASKS_KEYS = keysOf<TasksQuery>({ prefix: true, status: true, order: true, after: true, limit: true });
const INCOMPLETE_KEYS = keysOf<IncompleteQuery>({ prefix: true, limit: true });
export const INCOMPLETE: readonly CheckpointStatus[] = ["running", "paused", "failed"];

export function resolveLatestFilter(taskId: string, filter: LatestFilter): CheckpointQuery {
  checkTaskId(taskId);
  checkKeys("LatestFilter", filter, LATEST_KEYS);
  return { taskId, order: "newest", ...checkedFilter(filter) };
}

export function resolveListQuery(taskId: string, query: ListQuery): CheckpointQuery {
  checkTaskId(taskId);
  checkKeys("ListQuery", query, LIST_KEYS);
  checkWord("ListQuery.order", query.order, ["newest", "oldest"]);
  checkInteger("beforeSequence", query.beforeSequence, 1);
  checkInteger("afterSequence", query.afterSequence, 0);
  checkInteger("limit", query.limit, 0);
  const { order = "newest", beforeSequence, afterSequence, limit } = query;
  return { taskId, order, beforeSequence, afterSequence, limit, ...checkedFilter(query) };
}

export function resolveSearchRange(taskId: string, range: SearchRange): CheckpointQuery {
  checkKeys("The query of firstWhere", range, SEARCH_KEYS);
  return resolveListQuery(taskId, range);
}

export function resolveTasksQuery(query: TasksQuery): TaskQuery {
  checkKeys("TasksQuery", query, TASKS_KEYS);
  checkWord("TasksQuery.order", query.order, ["taskId", "recent"]);
  if (query.prefix !== undefined) checkText("TasksQuery.prefix", query.prefix);
  if (query.after !== undefined) checkText("TasksQuery.after", query.after);
  checkInteger("limit", query.limit, 0);
  const { prefix, order = "taskId", after, limit } = query;
  if (after !== undefined && order !== "taskId") throw new TypeError('TasksQuery.after needs order: "taskId".');
  return { prefix, order, after, limit, status: statuses(query.status) };
}

export function resolveIncompleteQuery(query: IncompleteQuery): TaskQuery {
  checkKeys("IncompleteQuery", query, INCOMPLETE_KEYS);
  return resolveTasksQuery({ ...query, order: "recent", status: INCOMPLETE });
}

/** The prefix of a call that changes all tasks with it. */
export function resolvePrefix(method: string, query: { readonly prefix: string }): string {
  checkKeys(`The query of ${method}`, query, keysOf<typeof query>({ prefix: true }));
  const { prefix } = query;
  if (prefix === undefined || prefix === "") {
    throw new TypeError(`${method} needs a non-empty prefix. Nothing was changed.`);
  }
  checkText(`The prefix of ${method}`, prefix);
  return prefix;
}

function checkedFilter(filter: LatestFilter): Pick<CheckpointQuery, "stage" | "status"> {
  if (filter.stage !== undefined) checkId("A stage", filter.stage);
  return { stage: filter.stage, status: statuses(filter.status) };
}

function statuses(status: ListQuery["status"]): readonly CheckpointStatus[] | undefined {
  if (status === undefined) return undefined;
  if (typeof status !== "string" && !Array.isArray(status)) {
    throw new TypeError("The status of a query must be one status, or an array of statuses.");
  }
  const list: readonly CheckpointStatus[] = typeof status === "string" ? [status] : status;
  for (const one of list) checkStatus(one);
  return list;
}
