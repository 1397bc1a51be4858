import type { CheckpointRow, Command, DamageInfo, ErrorInfo, RunnerInfo, TaskStatus, Typed } from "./api-parts.js";
import type { StepAnswer } from "./api-runs.js";

/** Selects the tasks that match all given parts. */
export interface TaskFilter {
  /** The beginning of the name. */
  readonly prefix?: string;
  readonly status?: readonly TaskStatus[];
  /** The stage of the newest checkpoint. */
  readonly stage?: string;
  /** Part of the name, the error, the stage or the label, ignoring case. */
  readonly text?: string;
  /** Only tasks saved within this time. */
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
   * The `view` of an earlier answer to the same filter and order. The next pages then continue the same list, even if
   * tasks have moved since. Without a view, or if the server has forgotten it, the list is read again.
   */
  readonly view?: string;
}

export interface TasksAnswer {
  readonly view: string;
  readonly now: string;
  readonly offset: number;
  readonly tasks: readonly TaskRow[];
  /** The number of tasks in the list, if it is already known. On the last page, it always is. */
  readonly total?: number;
  /** Records that couldn't be read in the list so far. Those with a `taskId` are also in the task's row. */
  readonly damage: readonly DamageInfo[];
  /** Warnings for people, for example that leases can't be read. */
  readonly warnings: readonly string[];
}

export interface TaskRow {
  /** For queries. Any well-formed text of at most 512 UTF-16 units, control characters included. */
  readonly taskId: string;
  /** The task's name for people: the id, or the id of its LangGraph thread. */
  readonly name: string;
  readonly isThread: boolean;
  /** `unknown`: a thread whose writes can't be read. */
  readonly status: TaskStatus | "unknown";
  /** Set for a child run, which its parent run continues: workers don't. */
  readonly parent?: ParentPlace;
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
  /** The step that runs or ended last since the newest checkpoint. `startedAt` is set if the step hasn't ended. */
  readonly step?: { readonly text: string; readonly startedAt?: string };
  /** When the task's last record was stored, if it is newer than the newest checkpoint. */
  readonly lastAt?: string;
  /** Why the task isn't completed, for people: `died on build-box, process 3417; last seen 5 seconds ago`. */
  readonly why?: string;
  /** The message of the newest checkpoint's error, at most 300 units. */
  readonly error?: string;
  readonly runner?: RunnerInfo;
  /** The questions that a thread waits for, as JSON. */
  readonly asks: readonly string[];
  /** Unreadable checkpoints that are newer than `newest`. */
  readonly damage: readonly DamageInfo[];
}

/** Where a child run began. */
export interface ParentPlace {
  readonly taskId: string;
  readonly turn: number;
  /** The title of a step: `upload 2`. */
  readonly step?: string;
}

/** The tasks that a task comes from, and those that come from it. */
export interface FamilyAnswer {
  /** As in a tree from the top: its parents and origins, the task itself, then its children and forks. */
  readonly members: readonly FamilyMember[];
  /** How many more tasks come from it. */
  readonly more: number;
}

export interface FamilyMember {
  readonly taskId: string;
  readonly name: string;
  readonly depth: number;
  /** Missing if the task was removed, like `newest`. */
  readonly status?: TaskRow["status"];
  readonly newest?: { readonly id: string; readonly sequence: number };
  /** Set for a child of the member above it. */
  readonly parent?: ParentPlace;
  /** Set for a fork of the member above it. */
  readonly forkedFrom?: NonNullable<CheckpointRow["forkedFrom"]>;
}

/** A task as `waymark export` writes it. */
export interface ExportAnswer {
  readonly fileName: string;
  readonly text: string;
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
  /**
   * The tasks on the screen, at most 200. Each of them is watched; changes of other tasks are noticed when they save.
   */
  readonly visible: readonly string[];
}

/** `open` comes first, and again once a failure is over. After `failed` the server keeps trying. */
export type TasksMessage =
  | { readonly kind: "open"; readonly now: string }
  | { readonly kind: "failed"; readonly error: ErrorInfo }
  | {
      readonly kind: "change";
      readonly now: string;
      /** The tasks that are due and that no process runs; missing if the storage can't count them. */
      readonly queue?: QueueInfo;
      /** New tasks and those that have changed, if they match the filter. */
      readonly tasks: readonly TaskRow[];
      /** Visible tasks that are gone or no longer match the filter. */
      readonly gone: readonly string[];
    };

export interface QueueInfo {
  readonly tasks: number;
  /** When the first of them became due. */
  readonly oldestDueAt?: string;
}

export interface TaskRequest {
  readonly taskId: string;
  /** For the next page: only checkpoints below this sequence. */
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
  /** The step whose error ended the run, or in which the process died. */
  readonly step?: StepAnswer;
  /** The last completed step before it. */
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
      /**
       * At most 50 of the newest checkpoints as they are now, newest first. They replace those shown with the same
       * sequences.
       */
      readonly checkpoints: readonly CheckpointRow[];
    };
