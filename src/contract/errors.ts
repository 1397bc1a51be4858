import { types } from "node:util";
/** The stable codes of every {@link CheckpointError}. Messages may change, codes don't. */
export type CheckpointErrorCode =
  | "CHECKPOINT_NOT_FOUND"
  | "CHECKPOINT_CORRUPT"
  | "CHECKPOINT_CONFLICT"
  | "CHECKPOINT_STALE"
  | "LEASE_HELD"
  | "LEASE_LOST"
  | "RUN_MISMATCH"
  | "RUN_PAUSED"
  | "RUN_FAILED"
  | "RUN_CANCELLED"
  | "STEP_INTERRUPTED"
  | "PLAN_OUTDATED"
  | "STATE_INVALID"
  | "STATE_NOT_SERIALIZABLE"
  | "PAYLOAD_TOO_LARGE"
  | "STORAGE_FAILED"
  | "UNSUPPORTED_FORMAT"
  | "UNSUPPORTED_OPERATION"
  | "DECRYPTION_FAILED"
  | "KEY_UNAVAILABLE"
  | "CLOSED";

/** Properties that an error may carry besides its message. */
export interface CheckpointErrorOptions {
  /** The error that caused this one. */
  readonly cause?: unknown;
  /** True if repeating the same call later may succeed. Default false. */
  readonly retryable?: boolean | undefined;
}

/** Marks the errors of every copy of this package. */
const BRAND = Symbol.for("waymark.CheckpointError");

/**
 * The base class of every error that the caller's code can't prevent. Misuse (a wrong option, an empty `taskId`) throws
 * a `TypeError` or a `RangeError` instead.
 *
 * `instanceof` compares codes, so it also recognises errors of another copy of this package. (A globally installed
 * command loads the configuration of a project that has its own copy.)
 */
export class CheckpointError extends Error {
  /** The code of all errors of this class; `undefined` for the base class, whose errors may have any code. */
  static readonly code: CheckpointErrorCode | undefined = undefined;
  override readonly name: string = "CheckpointError";
  readonly code: CheckpointErrorCode;
  readonly retryable: boolean;

  constructor(code: CheckpointErrorCode, message: string, options: CheckpointErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.retryable = options.retryable ?? false;
    Object.defineProperty(this, BRAND, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: the class to the right of `instanceof` may be a subclass.
    return isInstance(this, value);
  }
}

function isInstance(type: typeof CheckpointError, value: unknown): boolean {
  if (Function.prototype[Symbol.hasInstance].call(type, value)) return true;
  // A caller's subclass inherits the static `code`. For such a class only the prototype chain counts.
  if (!Object.hasOwn(type, "code") || !isError(value) || !(BRAND in value)) return false;
  return type.code === undefined || ("code" in value && value.code === type.code);
}

/** The base of the classes below. Each of them has its own code. */
abstract class CodedError extends CheckpointError {
  static override readonly code: CheckpointErrorCode;

  constructor(message: string, options: CheckpointErrorOptions = {}) {
    super(new.target.code, message, options);
  }
}

/** The base of the errors that name a task. */
abstract class TaskError extends CodedError {
  readonly taskId: string;

  constructor(taskId: string, message: string, options?: CheckpointErrorOptions) {
    super(message, options);
    this.taskId = taskId;
  }
}

/** The task has no such checkpoint. */
export class CheckpointNotFoundError extends TaskError {
  static override readonly code = "CHECKPOINT_NOT_FOUND";
  override readonly name = "CheckpointNotFoundError";
  readonly id: string | undefined;

  constructor(message: string, { taskId, id }: { taskId: string; id?: string | undefined }) {
    super(taskId, message);
    this.id = id;
  }
}

/** A stored checkpoint fails its checksum, is cut short, or cannot be parsed; it was left untouched. */
export class CheckpointCorruptError extends CodedError {
  static override readonly code = "CHECKPOINT_CORRUPT";
  override readonly name = "CheckpointCorruptError";
  /** The damage, without naming the checkpoint: `its seal doesn't match its content`. Default: the message. */
  readonly reason: string;

  constructor(message: string, options: CheckpointErrorOptions & { readonly reason?: string } = {}) {
    super(message, options);
    this.reason = options.reason ?? message;
  }
}

/**
 * Another writer changed the task first, or the id is taken; nothing was stored. Read the newest checkpoint, then
 * decide.
 */
export class CheckpointConflictError extends CodedError {
  static override readonly code = "CHECKPOINT_CONFLICT";
  override readonly name = "CheckpointConflictError";
}

/** The checkpoint is older than the caller accepts, so resuming from it may be wrong; it was left untouched. */
export class CheckpointStaleError extends CodedError {
  static override readonly code = "CHECKPOINT_STALE";
  override readonly name = "CheckpointStaleError";
  /** The checkpoint's age in milliseconds. */
  readonly ageMs: number;

  constructor(message: string, ageMs: number) {
    super(message);
    this.ageMs = ageMs;
  }
}

/**
 * Another runner holds the task's lease; nothing was changed. Wait until the lease expires, or leave the task to its
 * holder.
 */
export class LeaseHeldError extends TaskError {
  static override readonly code = "LEASE_HELD";
  override readonly name = "LeaseHeldError";
  readonly holder: string;
  /** The lease expires after this many milliseconds unless its holder renews it. */
  readonly remainingMs: number;

  /** @param held - `isOwn`: this process holds the lease. */
  constructor(
    taskId: string,
    held: { readonly holder: string; readonly remainingMs: number; readonly isOwn?: boolean | undefined },
  ) {
    const { holder, remainingMs, isOwn = false } = held;
    const task = `Task ${JSON.stringify(taskId)}`;
    super(
      taskId,
      isOwn
        ? `${task} is already being run by this process (${JSON.stringify(holder)}). Nothing was changed. Await that run, or release ` +
            "its lease, before the task is claimed again."
        : `${task} is being run by ${JSON.stringify(holder)}. That lease expires in ${(remainingMs / 1000).toFixed(1)} s unless it ` +
            "is renewed. Nothing was changed; try again then, let `manager.run` wait with `waitForLeaseMs`, or leave the task to its holder.",
      { retryable: true },
    );
    this.holder = holder;
    this.remainingMs = remainingMs;
  }
}

/** The lease of the write has expired, was released, or belongs to another holder now; nothing was changed. */
export class LeaseLostError extends TaskError {
  static override readonly code = "LEASE_LOST";
  override readonly name = "LeaseLostError";

  constructor(message: string, { taskId, ...options }: CheckpointErrorOptions & { readonly taskId: string }) {
    super(taskId, message, options);
  }
}

/** The stored run began with a version or input that differs from this call's; nothing was run or changed. */
export class RunMismatchError extends TaskError {
  static override readonly code = "RUN_MISMATCH";
  override readonly name = "RunMismatchError";
}

/**
 * A signal stopped the run, and its task was recorded as `paused`. Run it again to continue. `cause` is the signal's
 * reason.
 */
export class RunPausedError extends TaskError {
  static override readonly code = "RUN_PAUSED";
  override readonly name = "RunPausedError";

  constructor(taskId: string, why: string, options: { readonly cause?: unknown } = {}) {
    super(
      taskId,
      `The run of task ${JSON.stringify(taskId)} was paused: ${why}. Finished steps are kept; run it again to continue.`,
      { ...options, retryable: true },
    );
  }
}

/** The run has failed; `manager.result` throws this. `cause` is the recorded error. */
export class RunFailedError extends TaskError {
  static override readonly code = "RUN_FAILED";
  override readonly name = "RunFailedError";
}

/** The run was cancelled: `manager.cancel` recorded its task as failed. Only `run` with `restart` runs it again. */
export class RunCancelledError extends TaskError {
  static override readonly code = "RUN_CANCELLED";
  override readonly name = "RunCancelledError";

  constructor(taskId: string, reason: string) {
    super(
      taskId,
      `The run of task ${JSON.stringify(taskId)} was cancelled: ${reason}. Its checkpoints are kept. To begin ` +
        "it anew, pass `restart: true` to `manager.run`, or remove the task (`waymark delete`) and enqueue it again.",
    );
  }
}

/** A step with `atMostOnce` was started earlier, and whether it ended is unknown; it was not started again. */
export class StepInterruptedError extends TaskError {
  static override readonly code = "STEP_INTERRUPTED";
  override readonly name = "StepInterruptedError";
  readonly step: string;

  constructor(taskId: string, step: string) {
    super(
      taskId,
      `Step ${JSON.stringify(step)} of task ${JSON.stringify(taskId)} was interrupted in an earlier attempt, so it may or may not have done ` +
        "its work. It runs at most once, so it was not started again. Check whether its effects are there. If they aren't, " +
        `\`manager.retry(${JSON.stringify(taskId)}, { from: ${JSON.stringify(step)} })\` or "waymark retry --from" lets the next run start it again.`,
    );
    this.step = step;
  }
}

/** The task has changed since the retention plan was made; nothing was removed. Make a new plan. */
export class PlanOutdatedError extends CodedError {
  static override readonly code = "PLAN_OUTDATED";
  override readonly name = "PlanOutdatedError";
}

/** The schema refuses the state. On save nothing was stored; on load the stored checkpoint was left untouched. */
export class StateInvalidError extends CodedError {
  static override readonly code = "STATE_INVALID";
  override readonly name = "StateInvalidError";
  /** The schema's issues, each with a JSON path into the state; `$` is the state itself. */
  readonly issues: readonly { readonly message: string; readonly path: string }[];

  constructor(message: string, issues: StateInvalidError["issues"], options: CheckpointErrorOptions = {}) {
    super(message, options);
    this.issues = issues;
  }
}

/** The state contains a value that can't be stored without loss; nothing was stored. */
export class StateNotSerializableError extends CodedError {
  static override readonly code = "STATE_NOT_SERIALIZABLE";
  override readonly name = "StateNotSerializableError";
  /** The JSON path of the value that can't be stored: `$.messages[3].onDone`. */
  readonly path: string;

  constructor(message: string, path: string, options: CheckpointErrorOptions = {}) {
    super(message, options);
    this.path = path;
  }
}

/** The encoded state is larger than `maxPayloadBytes`, or than V8's longest text (some 512 MB). Nothing was stored. */
export class PayloadTooLargeError extends CodedError {
  static override readonly code = "PAYLOAD_TOO_LARGE";
  override readonly name = "PayloadTooLargeError";
}

/** The backend failed: the disk, the database, a lock. Checkpoints that were acknowledged before are intact. */
export class StorageError extends CodedError {
  static override readonly code = "STORAGE_FAILED";
  override readonly name = "StorageError";
}

/** The data was written by a newer version, an unknown transform or another program; it was left untouched. */
export class UnsupportedFormatError extends CodedError {
  static override readonly code = "UNSUPPORTED_FORMAT";
  override readonly name = "UnsupportedFormatError";
}

/** The storage doesn't support this operation. */
export class UnsupportedOperationError extends CodedError {
  static override readonly code = "UNSUPPORTED_OPERATION";
  override readonly name = "UnsupportedOperationError";
}

/**
 * A payload whose seal is valid can't be decrypted; it was left untouched. There are four possible reasons: its key
 * isn't configured, it was saved with another key, the record was changed and its seal recomputed, or it isn't
 * encrypted although encryption is required.
 */
export class DecryptionFailedError extends CodedError {
  static override readonly code = "DECRYPTION_FAILED";
  override readonly name = "DecryptionFailedError";
  /** The id (never the bytes) of the key that the payload names; `undefined` if it names none. */
  readonly keyId: string | undefined;

  constructor(message: string, keyId: string | undefined) {
    super(message);
    this.keyId = keyId;
  }
}

/**
 * The function that fetches a key failed or returned no key. Nothing was stored, and stored data was left untouched.
 */
export class KeyUnavailableError extends CodedError {
  static override readonly code = "KEY_UNAVAILABLE";
  override readonly name = "KeyUnavailableError";
  readonly keyId: string;

  constructor(message: string, keyId: string, options: CheckpointErrorOptions = {}) {
    super(message, options);
    this.keyId = keyId;
  }
}

/** The manager or the adapter was closed before the call. */
export class ClosedError extends CodedError {
  static override readonly code = "CLOSED";
  override readonly name = "ClosedError";

  constructor(what: string) {
    super(`${what} is closed. Everything it acknowledged is stored; open a new one to continue.`);
  }
}

/**
 * Whether `thrown` is an error of any realm. Jest runs tests in a `node:vm` context, where the errors of Node's files
 * and sockets come from the outer realm. All realms share DOMException, which isn't a native error in Node 20.
 */
export function isError(thrown: unknown): thrown is Error {
  // eslint-disable-next-line no-restricted-syntax -- for objects of this realm that only inherit from Error.
  return thrown instanceof Error || types.isNativeError(thrown) || thrown instanceof DOMException;
}

/** Returns the `code` of an error of any realm, from Waymark, Node or a database: `ENOENT`. `""` if it has none. */
export function readCode(error: unknown): string {
  const hasCode = typeof error === "object" && error !== null && "code" in error;
  return hasCode && typeof error.code === "string" ? error.code : "";
}

/** Whether the error is a stack overflow. Damaged data can cause one, since it may nest deeper than any saved state. */
export function isStackOverflow(error: unknown): boolean {
  return isError(error) && error.message === "Maximum call stack size exceeded";
}
