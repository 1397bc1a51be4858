/**
 * The stable codes of every {@link OneshotError}. Messages may change; codes do not.
 *
 * - `PLAN_UNREADABLE`: the plan's file isn't there, or can't be read.
 * - `PLAN_INVALID`: the plan is none: its form, an id that comes twice or isn't there, a cycle. See `issues`.
 * - `INTERRUPTED`: SIGINT or SIGTERM came while a feature was run; it is paused.
 */
export type OneshotErrorCode = "PLAN_UNREADABLE" | "PLAN_INVALID" | "INTERRUPTED";

/** What is wrong with a plan. */
export interface PlanIssue {
  /** `workstreams[2].command is missing`. */
  readonly message: string;
  /** Where it stands in the file, from 1; absent where the plan came as an object. */
  readonly line?: number;
  /** From 1. */
  readonly column?: number;
}

/** What goes wrong with a plan or its processes. What goes wrong with checkpoints is a `CheckpointError`. */
export class OneshotError extends Error {
  override readonly name = "OneshotError";
  readonly code: OneshotErrorCode;
  /** Everything that is wrong with a plan; empty for other errors. */
  readonly issues: readonly PlanIssue[];

  constructor(
    code: OneshotErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly issues?: readonly PlanIssue[] } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.issues = options.issues ?? [];
  }
}
