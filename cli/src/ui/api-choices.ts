import type { ErrorInfo } from "./api-parts.js";
import type { TaskFilter } from "./api-tasks.js";

/** The failed tasks among those that a filter selects. */
export type FailuresRequest = Omit<TaskFilter, "status" | "stage" | "error">;

export interface FailuresAnswer {
  /** The largest first, at most 20. */
  readonly groups: readonly FailureGroup[];
  /** The number of all failed tasks. */
  readonly tasks: number;
}

export interface FailureGroup {
  /**
   * The error's message with `#` for each number, as in a filter's `error`. Empty if the tasks failed without an error.
   */
  readonly error: string;
  readonly tasks: number;
}

/** Chooses tasks for an action: the given ones, or all that a filter selects. */
export interface ChooseRequest {
  readonly taskIds?: readonly string[];
  readonly filter?: TaskFilter;
}

/** What can be done with the chosen tasks. */
export interface ChoiceAnswer {
  /** Pass it to the actions, which change exactly these tasks. The server remembers the last few choices. */
  readonly choiceId: string;
  readonly tasks: number;
  /** How many of the tasks are failed runs. */
  readonly retry: number;
  /** How many of the tasks haven't ended. */
  readonly cancel: number;
  /** How many of the tasks haven't ended and are run by a process now. */
  readonly running: number;
}

export interface RetryChosenRequest {
  readonly choiceId: string;
}

export interface CancelChosenRequest {
  readonly choiceId: string;
  /** Shown to people. */
  readonly reason: string;
}

export interface ChosenAnswer {
  readonly changed: number;
  /** The first 100 tasks that the action couldn't change, because they have changed since they were chosen. */
  readonly failed: readonly { readonly taskId: string; readonly error: ErrorInfo }[];
}
