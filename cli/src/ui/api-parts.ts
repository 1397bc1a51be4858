/** The status of a checkpoint. */
export type Status = "running" | "paused" | "completed" | "failed";

/**
 * What is true of a task now. `queued`: a worker or the next run continues it. `scheduled`: from a later time on. `waiting`:
 * for an event or a time. `interrupted`: its runner has died, or none is known.
 */
export type TaskStatus = Status | "queued" | "scheduled" | "waiting" | "interrupted" | "cancelled";

/** An error with its causes, outermost first. `code` is that of the SDK (`CHECKPOINT_CORRUPT`), if there is one. */
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
    | "delete"
    | "cancel"
    | "retry"
    | "prune"
    | "verify"
    | "repair"
    | "tasks";
  readonly text: string;
  /** The parts that it leaves as they are. */
  readonly note?: string;
  /** The part that it removes for good: the error of the newest checkpoint. */
  readonly loses?: string;
  /** The checkpoint of a `fork` or a `rewind`. */
  readonly checkpoint?: { readonly id: string; readonly sequence: number };
}

/** Who runs a task, or ran it last. */
export interface RunnerInfo {
  /** `held`: it runs now. `expired`: its lease ran out, it may still live. `died`: its process has ended. */
  readonly state: "held" | "expired" | "died";
  /** `build-box, process 3417`, or the holder's own text. */
  readonly holder: string;
  readonly host?: string;
  readonly pid?: number;
  readonly token: number;
  /** `held`: when the lease expires unless it is renewed. Otherwise: when it ended, or the holder was last seen. */
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
  /** Missing: the checkpoint before it. Otherwise the one that it continues, which may be gone: draw a branch. */
  readonly parentId?: string;
  /** The checkpoint of another task that this task began with, by `fork`. */
  readonly forkedFrom?: { readonly taskId: string; readonly id: string };
  readonly sizeBytes: number;
  readonly stateVersion: number;
  /** `transient`: an auto-save or a step, which the next one replaces. */
  readonly kind: "milestone" | "transient";
  readonly isOfRun: boolean;
  /** A cancel recorded it as `failed`. */
  readonly isCancelled?: true;
  readonly error?: string;
}

/**
 * A value with its type. null, booleans, finite numbers and short texts stand for themselves; anything else is an array
 * whose first item names its kind.
 *
 * Nodes with children have them cut: `more` is how many follow the given ones, 0 if none. `closed` stands for a whole
 * node that wasn't sent, because it is deep or the answer is long. The query `state` gives more of both.
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
 * error's children are name, message, stack, cause and its own properties, as they are listed. So a path is unambiguous
 * whatever the keys are. The text for people and for `waymark show --path` is made by `formatPath` in
 * cli/src/state-path.ts, of keys and indexes.
 */
export type StatePath = readonly number[];
