import type { ErrorInfo } from "./api-parts.js";
import type { TaskFilter } from "./api-tasks.js";

/** The failed tasks among those that a filter selects. */
export type FailuresRequest = Omit<TaskFilter, "status" | "stage" | "error">;

export interface FailuresAnswer {
  /** The largest first, at most 20. */
  readonly groups: readonly FailureGroup[];
  /** All failed tasks. */
  readonly tasks: number;
}

export interface FailureGroup {
  /** The message with `#` for each number, as a filter's `error`. Empty: failed without an error. */
  readonly error: string;
  readonly tasks: number;
}

/** Chooses tasks for one action: these, or all that a filter selects. */
export interface ChooseRequest {
  readonly taskIds?: readonly string[];
  readonly filter?: TaskFilter;
}

/** What can be done with the chosen tasks. */
export interface ChoiceAnswer {
  /** For the actions, which change exactly these tasks. The server remembers the last few choices. */
  readonly choiceId: string;
  readonly tasks: number;
  /** Failed runs. */
  readonly retry: number;
  /** Tasks that haven't ended. */
  readonly cancel: number;
  /** Those of them that a process runs now. */
  readonly running: number;
}

export interface RetryChosenRequest {
  readonly choiceId: string;
}

export interface CancelChosenRequest {
  readonly choiceId: string;
  /** For people. */
  readonly reason: string;
}

export interface ChosenAnswer {
  readonly changed: number;
  /** Tasks that the action left as they were, since they have changed meanwhile: the first 100. */
  readonly failed: readonly { readonly taskId: string; readonly error: ErrorInfo }[];
}
