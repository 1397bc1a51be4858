import type { Typed } from "./api-parts.js";
import type { StepAnswer, WaitInfo } from "./api-runs.js";
import type { TaskRow } from "./api-tasks.js";

/** What waits for a person. */
export interface InboxAnswer {
  readonly now: string;
  /** The last saved first, at most 50. */
  readonly items: readonly InboxItem[];
  /** All tasks that wait for a person. */
  readonly total: number;
  readonly warnings: readonly string[];
}

export interface InboxItem {
  readonly task: TaskRow;
  /** Its waits for events that nobody has sent. None: a thread of LangGraph, whose questions are the task's `asks`. */
  readonly waits: readonly WaitInfo[];
  /** The input of its run. */
  readonly input?: Typed;
  /** The step that was completed last. */
  readonly before?: StepAnswer;
}
