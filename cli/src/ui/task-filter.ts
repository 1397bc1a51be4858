import { describeTask, type FoundTask } from "../langgraph/find-tasks.js";
import type { TaskFilter, TaskRow } from "./api-tasks.js";

const MOST_UNITS = 300;

/** The parts of a task that filters look at. */
interface FilteredTask {
  readonly texts: readonly (string | undefined)[];
  readonly error: string | undefined;
  /** When the task was last saved, in ISO 8601. */
  readonly at: string | undefined;
}

type ByContent = Partial<Pick<TaskFilter, "text" | "withinMs" | "error">>;

/** Returns a test for tasks by their text, time and error; `undefined` if the filter has none of these. */
export function contentFilter(
  filter: ByContent,
  nowMs: number,
): ((task: Pick<FoundTask, "taskId"> & Partial<FoundTask>) => boolean) | undefined {
  if ([filter.text, filter.withinMs, filter.error].every((part) => part === undefined)) return undefined;
  return ({ taskId, thread, newest, last }) =>
    matches(
      {
        texts: [describeTask({ taskId, ...(thread && { thread }) }), newest?.stage, newest?.label],
        error: newest?.error && shortenError(newest.error.message),
        at: last?.createdAt ?? newest?.createdAt,
      },
      filter,
      nowMs,
    );
}

/** Whether a row has the text, time and error of a filter. */
export function rowMatches({ name, newest, lastAt, error }: TaskRow, filter: ByContent, nowMs: number): boolean {
  return matches(
    { texts: [name, newest?.stage, newest?.label], error, at: lastAt ?? newest?.createdAt },
    filter,
    nowMs,
  );
}

function matches({ texts, error, at }: FilteredTask, filter: ByContent, nowMs: number): boolean {
  const { text, withinMs } = filter;
  // A task without a time has just been started.
  if (withinMs !== undefined && at !== undefined && Date.parse(at) < nowMs - withinMs) return false;
  if (filter.error !== undefined && maskNumbers(error ?? "") !== filter.error) return false;
  if (text === undefined) return true;
  const wanted = text.toLowerCase();
  return [...texts, error].some((one) => one?.toLowerCase().includes(wanted));
}

/** Shortens an error's message for a row. */
export function shortenError(message: string): string {
  return message.length > MOST_UNITS ? `${message.slice(0, MOST_UNITS)}…` : message;
}

/** `user 4711 has 12.5 MB` becomes `user # has # MB`: errors that differ only in numbers or ids form one group. */
export function maskNumbers(message: string): string {
  return message.replace(/\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b|\b0x[\da-f]+\b|\d+(?:[.,:]\d+)*/gi, "#");
}
