import type { Typed } from "./api-parts.js";
import type { StepAnswer, WaitInfo } from "./api-runs.js";
import type { TaskRow } from "./api-tasks.js";

/** What waits for a person. */
export interface InboxAnswer {
  readonly now: string;
  /** The last saved first, at most 50. */
  readonly items: readonly InboxItem[];
  /** The number of all tasks that wait for a person. */
  readonly total: number;
  readonly warnings: readonly string[];
}

export interface InboxItem {
  readonly task: TaskRow;
  /**
   * The task's waits for events that haven't been sent. Empty for a LangGraph thread, whose questions are in `asks`.
   */
  readonly waits: readonly WaitInfo[];
  /** The input of the task's run. */
  readonly input?: Typed;
  /** The step that was completed last. */
  readonly before?: StepAnswer;
}
