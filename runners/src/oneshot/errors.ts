/**
 * The stable codes of every {@link OneshotError}. Messages may change; codes do not.
 *
 * - `PLAN_UNREADABLE`: the plan's file doesn't exist, or can't be read.
 * - `PLAN_INVALID`: the plan has a wrong form, a duplicate id, an unknown id or a cycle. See `issues`.
 * - `INTERRUPTED`: SIGINT, SIGTERM or SIGHUP came during a feature's run; it is paused.
 */
export type OneshotErrorCode = "PLAN_UNREADABLE" | "PLAN_INVALID" | "INTERRUPTED";

/** The errors of a plan or its processes. Errors of checkpoints are `CheckpointError`s. */
export class OneshotError extends Error {
  override readonly name = "OneshotError";
  readonly code: OneshotErrorCode;
  /** Every issue of a plan: `workstreams[2].command: is missing`. Empty for other errors. */
  readonly issues: readonly string[];

  constructor(
    code: OneshotErrorCode,
    message: string,
    { cause, issues = [] }: { readonly cause?: unknown; readonly issues?: readonly string[] } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.issues = issues;
  }
}

/** Makes a `PLAN_INVALID` error with each issue on a line of the message. */
export function invalidPlan(what: string, issues: readonly string[], cause?: unknown): OneshotError {
  const message = `${what} is not valid; nothing was run.\n${issues.map((issue) => `  ${issue}`).join("\n")}`;
  return new OneshotError("PLAN_INVALID", message, { issues, cause });
}
