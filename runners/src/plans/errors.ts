/**
 * The stable codes of every {@link PlanError}. Messages may change; codes do not.
 *
 * - `PLAN_UNREADABLE`: the plan's file can't be read.
 * - `PLAN_INVALID`: it is no list of items that Waymark knows, names no item that was asked for, or an item has no gate.
 * - `PLAN_CHANGED`: an item's done-mark can't be written, because the file no longer has that item.
 * - `ITEM_FAILED`: the coder failed, or a gate still fails after the last fix.
 * - `GATE_TIMED_OUT`: a gate took too long. The coder isn't asked to fix that.
 * - `BUDGET_SPENT`: the coder has used what the budget allows.
 * - `GIT_FAILED`: git refused a commit or a worktree, or there is no repository.
 * - `TREE_DIRTY`: files are changed that would land in the first item's commit.
 */
export type PlanErrorCode =
  | "PLAN_UNREADABLE"
  | "PLAN_INVALID"
  | "PLAN_CHANGED"
  | "ITEM_FAILED"
  | "GATE_TIMED_OUT"
  | "BUDGET_SPENT"
  | "GIT_FAILED"
  | "TREE_DIRTY";

/** The errors of a plan, its items and its gates. Errors of checkpoints are `CheckpointError`s. */
export class PlanError extends Error {
  override readonly name = "PlanError";
  readonly code: PlanErrorCode;

  constructor(code: PlanErrorCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
  }
}
