import { CommandError, ExitCode, toExitCode } from "../exit-code.js";
import { isKeyMissing } from "../key-advice.js";
import type { ErrorInfo } from "./api-parts.js";

const MOST_CAUSES = 10;

/**
 * Returns an error as plain data, with its causes.
 *
 * @param options - `hasStack` adds the stacks. Set it only for recorded errors: this process's own stacks stay private.
 */
export function errorInfo(error: unknown, { hasStack = false } = {}): ErrorInfo {
  const causes: Omit<ErrorInfo, "causes">[] = [];
  const seen = new Set<unknown>([error]);
  for (let cause = readCause(error); cause !== undefined && !seen.has(cause); cause = readCause(cause)) {
    seen.add(cause);
    if (causes.push(readParts(cause, hasStack)) === MOST_CAUSES) break;
  }
  return { ...readParts(error, hasStack), causes };
}

/** Returns the HTTP status for an error that ended a query. */
export function toHttpStatus(error: unknown): 400 | 404 | 409 | 422 | 500 {
  if (isKeyMissing(error) || (error instanceof CommandError && isKeyMissing(error.cause))) return 422;
  switch (toExitCode(error)) {
    case ExitCode.usage:
      return 400;
    case ExitCode.notFound:
      return 404;
    case ExitCode.declined:
    case ExitCode.conflict:
      return 409;
    case ExitCode.damaged:
      return 422;
    default:
      return 500;
  }
}

function readParts(error: unknown, hasStack: boolean): Omit<ErrorInfo, "causes"> {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  const { name, message, stack } = error;
  const code = "code" in error && typeof error.code === "string" ? { code: error.code } : {};
  return { name, ...code, message, ...(hasStack && stack !== undefined && { stack }) };
}

function readCause(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}
