import type { CheckpointRow, Command, DamageInfo, ErrorInfo, RunnerInfo, TaskStatus, Typed } from "./api-parts.js";
import type { StepAnswer } from "./api-runs.js";

/** Selects tasks: those for which every given part holds. */
export interface TaskFilter {
  /** The beginning of the name. */
  readonly prefix?: string;
  readonly status?: readonly TaskStatus[];
  /** The stage of the newest checkpoint. */
  readonly stage?: string;
  /** Part of the name, the error, the stage or the label, in any case. */
  readonly text?: string;
  /** Saved within this time. */
  readonly withinMs?: number;
  /** The error's message with `#` for each number. */
  readonly error?: string;
}

export interface TasksRequest extends TaskFilter {
  /** `recent`: the last saved first. */
  readonly order: "recent" | "taskId";
  /** From 0. */
  readonly offset: number;
  /** At most 1,000. */
  readonly limit: number;
  /**
   * The `view` of an earlier answer to the same filter and order, for its next pages: they continue the same list, even
   * if tasks have moved since. Without it, the list is read anew. If the server has forgotten the view, it reads the list anew, too.
   */
  readonly view?: string;
}

export interface TasksAnswer {
  readonly view: string;
  readonly now: string;
  readonly offset: number;
  readonly tasks: readonly TaskRow[];
  /** The number of tasks in the list, once it is known: at the latest with the last page. */
  readonly total?: number;
  /** Records that couldn't be read, met in the list so far. Those with a `taskId` are also in its row. */
  readonly damage: readonly DamageInfo[];
  /** Warnings for people: that leases can't be read, for example. */
  readonly warnings: readonly string[];
}

export interface TaskRow {
  /** For queries. Any well-formed text of at most 512 UTF-16 units, control characters included. */
  readonly taskId: string;
  /** Its name for people: the id, or the id of its LangGraph thread. */
  readonly name: string;
  readonly isThread: boolean;
  /** `unknown`: a thread whose writes can't be read. */
  readonly status: TaskStatus | "unknown";
  /** Its run began within another one, which continues it: workers don't. */
  readonly isChild?: true;
  /** The number of checkpoints. */
  readonly count: number;
  /** Missing for a task that is being run and has no checkpoint yet. */
  readonly newest?: {
    readonly id: string;
    readonly sequence: number;
    readonly createdAt: string;
    readonly stage?: string;
    readonly label?: string;
    readonly sizeBytes: number;
  };
  /** The step that its run is in, or that ended last, since the newest checkpoint. `startedAt`: it hasn't ended. */
  readonly step?: { readonly text: string; readonly startedAt?: string };
  /** When its last record was stored, if that is newer than the newest checkpoint. */
  readonly lastAt?: string;
  /** Why it isn't completed, for people: `died on build-box, process 3417; last seen 5 seconds ago`. */
  readonly why?: string;
  /** The message of the newest checkpoint's error, at most 300 units. */
  readonly error?: string;
  readonly runner?: RunnerInfo;
  /** The questions that a thread waits for, as JSON. */
  readonly asks: readonly string[];
  /** Checkpoints newer than `newest` that can't be read. */
  readonly damage: readonly DamageInfo[];
}

export interface CountsAnswer {
  readonly tasks: number;
  readonly checkpoints: number;
  readonly byStatus: Readonly<Record<TaskStatus, number>>;
  /** Tasks that are being run now. */
  readonly held: number;
  /** Tasks that wait for a person. */
  readonly asking: number;
  /** Records that can't be read: the first 100, and their number. */
  readonly damage: readonly DamageInfo[];
  readonly damaged: number;
}

export interface WatchTasksRequest extends TaskFilter {
  /** The tasks on the screen, at most 200. They are looked at one by one; others are noticed when they save. */
  readonly visible: readonly string[];
}

/** `open` comes once, at first, and after a failure is over. After `failed` the server keeps trying. */
export type TasksMessage =
  | { readonly kind: "open"; readonly now: string }
  | { readonly kind: "failed"; readonly error: ErrorInfo }
  | {
      readonly kind: "change";
      readonly now: string;
      /** The tasks that are due and that nobody runs; missing if the storage can't count them. */
      readonly queue?: QueueInfo;
      /** New tasks and those that have changed, if they match the filter. */
      readonly tasks: readonly TaskRow[];
      /** Visible tasks that are gone or don't match the filter any more. */
      readonly gone: readonly string[];
    };

export interface QueueInfo {
  readonly tasks: number;
  /** Since when the first of them is due. */
  readonly oldestDueAt?: string;
}

export interface TaskRequest {
  readonly taskId: string;
  /** The next page: checkpoints below this sequence. */
  readonly beforeSequence?: number;
  /** At most 1,000; default 200. */
  readonly limit?: number;
}

export interface TaskAnswer {
  readonly now: string;
  readonly task: TaskRow;
  /** Newest first. */
  readonly checkpoints: readonly CheckpointRow[];
  /** For the next page; missing if this is the last one. */
  readonly beforeSequence?: number;
  readonly damage: readonly DamageInfo[];
  readonly warnings: readonly string[];
  readonly commands: readonly Command[];
  readonly failure?: FailureInfo;
}

/** Why a task failed or was cancelled. */
export interface FailureInfo {
  readonly error: ErrorInfo;
  /** The step whose error ended the run, or in which its process died. */
  readonly step?: StepAnswer;
  /** The step before it that was completed last. */
  readonly before?: StepAnswer;
  /** The run's input. */
  readonly input?: Typed;
}

export type TaskMessage =
  | { readonly kind: "open"; readonly now: string }
  | { readonly kind: "failed"; readonly error: ErrorInfo }
  /** The task was removed. It may come back: the watch continues. */
  | { readonly kind: "gone"; readonly now: string }
  | {
      readonly kind: "change";
      readonly now: string;
      readonly task: TaskRow;
      /** The newest checkpoints as they are now, newest first, at most 50. Replace what is shown at their sequences. */
      readonly checkpoints: readonly CheckpointRow[];
    };
