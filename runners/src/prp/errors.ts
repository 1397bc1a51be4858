/**
 * The stable codes of every {@link PrpError}. Messages may change; codes do not.
 *
 * - `PRP_UNREADABLE`: the PRP's file can't be read.
 * - `PRP_INVALID`: the PRP has no gate to run, a gate that can't be run, or a part of the wrong shape; or it is too large.
 * - `PROCESS_NOT_STARTED`: a gate or the coder could not be started (no such folder or shell); the work is paused.
 * - `INTERRUPTED`: SIGINT, SIGTERM or SIGHUP came while a PRP was executed.
 */
export type PrpErrorCode = "PRP_UNREADABLE" | "PRP_INVALID" | "PROCESS_NOT_STARTED" | "INTERRUPTED";

/** The errors of a PRP or its processes. Errors of checkpoints are `CheckpointError`s. */
export class PrpError extends Error {
  override readonly name = "PrpError";
  readonly code: PrpErrorCode;

  constructor(code: PrpErrorCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
  }
}
