import type { CheckpointQuery, StorageAdapter } from "../contract/adapter.js";
import { checkId, checkSignal, checkTaskId, checkText, checkWord } from "../contract/arguments.js";
import {
  type CheckpointStatus,
  type CheckpointSummary,
  checkStatus,
  type TaskStatus,
  type TaskSummary,
} from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { type ItemKind, RECORD_KINDS, type RecordQuery } from "../contract/log.js";
import { checkTaskStatus } from "../contract/task-status.js";
import { isChild } from "../contract/transient.js";
import { checkOptions, isOneOf, type OptionChecks, wholeFrom } from "./check-options.js";
import type { TaskSelection } from "./task-list.js";

/** Selects the checkpoints of a task that meet all given conditions. */
export interface ListQuery {
  readonly stage?: string | undefined;
  /** Only checkpoints with this status, or with one of these statuses. */
  readonly status?: CheckpointStatus | readonly CheckpointStatus[] | undefined;
  /** `newest`: the highest sequence comes first. `oldest`: the lowest. Default `newest`. */
  readonly order?: "newest" | "oldest" | undefined;
  /** Only sequences below this one. */
  readonly beforeSequence?: number | undefined;
  /** Only sequences above this one. */
  readonly afterSequence?: number | undefined;
  /** Default: all. */
  readonly limit?: number | undefined;
}

/** Selects the records and checkpoints of a task's log that meet all given conditions. */
export interface RecordsQuery<Kind extends ItemKind = ItemKind>
  extends Pick<ListQuery, "beforeSequence" | "afterSequence" | "limit"> {
  /** Only these kinds. `checkpoint` selects the summaries of checkpoints. Default: all. */
  readonly kinds?: readonly Kind[] | undefined;
  /** Only records with this name. Checkpoints have no name. */
  readonly name?: string | undefined;
  /** `newest`: the highest sequence comes first. `oldest`: the lowest. Default `oldest`. */
  readonly order?: "newest" | "oldest" | undefined;
}

/** The options of `manager.follow`: what it reads of a task's log, and the signal that ends it. */
export interface FollowOptions extends Pick<RecordsQuery, "afterSequence" | "kinds"> {
  readonly signal?: AbortSignal | undefined;
}

/** Selects the tasks that meet all given conditions. */
export interface TasksQuery {
  /** Only ids that begin with this text, for example a namespace or a tenant. */
  readonly prefix?: string | undefined;
  /** Only tasks with this status now, or with one of these statuses: see `TaskSummary.status`. */
  readonly status?: TaskSummary["status"] | readonly TaskSummary["status"][] | undefined;
  /** Default `taskId`. `recent` orders by the newest checkpoint's `createdAt`, latest first. */
  readonly order?: "taskId" | "recent" | undefined;
  /** Only ids after this one, for paging by `taskId`. */
  readonly after?: string | undefined;
  /** Default: all. */
  readonly limit?: number | undefined;
}

const FILTER_CHECKS: OptionChecks<Pick<ListQuery, "stage" | "status">> = {
  stage: checkId,
  status: (_what, status) => checkEach(status, checkStatus),
};
const RANGE_CHECKS = { ...FILTER_CHECKS, beforeSequence: wholeFrom(1), afterSequence: wholeFrom(0) } as const;
const LIST_CHECKS: OptionChecks<ListQuery> = {
  ...RANGE_CHECKS,
  order: isOneOf("newest", "oldest"),
  limit: wholeFrom(0),
};
const RECORDS_CHECKS: OptionChecks<RecordsQuery> = {
  kinds: checkKinds,
  name: checkText,
  order: isOneOf("newest", "oldest"),
  beforeSequence: wholeFrom(1),
  afterSequence: wholeFrom(0),
  limit: wholeFrom(0),
};
const FOLLOW_CHECKS: OptionChecks<FollowOptions> = {
  afterSequence: wholeFrom(0),
  kinds: checkKinds,
  signal: checkSignal,
};
const TASKS_CHECKS: OptionChecks<TasksQuery> = {
  prefix: checkText,
  status: (_what, status) => checkEach(status, checkTaskStatus),
  order: isOneOf("taskId", "recent"),
  after: checkText,
  limit: wholeFrom(0),
};
/** The statuses of tasks that can continue. */
export const INCOMPLETE: readonly TaskStatus[] = [
  "queued",
  "scheduled",
  "running",
  "waiting",
  "interrupted",
  "paused",
  "failed",
];

export function resolveLatestFilter(taskId: string, filter: Pick<ListQuery, "stage" | "status">): CheckpointQuery {
  checkOptions("LatestFilter", filter, FILTER_CHECKS);
  return resolveListQuery(taskId, filter);
}

export function resolveSearchRange(
  taskId: string,
  range: Pick<ListQuery, "stage" | "status" | "afterSequence" | "beforeSequence">,
): CheckpointQuery {
  checkOptions("FirstWhereQuery", range, RANGE_CHECKS);
  return resolveListQuery(taskId, range);
}

export function resolveListQuery(taskId: string, query: ListQuery): CheckpointQuery {
  checkTaskId(taskId);
  checkOptions("ListQuery", query, LIST_CHECKS);
  return { ...query, taskId, order: query.order ?? "newest", status: listStatuses(query.status) };
}

export function resolveRecordsQuery(taskId: string, query: RecordsQuery): RecordQuery {
  checkTaskId(taskId);
  checkOptions("RecordsQuery", query, RECORDS_CHECKS);
  return { ...query, taskId, order: query.order ?? "oldest" };
}

export function checkFollowOptions(taskId: string, options: FollowOptions): void {
  checkTaskId(taskId);
  checkOptions("FollowOptions", options, FOLLOW_CHECKS);
}

export function resolveTasksQuery(query: TasksQuery): TaskSelection {
  checkOptions("TasksQuery", query, TASKS_CHECKS);
  const { order = "taskId", after, status } = query;
  if (after !== undefined && order !== "taskId") throw new TypeError('TasksQuery.after needs order: "taskId".');
  return { ...query, order, status: status === undefined ? undefined : [status].flat() };
}

export function resolveIncompleteQuery(query: Pick<TasksQuery, "prefix" | "limit">): TaskSelection {
  checkOptions("IncompleteQuery", query, { prefix: checkText, limit: wholeFrom(0) });
  // Child runs are left out, because their parent run continues them.
  return { ...resolveTasksQuery({ ...query, order: "recent", status: INCOMPLETE }), isLeftOut: isChild };
}

/** A task's id, or the prefix of several tasks. */
export type OneOrMany = string | { readonly prefix: string };

/** The form of a prefix, for messages. */
export const PREFIX_FORM = '{ prefix: "a/" } with a prefix that isn\'t empty';

/**
 * Returns the prefix of the tasks that a call is for. An empty prefix is refused, since it would mean all tasks.
 *
 * @param forms - All forms that the call accepts, for the message.
 * @throws {TypeError} `tasks` isn't a prefix.
 */
export function resolvePrefix(
  method: string,
  tasks: { readonly prefix: string },
  forms = `a task's id, or ${PREFIX_FORM}`,
): string {
  const given: { readonly prefix?: unknown } = typeof tasks === "object" ? (tasks ?? {}) : {};
  const { prefix, ...others } = given;
  if (typeof prefix !== "string" || prefix === "" || Object.keys(others).length > 0) {
    throw new TypeError(`${method} takes ${forms}. Nothing was changed.`);
  }
  checkText(`The prefix of ${method}`, prefix);
  return prefix;
}

function checkEach<Status extends string>(status: Status | readonly Status[], check: (status: Status) => void): void {
  if (typeof status !== "string" && !Array.isArray(status)) {
    throw new TypeError("The status of a query must be one status, or an array of statuses.");
  }
  for (const each of typeof status === "string" ? [status] : status) check(each);
}

function checkKinds(what: string, kinds: NonNullable<RecordsQuery["kinds"]>): void {
  if (!Array.isArray(kinds)) throw new TypeError(`${what} must be an array of kinds.`);
  for (const kind of kinds) checkWord(`A kind in ${what}`, kind, ["checkpoint", ...RECORD_KINDS]);
}

function listStatuses(status: ListQuery["status"]): readonly CheckpointStatus[] | undefined {
  return status === undefined ? undefined : [status].flat();
}

/** Finds the task's newest readable checkpoint for which `is` returns true. Without `is`, any checkpoint counts. */
export async function findNewest(
  storage: Pick<StorageAdapter, "list">,
  taskId: string,
  is?: (summary: CheckpointSummary) => boolean,
): Promise<CheckpointSummary | undefined> {
  const limit = is === undefined ? 1 : undefined;
  for await (const record of storage.list({ taskId, order: "newest", limit })) {
    if (!isCorrupt(record) && is?.(record) !== false) return record;
  }
  return undefined;
}
