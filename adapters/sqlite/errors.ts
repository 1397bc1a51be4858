import { CheckpointCorruptError, CheckpointError, isError, readCode, StorageError } from "../../src/contract/errors.js";

/** Whether another connection holds a lock, so that the same call may succeed in a moment. */
export function isBusy(error: unknown): boolean {
  const code = readCode(error);
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED") || code === "SQLITE_PROTOCOL";
}

/** Whether the connection can't write. If SQLite once failed to open the log, the connection stays read-only. */
export function isReadOnly(error: unknown): boolean {
  return readCode(error).startsWith("SQLITE_READONLY");
}

/** Whether a page of the database is damaged. */
export function isDamaged(error: unknown): boolean {
  return readCode(error).startsWith("SQLITE_CORRUPT");
}

/**
 * Makes the error for a driver that can't be loaded, or whose native part can't be loaded. @param name - The driver's
 * name.
 */
export function driverFailure(cause: unknown, name: string): StorageError {
  const { version, platform, arch } = process;
  const [line = ""] = (isError(cause) ? cause.message : String(cause)).split("\n", 1);
  // "Could not locate the bindings file. Tried:" introduces a list of paths.
  const reason = line.replace(/ Tried:$/, "");
  return new StorageError(
    `${name} can't be loaded in Node ${version} on ${platform} ${arch}: ${reason.replace(/[.:]?$/, ".")} Nothing was read or ` +
      "written. Node 22.16 and newer has a built-in SQLite. For an older Node, run `npm install better-sqlite3`; if it is installed, " +
      "its native build is missing or was made for another Node: run `npm rebuild better-sqlite3`, with install scripts allowed. For " +
      "a bundle, install it where the bundle runs, or mark it as external and pass it as `driver`.",
    { cause },
  );
}

/** Turns an error of SQLite or the file system into an error that a caller of the adapter can act on. */
export function explain(error: unknown, path: string, busyTimeoutMs: number): unknown {
  const code = readCode(error);
  if (!isError(error) || error instanceof CheckpointError || code === "" || code.startsWith("ERR_")) return error;
  const intact = "This call changed nothing, and earlier checkpoints are intact.";
  const failure = (message: string, retryable = false) => new StorageError(message, { cause: error, retryable });
  // A constraint can only fail if a damaged index lacks a row of its table.
  if (isDamaged(error) || code.startsWith("SQLITE_CONSTRAINT") || code === "SQLITE_NOTADB") {
    const what = code === "SQLITE_NOTADB" ? "is not an SQLite database, or its header is damaged" : "is damaged";
    return new CheckpointCorruptError(
      `The database ${path} ${what}: ${error.message}. Nothing was changed. First copy the file and its -wal file. ` +
        "Then restore a backup, or recover the readable rows: sqlite3 FILE .recover | sqlite3 recovered.db",
      { cause: error },
    );
  }
  if (isBusy(error)) {
    return failure(
      `The database ${path} was locked by another process for all ${busyTimeoutMs} ms of busyTimeoutMs. ${intact} ` +
        "Try again, or find the process that keeps a transaction open. `busyTimeoutMs` sets how long to wait.",
      true,
    );
  }
  // SHMSIZE means that there is no space for the 32 KiB -shm file, which SQLite needs next to an open database.
  if (["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"].includes(code)) {
    return failure(`There is no space left for ${path}. ${intact} Free some space, then try again.`, true);
  }
  const isUnwritable = isReadOnly(error) || code === "EROFS";
  if (isUnwritable || code.startsWith("SQLITE_CANTOPEN") || !code.startsWith("SQLITE_")) {
    return failure(
      `The database ${path} ${isUnwritable ? "is read-only" : "can't be opened"}: ${error.message}. ${intact} ` +
        "Check that its parent is a folder, and that the folder and its files are writable.",
    );
  }
  return failure(`SQLite failed on ${path}: ${error.message} (${code}). ${intact}`);
}
