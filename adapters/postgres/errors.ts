import { CheckpointCorruptError, CheckpointError, isError, readCode, StorageError } from "../../src/contract/errors.js";

/** The code of PgBouncer's own errors. It usually means that PgBouncer's connection to the server broke. */
const POOLER = "08P01";
/** Codes which mean that there is no server at the address (ENOENT: no socket). */
const ABSENT = ["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EAI_AGAIN", "ENOTFOUND", "ENOENT"];
/** Codes which mean that there is no server at the address, or behind the pooler. */
const UNREACHABLE = [POOLER, ...ABSENT];
/** Codes which mean that no connection could be made, so that the call wasn't carried out. */
const UNCONNECTED = ["08001", "08004", "57P03", ...ABSENT];
/** Codes which mean that the connection broke or couldn't be made. The call may have been carried out. */
const LOST = [
  ...["08000", "08001", "08003", "08004", "08006", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04"],
  ...["ECONNRESET", "EPIPE", "ETIMEDOUT", ...UNREACHABLE],
];
/** Messages of pg's errors about a lost connection that have no code. */
const LOST_MESSAGE = /^(Connection terminated|Client has encountered a connection error|Query read timeout)/;
/** The messages of pg's pool and client if no connection could be made in time. */
const CONNECT_TIMEOUT = /^(timeout exceeded when trying to connect|timeout expired)$/;
/** Messages of pg's errors about a login or TLS that have no code. */
const REFUSED_MESSAGE = /^(SASL: |The server does not support SSL)/;
/** Codes which mean that the server undid the transaction, or never began it. */
const UNDONE = ["40001", "40P01", "53300", "25006"];
/** Codes which mean that the role may not make the call. */
const DENIED = ["42501"];
/** Codes which mean that a table, column or schema is missing. */
const MISSING = ["42P01", "3F000", "42703"];

/** Whether the connection is lost. Then a COMMIT may or may not have been carried out. */
export function isLost(error: unknown): boolean {
  if (LOST.includes(readCode(error))) return true;
  if (!isError(error) || error instanceof CheckpointError) return false;
  return LOST_MESSAGE.test(error.message) || CONNECT_TIMEOUT.test(error.message);
}

/** Whether the connection was lost at a time when the call may already have been carried out. */
export function isUndecided(error: unknown): boolean {
  const isTimeout = isError(error) && CONNECT_TIMEOUT.test(error.message);
  return isLost(error) && !isTimeout && !UNCONNECTED.includes(readCode(error));
}

/**
 * Whether the same call may succeed in a moment. The server may be restarting, have too many clients, or be a standby
 * about to be promoted, or another transaction may have been in the way.
 */
export function mayPass(error: unknown): boolean {
  return isLost(error) || UNDONE.includes(readCode(error));
}

/** Whether no server answers at the address. At the first connection, this probably means that the address is wrong. */
export function isUnreachable(error: unknown): boolean {
  return UNREACHABLE.includes(readCode(error));
}

export function isTaken(error: unknown): boolean {
  return readCode(error) === "23505";
}

export function isDenied(error: unknown): boolean {
  return DENIED.includes(readCode(error));
}

export function isMissing(error: unknown): boolean {
  return MISSING.includes(readCode(error));
}

/**
 * Turns an error of PostgreSQL, pg or the network into an error that a caller of the adapter can act on.
 *
 * @param location - The tables' location, without a password.
 */
export function explain(error: unknown, location: string): unknown {
  if (!isError(error) || error instanceof CheckpointError) return error;
  const code = readCode(error);
  const reason = error.message.trim();
  const detail = code === "" ? reason : `${reason} (${code})`;
  const failure = (message: string, retryable = false) => new StorageError(message, { cause: error, retryable });
  const known = ADVICE.find(({ codes }) => codes.includes(code));
  if (known !== undefined) return failure(`${location}${known.what}: ${detail}. ${known.advice}`, known.retryable);
  if (mayPass(error)) {
    const what = isLost(error) ? "can't be reached, or the connection broke" : "refused the call for now";
    return failure(
      `${location} ${what}: ${detail}. Earlier checkpoints are intact. ` +
        "Check the address if it is new. Otherwise try again; a save under the same id is stored once.",
      true,
    );
  }
  if (code === "XX001" || code === "XX002") {
    return new CheckpointCorruptError(
      `${location} is damaged: ${detail}. Nothing was changed. First copy the server's data, then ` +
        "read its log, and restore a backup.",
      { cause: error },
    );
  }
  if (REFUSED_MESSAGE.test(reason))
    return failure(`${location} refuses the connection: ${reason}. Nothing was read or written.`);
  // An error without a PostgreSQL code is a bug in a program, so it is returned unchanged.
  return /^[0-9A-Z]{5}$/.test(code) ? failure(`PostgreSQL failed on ${location}: ${detail}. ${INTACT}`) : error;
}

const INTACT = "This call changed nothing, and earlier checkpoints are intact.";

/** The middle and the end of the message for an error with one of these codes. */
const ADVICE: readonly {
  readonly codes: readonly string[];
  readonly what: string;
  readonly advice: string;
  readonly retryable?: boolean;
}[] = [
  {
    codes: ["25006"],
    what: " is read-only (a standby, or `default_transaction_read_only` is on)",
    advice: `${INTACT} Use the primary's address, or try again once this server is promoted.`,
    retryable: true,
  },
  {
    codes: ["28P01", "28000", "3D000"],
    what: " refuses the connection",
    advice: "Nothing was read or written.",
  },
  {
    codes: DENIED,
    what: "",
    advice:
      `${INTACT} docs/postgres.md lists the rights that each call needs; ` +
      "`waymark postgres ddl` prints what an administrator can apply.",
  },
  { codes: ["55P03", "57014"], what: " cancelled the call", advice: `${INTACT} Try again.`, retryable: true },
  {
    codes: ["53100", "53200", "53000", "53400", "ENOSPC"],
    what: " has no space or memory left",
    advice: `${INTACT} Make room, then try again.`,
    retryable: true,
  },
  {
    codes: MISSING,
    what: "",
    advice: `${INTACT} The tables were removed or changed. The next call checks for them again.`,
  },
  {
    codes: ["26000", "42P05"],
    what: "",
    advice: `${INTACT} If a pooler in transaction mode doesn't support prepared statements, set \`prepare: false\`.`,
  },
];
