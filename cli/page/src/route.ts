import type { TaskStatus } from "../../src/ui/api-parts.js";
import type { TaskFilter } from "../../src/ui/api-tasks.js";
import { DAY, HOUR } from "../../src/words.js";

/** The place in the page that the address bar's fragment names. */
export type Route =
  /** `isUnknown`: the fragment names no place. */
  | { readonly view: "tasks"; readonly filter: TasksFilter; readonly isUnknown?: boolean }
  /** `at`: the sequence of the selected step or checkpoint. */
  | { readonly view: "task"; readonly taskId: string; readonly at?: number }
  | { readonly view: "checkpoint"; readonly taskId: string; readonly id: string }
  /** Without `from`, compares `to` with the checkpoint before it. */
  | {
      readonly view: "diff";
      readonly taskId: string;
      readonly from?: string;
      readonly to: string;
      /** The task of `from`, if it is another one. */
      readonly fromTaskId?: string;
    }
  /** `choiceId`: the id of a choice of tasks in the list. */
  | { readonly view: "retention"; readonly taskId?: string; readonly choiceId?: string }
  | { readonly view: "inbox" }
  | { readonly view: "storage" };

export interface TasksFilter {
  /** The beginning of the task's name. */
  readonly prefix: string;
  /** A part of the task's name, error, stage or label. */
  readonly text: string;
  /** `all`: tasks saved at any time. */
  readonly within: keyof typeof WITHIN_MS;
  /** The error's message with `#` for each number. Empty for tasks that failed without an error. */
  readonly error: string | undefined;
  readonly status: readonly TaskStatus[];
  readonly order: "recent" | "taskId";
}

export const STATUSES: readonly TaskStatus[] = [
  ...(["running", "queued", "scheduled", "waiting", "interrupted", "paused"] as const),
  ...(["failed", "cancelled", "completed"] as const),
];

/** How long ago a task may have been saved. */
const WITHIN_MS = { "1h": HOUR, "24h": DAY, "7d": 7 * DAY, all: undefined } as const;

export const ALL_TASKS: TasksFilter = {
  ...{ prefix: "", text: "", within: "all", error: undefined, status: [], order: "recent" },
};

/** Returns the filter in the form that requests use. */
export function requestedFilter({ prefix, text, within, error, status }: TasksFilter): TaskFilter {
  const withinMs = WITHIN_MS[within];
  return {
    ...(prefix !== "" && { prefix }),
    ...(text !== "" && { text }),
    ...(withinMs !== undefined && { withinMs }),
    ...(error !== undefined && { error }),
    ...(status.length > 0 && { status }),
  };
}

/** Reads a fragment. If it names no place, returns the list of all tasks. */
export function parseRoute(fragment: string): Route {
  const [path = "", options = ""] = fragment.replace(/^#?\/?/, "").split("?");
  const [view, first = "", kind, second, third, fourth] = path.split("/").map(decoded);
  if (view === "storage" || view === "inbox") return { view };
  if (view === "retention" && first === "chosen" && kind) return { view, choiceId: kind };
  if (view === "retention") return first === "" ? { view } : { view, taskId: first };
  if (view === "task" && first !== "") {
    if (kind === "checkpoint" && second) return { view: "checkpoint", taskId: first, id: second };
    if (kind === "at" && Number(second) > 0) return { view, taskId: first, at: Number(second) };
    if (kind === "diff" && second && third) {
      return { view: "diff", taskId: first, from: second, to: third, ...(fourth && { fromTaskId: fourth }) };
    }
    if (kind === "diff" && second) return { view: "diff", taskId: first, to: second };
    return { view, taskId: first };
  }
  const isUnknown = view !== "tasks" && view !== "";
  return { view: "tasks", filter: parseFilter(options), ...(isUnknown && { isUnknown }) };
}

/** Writes the fragment that {@link parseRoute} reads. */
export function formatRoute(route: Route): string {
  switch (route.view) {
    case "tasks":
      return `#/tasks${formatFilter(route.filter)}`;
    case "task":
      return `#/task/${encoded(route.taskId)}${route.at === undefined ? "" : `/at/${route.at}`}`;
    case "checkpoint":
      return `#/task/${encoded(route.taskId)}/checkpoint/${encoded(route.id)}`;
    case "diff": {
      const { taskId, from, to, fromTaskId } = route;
      const ids = [from, to, fromTaskId].filter((id) => id !== undefined);
      return `#/task/${encoded(taskId)}/diff/${ids.map(encoded).join("/")}`;
    }
    case "retention":
      if (route.choiceId !== undefined) return `#/retention/chosen/${route.choiceId}`;
      return route.taskId === undefined ? "#/retention" : `#/retention/${encoded(route.taskId)}`;
    case "inbox":
    case "storage":
      return `#/${route.view}`;
  }
}

/**
 * Returns the place one level up, where Backspace and Esc lead.
 *
 * @param tasks - The list of tasks with the last filter.
 */
export function findParent(route: Route, tasks: Route): Route {
  switch (route.view) {
    case "checkpoint":
      return { view: "task", taskId: route.taskId };
    case "diff":
      return { view: "checkpoint", taskId: route.taskId, id: route.to };
    case "retention":
      return route.taskId === undefined ? tasks : { view: "task", taskId: route.taskId };
    default:
      return tasks;
  }
}

function parseFilter(options: string): TasksFilter {
  const parameters = new Map(options.split("&").map((option): [string, string] => cutAt(option, "=")));
  const error = parameters.get("error");
  const named = (parameters.get("status") ?? "").split(",");
  return {
    prefix: decoded(parameters.get("prefix") ?? ""),
    text: decoded(parameters.get("text") ?? ""),
    within: readWithin(parameters.get("within")),
    error: error === undefined ? undefined : decoded(error),
    status: STATUSES.filter((status) => named.includes(status)),
    order: parameters.get("order") === "taskId" ? "taskId" : "recent",
  };
}

export function readWithin(text: string | undefined): TasksFilter["within"] {
  return text === "1h" || text === "24h" || text === "7d" ? text : "all";
}

function formatFilter({ prefix, text, within, error, status, order }: TasksFilter): string {
  const options = [
    ...(status.length === 0 ? [] : [`status=${status.join(",")}`]),
    ...(prefix === "" ? [] : [`prefix=${encoded(prefix)}`]),
    ...(text === "" ? [] : [`text=${encoded(text)}`]),
    ...(within === "all" ? [] : [`within=${within}`]),
    ...(error === undefined ? [] : [`error=${encoded(error)}`]),
    ...(order === "recent" ? [] : [`order=${order}`]),
  ];
  return options.length === 0 ? "" : `?${options.join("&")}`;
}

function cutAt(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + mark.length)];
}

// Escapes each UTF-16 unit: encodeURIComponent refuses lone surrogates, which ids of damaged records may have.
function encoded(text: string): string {
  return text.replace(/[^\w.-]/g, (unit) => `~${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function decoded(text: string): string {
  const escaped = /~([0-9a-f]{4})|((?:%[0-9a-f]{2})+)/gi;
  return text.replace(escaped, (_all, hex: string | undefined, percents: string = "") =>
    hex === undefined ? unpercented(percents) : String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

/** Decodes escapes such as `%2F`, for links that a person or another program wrote. */
function unpercented(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The escaped bytes aren't UTF-8.
    return text;
  }
}
