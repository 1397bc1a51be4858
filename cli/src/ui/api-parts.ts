import type { Usage } from "../usage.js";

/** The status of a checkpoint. */
export type Status = "running" | "paused" | "completed" | "failed";

/**
 * The current status of a task. `queued`: a worker or the next run continues it. `scheduled`: `queued` from a later
 * time on. `waiting`: it waits for an event or a time. `interrupted`: its runner has died, or isn't known.
 */
export type TaskStatus = Status | "queued" | "scheduled" | "waiting" | "interrupted" | "cancelled";

/**
 * An error with its causes, outermost first. `code` is the SDK's error code (`CHECKPOINT_CORRUPT`), if there is one.
 */
export interface ErrorInfo {
  readonly name: string;
  readonly code?: string;
  readonly message: string;
  readonly stack?: string;
  readonly causes: readonly Omit<ErrorInfo, "causes">[];
}

/** A command to copy. Its text is quoted for a POSIX shell and safe to print. An `advice` is a sentence, not a command. */
export interface Command {
  readonly action:
    | "advice"
    | "show"
    | "show-state"
    | "list"
    | "diff"
    | "fork"
    | "rewind"
    | "complete"
    | "export"
    | "delete"
    | "cancel"
    | "continue"
    | "retry"
    | "prune"
    | "verify"
    | "repair"
    | "tasks";
  readonly text: string;
  /** What the command keeps, and what happens next. */
  readonly note?: string;
  /** What the command removes for good: the error of the newest checkpoint. */
  readonly loses?: string;
  /** The checkpoint of a `fork` or a `rewind`. */
  readonly checkpoint?: { readonly id: string; readonly sequence: number };
}

/** Who runs a task, or ran it last. */
export interface RunnerInfo {
  /**
   * `held`: it runs the task now. `expired`: its lease ran out, but it may still be alive. `died`: its process has
   * ended.
   */
  readonly state: "held" | "expired" | "died";
  /** `build-box, process 3417`, or the holder's own text. */
  readonly holder: string;
  readonly host?: string;
  readonly pid?: number;
  readonly token: number;
  /** `held`: when the lease will expire unless renewed. Otherwise: when the lease ended or the holder was last seen. */
  readonly at: string;
}

/** A record that can't be read. */
export interface DamageInfo {
  readonly location: string;
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
}

export interface CheckpointRow {
  readonly id: string;
  readonly sequence: number;
  readonly createdAt: string;
  readonly status: Status | "unknown";
  readonly stage?: string;
  readonly label?: string;
  /** The checkpoint that this one continues, if not the one before it: draw a branch. It may be gone. */
  readonly parentId?: string;
  /** The checkpoint of another task from which `fork` began this task. Without a run, only the first one has it. */
  readonly forkedFrom?: { readonly taskId: string; readonly id: string };
  readonly sizeBytes: number;
  readonly stateVersion: number;
  /** `transient`: an auto-save or a step, which the next save replaces. */
  readonly kind: "milestone" | "transient";
  readonly isOfRun: boolean;
  /** Set if the checkpoint is `failed` because the task was cancelled. */
  readonly isCancelled?: true;
  readonly error?: string;
}

/** The messages of a chat in a state. */
export interface Chat {
  /** The last 100, oldest first. */
  readonly messages: readonly ChatMessage[];
  readonly total: number;
  /** What all messages have used. */
  readonly usage?: Usage;
}

export interface ChatMessage {
  /** Who wrote it: `human`, `ai`, `tool`, `system`, or another role. */
  readonly role: string;
  /** The tool that answered, or the writer's name. */
  readonly name?: string;
  readonly text: string;
  /** The tools to call, each with its arguments as JSON. */
  readonly calls: readonly { readonly name: string; readonly args: string }[];
}

/**
 * A value with its type. null, booleans, finite numbers and short texts stand for themselves; anything else is an array
 * whose first item names its kind.
 *
 * Long lists of children are cut: `more` is how many children follow the given ones, or 0. `closed` stands for a whole
 * node that wasn't sent, because it is deep or the answer is long. The query `state` returns the rest of both.
 */
export type Typed =
  | null
  | boolean
  | number
  | string
  | readonly ["text", first: string, length: number]
  | readonly ["object", entries: readonly (readonly [key: string, value: Typed])[], more: number]
  | readonly ["array", items: readonly Typed[], more: number]
  | readonly ["map", entries: readonly (readonly [key: Typed, value: Typed])[], more: number]
  | readonly ["set", items: readonly Typed[], more: number]
  | readonly ["error", entries: readonly (readonly [key: string, value: Typed])[], more: number]
  | readonly ["closed", kind: "object" | "array" | "map" | "set" | "error", children: number]
  /** ISO 8601, or `Invalid Date`. */
  | readonly ["date", text: string]
  | readonly ["bigint", digits: string]
  /** `NaN`, `Infinity`, `-Infinity`, `-0`. */
  | readonly ["number", text: string]
  | readonly ["undefined"]
  | readonly ["regexp", text: string]
  | readonly ["url", href: string]
  /** `type` is `Uint8Array`, `ArrayBuffer`, …; `start` is the first 1,024 bytes in base64. */
  | readonly ["bytes", type: string, sizeBytes: number, start: string];

/**
 * A place in a state: at each level the position of the child, from 0. A map's child is a value, in the map's order. An
 * error's children are name, message, stack, cause and its own properties, as they are listed. Positions make a path
 * unambiguous for any keys. For people and for `waymark show --path`, `formatPath` in cli/src/state-path.ts turns keys
 * and indexes into text.
 */
export type StatePath = readonly number[];
