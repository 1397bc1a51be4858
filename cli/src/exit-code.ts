/** The exit codes of the command. They are stable, and documented in `waymark --help` and cli/README.md. */
export const ExitCode = {
  done: 0,
  /** The storage failed, or another error happened that is not in this list. For verify and repair: there is damage. */
  failed: 1,
  /** A wrong argument, option, variable or configuration. */
  usage: 2,
  /** The storage, task, checkpoint, file or part of a state does not exist. */
  notFound: 3,
  /** The answer to the question was no, or there was no terminal to ask on. */
  declined: 4,
  /** Stored or imported data is damaged or incomplete. The command did the rest of its work. */
  damaged: 5,
  /**
   * The storage isn't as expected (a plan is outdated, an id is taken, a copy differs), or another process runs the
   * task.
   */
  conflict: 6,
} as const;

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** Ends the command with a one-line message that names the fault and the next step. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.exitCode = exitCode;
  }
}

const BY_CODE: Readonly<Record<string, ExitCode>> = {
  CHECKPOINT_NOT_FOUND: ExitCode.notFound,
  CHECKPOINT_CORRUPT: ExitCode.damaged,
  CHECKPOINT_CONFLICT: ExitCode.conflict,
  CHECKPOINT_STALE: ExitCode.conflict,
  LEASE_HELD: ExitCode.conflict,
  LEASE_LOST: ExitCode.conflict,
  RUN_CANCELLED: ExitCode.conflict,
  RUN_MISMATCH: ExitCode.conflict,
  PLAN_OUTDATED: ExitCode.conflict,
  PLAN_UNREADABLE: ExitCode.notFound,
  PLAN_INVALID: ExitCode.usage,
  PRP_UNREADABLE: ExitCode.notFound,
  PRP_INVALID: ExitCode.usage,
  UNSUPPORTED_OPERATION: ExitCode.usage,
};

/** Returns the exit code for an error that ended the command. */
export function toExitCode(error: unknown): ExitCode {
  if (error instanceof CommandError) return error.exitCode;
  if (error instanceof TypeError || error instanceof RangeError) return ExitCode.usage;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? (BY_CODE[code] ?? ExitCode.failed) : ExitCode.failed;
}
