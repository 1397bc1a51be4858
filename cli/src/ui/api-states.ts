import type { Chat, CheckpointRow, Command, DamageInfo, ErrorInfo, RunnerInfo, StatePath, Typed } from "./api-parts.js";
import type { RunInfo } from "./api-runs.js";

export interface CheckpointRequest {
  readonly taskId: string;
  /** Default: the newest checkpoint that can be read. */
  readonly id?: string;
}

export interface CheckpointAnswer {
  readonly now: string;
  readonly taskId: string;
  /** The task's name for people. */
  readonly name: string;
  readonly checkpoint: CheckpointRow;
  /** Its neighbours by sequence, for moving through the history. */
  readonly before?: { readonly id: string; readonly sequence: number };
  readonly after?: { readonly id: string; readonly sequence: number };
  readonly metadata?: Typed;
  /** The error of its status. */
  readonly error?: ErrorInfo;
  /** The subgraph of a LangGraph thread; empty for the graph itself. Missing outside threads. */
  readonly namespace?: string;
  readonly asks: readonly string[];
  readonly run?: RunInfo;
  /** Missing if it can't be opened: `keyMissing` then has the reason. */
  readonly state?: Typed;
  readonly chat?: Chat;
  readonly keyMissing?: ErrorInfo;
  readonly runner?: RunnerInfo;
  readonly damage: readonly DamageInfo[];
  readonly commands: readonly Command[];
}

export interface StateRequest {
  readonly taskId: string;
  readonly id: string;
  readonly path: StatePath;
  /** The first child to return, for the rest of a long list; for a text, the first unit. Default: 0. */
  readonly from?: number;
}

export interface StateAnswer {
  /** The node at the path. With `from`, its children or its text begin there. A text has up to 1,000,000 units. */
  readonly value: Typed;
  /** The path as text: `messages[3].role`. */
  readonly text: string;
}

export interface SearchRequest {
  readonly taskId: string;
  readonly id: string;
  /** The text to find in keys and in values as they are shown, ignoring case. */
  readonly text: string;
}

export interface SearchAnswer {
  /** At most 500, in the state's order. */
  readonly found: readonly {
    readonly path: StatePath;
    readonly text: string;
    readonly in: "key" | "value";
    /** The value, shortened. */
    readonly value: Typed;
  }[];
  /** True if there are more. */
  readonly isCut: boolean;
  /**
   * Matches outside the state, in the run's record and in the error. `text` is the place: `run.steps[1].result.url`.
   */
  readonly besides: readonly { readonly text: string; readonly value: Typed }[];
}

export interface DiffRequest {
  readonly taskId: string;
  /** Default: the checkpoint before `to`. */
  readonly from?: string;
  /** The task of `from`, if it isn't the task of `to`. */
  readonly fromTaskId?: string;
  readonly to: string;
}

export interface DiffAnswer {
  readonly from: CheckpointRow;
  readonly to: CheckpointRow;
  /** The first 2,000. */
  readonly changes: readonly Change[];
  readonly total: number;
  /** The changes besides the state, for people: `status running → failed`, `+ model · 3.1 s`. */
  readonly besides: readonly string[];
  readonly commands: readonly Command[];
}

export type Change = {
  /** The path in the new state; for a removed or moved part, in the old state. */
  readonly path: readonly (string | number)[];
  readonly text: string;
} & (
  | { readonly kind: "added"; readonly to: Typed }
  | { readonly kind: "removed"; readonly from: Typed }
  | { readonly kind: "changed"; readonly from: Typed; readonly to: Typed }
  | { readonly kind: "moved"; readonly toIndex: number }
);
