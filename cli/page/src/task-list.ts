import { useCallback, useEffect, useReducer, useRef } from "preact/hooks";
import type { DamageInfo, ErrorInfo } from "../../src/ui/api-parts.js";
import type { TaskRow, TasksRequest } from "../../src/ui/api-tasks.js";
import { errorInfo, isAbort } from "./api.js";
import { usePage } from "./page.js";
import { requestedFilter, type TasksFilter } from "./route.js";

/** How many tasks are requested at once. */
const PAGE = 100;

export interface TaskList {
  /** Returns the task in a row; `undefined` until the task is loaded. */
  at(index: number): TaskRow | undefined;
  /** The number of rows, as far as known. */
  readonly length: number;
  /** The number of tasks, once it is known. */
  readonly total: number | undefined;
  readonly damage: readonly DamageInfo[];
  readonly warnings: readonly string[];
  readonly error: ErrorInfo | undefined;
  /** The first page has been loaded. */
  readonly isRead: boolean;
  /** The first page is being loaded. */
  readonly isLoading: boolean;
  /** The number of tasks that were added or moved since the list was read. */
  readonly changed: number;
  /** Requests the rows from `first` to `last`, unless they are loaded. */
  readonly need: (first: number, last: number) => void;
  /** Reads the list again from its top. */
  readonly reload: () => void;
  /** Updates tasks in place. @returns Whether some of them belong elsewhere in the list. */
  readonly update: (tasks: readonly TaskRow[], gone: readonly string[]) => boolean;
}

/** The rows that were loaded since the last reload. */
class Reading {
  readonly rows = new Map<number, TaskRow>();
  readonly places = new Map<string, number>();
  /** The pages that are loaded (`here`) or being loaded, with a controller to stop them. */
  readonly requests = new Map<number, AbortController | "here">();
  readonly moved = new Set<string>();
  readonly stopped = new AbortController();
  view: string | undefined;
  total: number | undefined;
  damage: readonly DamageInfo[] = [];
  warnings: readonly string[] = [];
  error: ErrorInfo | undefined;

  /** @param expected - The number of tasks from an earlier count. */
  length(expected: number): number {
    if (this.total !== undefined) return this.total;
    // More tasks follow: empty rows for the next page show this, and request the page when they are seen.
    return this.rows.size === 0 ? 0 : Math.max(expected, Math.max(...this.requests.keys()) * PAGE + 2 * PAGE);
  }

  put(index: number, task: TaskRow): void {
    this.rows.set(index, task);
    this.places.set(task.taskId, index);
  }
}

/**
 * Loads tasks page by page as they come into view.
 *
 * @param expected - The number of tasks from an earlier count, used until the server reports it.
 */
export function useTaskList(filter: TasksFilter, expected: number): TaskList {
  const { order } = filter;
  const { api } = usePage();
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const shown = useRef(new Reading());
  /** The reading that replaces the shown reading once its first page is loaded. */
  const coming = useRef<Reading | undefined>(undefined);
  const latest = useRef(filter);
  latest.current = filter;
  const filterKey = JSON.stringify(requestedFilter(filter));

  const ask = useCallback(
    async (reading: Reading, page: number) => {
      if (reading.requests.has(page)) return;
      const stopped = new AbortController();
      reading.requests.set(page, stopped);
      try {
        const request: TasksRequest = {
          order,
          offset: page * PAGE,
          limit: PAGE,
          ...requestedFilter(latest.current),
          ...(reading.view === undefined ? {} : { view: reading.view }),
        };
        const answer = await api.ask("tasks", request, AbortSignal.any([stopped.signal, reading.stopped.signal]));
        reading.requests.set(page, "here");
        reading.view = answer.view;
        reading.total = answer.total ?? reading.total;
        reading.damage = answer.damage;
        reading.warnings = answer.warnings;
        reading.error = undefined;
        for (const [index, task] of answer.tasks.entries()) reading.put(answer.offset + index, task);
      } catch (error) {
        if (reading.requests.get(page) === stopped) reading.requests.delete(page);
        if (isAbort(error)) return;
        reading.error = errorInfo(error);
      }
      if (reading === coming.current) {
        shown.current.stopped.abort();
        shown.current = reading;
        coming.current = undefined;
      }
      redraw(undefined);
    },
    // The key changes with the filter.
    [api, filterKey, order],
  );

  const reload = useCallback(() => {
    coming.current?.stopped.abort();
    const reading = new Reading();
    coming.current = reading;
    void ask(reading, 0);
    redraw(undefined);
  }, [ask]);

  useEffect(() => {
    reload();
    return () => coming.current?.stopped.abort();
  }, [reload]);

  const need = useCallback(
    (first: number, last: number) => {
      // Pages of a list that is about to be replaced aren't wanted.
      if (coming.current !== undefined) return;
      const reading = shown.current;
      if (reading.view === undefined) return;
      const [firstPage, lastPage] = [Math.floor(first / PAGE), Math.floor(last / PAGE)];
      // Requests for rows that were scrolled past would delay the rows that can be seen.
      for (const [page, stopped] of reading.requests) {
        if (stopped !== "here" && (page < firstPage || page > lastPage)) {
          reading.requests.delete(page);
          stopped.abort();
        }
      }
      for (let page = firstPage; page <= lastPage && page * PAGE < reading.length(expected); page += 1) {
        void ask(reading, page);
      }
    },
    [ask, expected],
  );

  const update = useCallback(
    (tasks: readonly TaskRow[], gone: readonly string[]) => {
      const { rows, places, moved } = shown.current;
      for (const task of tasks) {
        const place = places.get(task.taskId);
        const before = place === undefined ? undefined : rows.get(place);
        if (place !== undefined) rows.set(place, task);
        const isInPlace = order === "taskId" || before?.newest?.sequence === task.newest?.sequence;
        if (before === undefined || !isInPlace) moved.add(task.taskId);
      }
      for (const taskId of gone) moved.add(taskId);
      redraw(undefined);
      return moved.size > 0;
    },
    [order],
  );

  const { rows, total, damage, warnings, error, moved } = shown.current;
  return {
    at: (index) => rows.get(index),
    length: shown.current.length(expected),
    total,
    damage,
    warnings,
    error,
    isRead: shown.current.view !== undefined,
    isLoading: coming.current !== undefined,
    changed: moved.size,
    need,
    reload,
    update,
  };
}
