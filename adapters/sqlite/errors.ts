import { CheckpointCorruptError, CheckpointError, StorageError } from "../../src/contract/errors.js";

/** Another connection holds a lock; the same call may succeed in a moment. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error);
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED") || code === "SQLITE_PROTOCOL";
}

/** A page of the database doesn't hold what it must. */
export function isDamaged(error: unknown): boolean {
  return codeOf(error).startsWith("SQLITE_CORRUPT");
}

/** What SQLite or the file system threw, as an error that a caller of the adapter can act on. */
export function explain(error: unknown, path: string, busyTimeoutMs: number): unknown {
  const code = codeOf(error);
  if (error instanceof CheckpointError || code === "") return error;
  const reason = error instanceof Error ? error.message : String(error);
  const intact = "This call changed nothing, and what was saved before is intact.";
  const failure = (message: string, retryable = false) => new StorageError(message, { cause: error, retryable });

  // A constraint fails where a damaged row says what can't be: a task's last sequence below its newest one.
  if (isDamaged(error) || code.startsWith("SQLITE_CONSTRAINT") || code === "SQLITE_NOTADB") {
    const what =
      code === "SQLITE_NOTADB" ? "is not an SQLite database, or its header is damaged" : `is damaged: ${reason}`;
    return new CheckpointCorruptError(
      `The database ${path} ${what}. Nothing was changed. Copy the file and its -wal before anything else; verify says what ` +
        "is wrong, and `.recover` of the sqlite3 shell saves what can be read.",
      { cause: error },
    );
  }
  if (isBusy(error)) {
    return failure(
      `The database is locked by another process: ${path} (waited for ${busyTimeoutMs} ms). ${intact} ` +
        "Try again, or find who holds a transaction open; `busyTimeoutMs` says how long to wait.",
      true,
    );
  }
  if (code === "SQLITE_FULL" || code === "ENOSPC" || code === "EDQUOT") {
    return failure(`There is no space left for ${path}. ${intact} Free some space, then try again.`, true);
  }
  if (code === "SQLITE_IOERR_SHMSIZE") {
    return failure(
      `There is no room for ${path}-shm, 32 KiB that SQLite needs beside an open database: most likely the disk is full. ` +
        `${intact} Free some space, then try again.`,
      true,
    );
  }
  if (code.startsWith("SQLITE_READONLY") || code === "EROFS") {
    return failure(
      `The database ${path} is read-only: ${reason}. ${intact} The file, its folder and its -wal and -shm must be writable.`,
    );
  }
  if (code.startsWith("SQLITE_CANTOPEN") || !code.startsWith("SQLITE_")) {
    return failure(
      `The database ${path} can't be opened: ${reason}. ${intact} Check that its folder is a folder, and writable.`,
    );
  }
  return failure(`SQLite failed on ${path}: ${reason} (${code}). ${intact}`);
}

/** The code of an error of SQLite's or Node's; `""` for one without, such as a mistake in a program. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return "";
  return error.code.startsWith("ERR_") ? "" : error.code;
}
