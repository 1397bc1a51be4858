import { CheckpointError, isError, StorageError } from "../../src/contract/errors.js";

/** A call of the adapter in which the file system failed. */
export interface FailedCall {
  /** The action, for a message that begins with "Could not": `save a checkpoint of task "build-42"`. */
  readonly doing: string;
  /** The file or folder of the call, for errors that don't name one. */
  readonly path: string;
  /** True if the call only reads, so that no change can be incomplete. Default false. */
  readonly isRead?: boolean;
}

const ADVICE: Readonly<Record<string, string>> = {
  ENOSPC: "The disk is full: free some space, then try again.",
  EDQUOT: "The disk quota is used up: free some space, then try again.",
  EACCES: "Check its owner and its permissions.",
  EPERM: "Check its owner and its permissions.",
  EROFS: "The file system is read-only: mount it writable, or choose another path.",
  ENOTDIR: "A part of the path is a file where a folder is needed: move that file away, or choose another path.",
  EISDIR: "A folder is in the place of a file: move the folder away.",
  ELOOP: "It is a symbolic link, which Waymark doesn't follow inside the store: remove it.",
  ENAMETOOLONG: "The path is too long for this file system: choose a shorter root folder.",
  EMFILE: "This process has too many files open: close some, or raise the limit, then try again.",
  ENFILE: "This machine has too many files open: close some, then try again.",
  EIO: "The disk reports an error: check the disk before you continue.",
};

const RETRYABLE = new Set(["ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EBUSY", "ETIMEDOUT", "ESTALE"]);

/**
 * Turns a file system's error into a StorageError whose message tells what failed, where, what is intact and what to
 * do. Returns any other error (a typed error, a bug) unchanged.
 */
export function storageFailure(error: unknown, call: FailedCall): unknown {
  if (error instanceof CheckpointError || !isSystemError(error)) return error;
  const { code } = error;
  const path = "path" in error && typeof error.path === "string" ? error.path : call.path;
  const intact = call.isRead
    ? "Reading changes nothing, so saved checkpoints are intact."
    : "This call was not acknowledged; earlier checkpoints are intact.";
  return new StorageError(
    `Could not ${call.doing}: ${code} at ${path}. ${intact} ` +
      `${ADVICE[code] ?? "Look at the error's cause, then try again."}`,
    { cause: error, retryable: RETRYABLE.has(code) },
  );
}

/** Returns the text of a file system's error without the call and the path: `ENOENT: no such file or directory`. */
export function describeCause(error: unknown): string {
  const message = isError(error) ? error.message : String(error);
  return isSystemError(error) ? message.replace(/, \w+( '.*')?$/s, "") : message;
}

function isSystemError(error: unknown): error is Error & { readonly code: string } {
  return isError(error) && "code" in error && typeof error.code === "string" && "syscall" in error;
}
