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

/** What SQLite or the file system threw, as what a caller of the adapter can act on. */
export function explain(error: unknown, path: string, busyTimeoutMs: number): unknown {
  const code = codeOf(error);
  if (error instanceof CheckpointError || code === "") return error;
  const options = { cause: error };
  const intact = "This call changed nothing, and what was saved before is intact.";

  if (isBusy(error)) {
    return new StorageError(
      `The database is locked by another process: ${path} (waited for ${busyTimeoutMs} ms). ${intact} ` +
        "Try again, or find who holds a transaction open; `busyTimeoutMs` says how long to wait.",
      { ...options, retryable: true },
    );
  }
  if (isDamaged(error) || code.startsWith("SQLITE_CONSTRAINT")) {
    return new CheckpointCorruptError(
      `The database ${path} is damaged: ${messageOf(error)}. Nothing was changed. Copy the file and its -wal before anything else; ` +
        "verify says what is wrong, and `.recover` of the sqlite3 shell saves what can be read.",
      options,
    );
  }
  if (code === "SQLITE_NOTADB") {
    return new CheckpointCorruptError(
      `${path} is not an SQLite database, or its header is damaged. It was left untouched. ` +
        "If it is another file, choose another path; if it was a database, restore it from a backup.",
      options,
    );
  }
  if (code === "SQLITE_FULL" || code === "ENOSPC" || code === "EDQUOT") {
    return new StorageError(`There is no space left for ${path}. ${intact} Free some space, then try again.`, {
      ...options,
      retryable: true,
    });
  }
  // SQLite doesn't say why; a disk that fails in another way fails other calls as well.
  if (code === "SQLITE_IOERR_SHMSIZE") {
    return new StorageError(
      `There is no room for ${path}-shm, 32 KiB that SQLite needs beside an open database: most likely the disk is full. ` +
        `${intact} Free some space, then try again.`,
      { ...options, retryable: true },
    );
  }
  if (code.startsWith("SQLITE_READONLY") || code === "EROFS") {
    return new StorageError(
      `The database ${path} is read-only: ${messageOf(error)}. ${intact} The file, its folder and its -wal and -shm must be writable.`,
      options,
    );
  }
  if (code.startsWith("SQLITE_CANTOPEN") || !code.startsWith("SQLITE_")) {
    return new StorageError(
      `The database ${path} can't be opened: ${messageOf(error)}. ${intact} Check that its folder is a folder, and writable.`,
      options,
    );
  }
  return new StorageError(`SQLite failed on ${path}: ${messageOf(error)} (${code}). ${intact}`, options);
}

/** The code of an error of SQLite's or Node's; `""` for one without, such as a mistake in a program. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return "";
  return error.code.startsWith("ERR_") ? "" : error.code;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
