import { readFile } from "node:fs/promises";
import { describeCause, isError } from "waymark/kit";

/**
 * The stable codes of every {@link RunnerError}. Messages may change; codes do not.
 *
 * - `PRP_UNREADABLE`, `PLAN_UNREADABLE`: the file doesn't exist, or can't be read.
 * - `PRP_INVALID`: the PRP has no gate to run, a gate that can't be run, or a part of the wrong shape; or it is too
 *   large.
 * - `PLAN_INVALID`: the file isn't a plan that Waymark can run, it lacks a requested item, or an item has no gate. In a
 *   plan of workstreams: a wrong form, a duplicate id, an unknown id or a cycle; see `issues`.
 * - `PLAN_CHANGED`: an item's done-mark can't be written, because the file no longer has that item.
 * - `PROCESS_NOT_STARTED`: a gate or the coder could not be started (no such folder or shell); the work is paused.
 * - `INTERRUPTED`: SIGINT, SIGTERM or SIGHUP arrived; the run is paused.
 * - `ITEM_FAILED`: the coder failed, or a gate still fails after the last fix.
 * - `GATE_TIMED_OUT`: a gate took too long. The coder isn't asked to fix that.
 * - `BUDGET_SPENT`: the coder has used what the budget allows.
 * - `GIT_FAILED`: git refused a commit or a worktree, or there is no repository.
 * - `TREE_DIRTY`: uncommitted changes would land in the first item's commit.
 */
export type RunnerErrorCode =
  | "PRP_UNREADABLE"
  | "PLAN_UNREADABLE"
  | "PRP_INVALID"
  | "PLAN_INVALID"
  | "PLAN_CHANGED"
  | "PROCESS_NOT_STARTED"
  | "INTERRUPTED"
  | "ITEM_FAILED"
  | "GATE_TIMED_OUT"
  | "BUDGET_SPENT"
  | "GIT_FAILED"
  | "TREE_DIRTY";

/** An error of a PRP, a plan or its processes. Errors of checkpoints are `CheckpointError`s. */
export class RunnerError extends Error {
  override readonly name = "RunnerError";
  readonly code: RunnerErrorCode;
  /** All issues of a plan of workstreams, such as `workstreams[2].command: is missing`. Empty for other errors. */
  readonly issues: readonly string[];

  constructor(
    code: RunnerErrorCode,
    message: string,
    { issues = [], ...options }: ErrorOptions & { readonly issues?: readonly string[] } = {},
  ) {
    super(message, options);
    this.code = code;
    this.issues = issues;
  }
}

/** @throws {RunnerError} `PRP_UNREADABLE` or `PLAN_UNREADABLE` */
export async function readDocument(what: "PRP" | "plan", path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    const isFolder = isError(cause) && "code" in cause && cause.code === "EISDIR";
    const reason = isFolder ? `it is a folder, and a ${what} is a file` : describeCause(cause);
    const code = what === "PRP" ? "PRP_UNREADABLE" : "PLAN_UNREADABLE";
    throw new RunnerError(code, `The ${what} ${path} can't be read: ${reason}. Nothing was run.`, { cause });
  }
}
