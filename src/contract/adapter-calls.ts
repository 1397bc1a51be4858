import { CheckpointError, ClosedError, isError, readCode, StorageError } from "./errors.js";
import { Turns } from "./turns.js";

/** The options of {@link AdapterCalls}. */
export interface AdapterCallsOptions {
  /** The adapter's name in messages: `redis`. */
  readonly name: string;
  /**
   * Whether the same call may succeed after this error of the backend. Node's codes for a lost connection
   * (`ECONNRESET`) always count as retryable, even in an error's `cause`.
   */
  readonly isRetryable?: ((error: unknown) => boolean) | undefined;
  /** Makes the error that a failed call throws. Default: a StorageError with the backend's error as its cause. */
  readonly explain?: ((error: unknown) => unknown) | undefined;
}

/**
 * Orders the calls of one adapter, waits for them on close, and wraps their errors. For adapters.
 *
 * - {@link inTurn} runs the calls of one task one after another, in call order. Calls of different tasks run at the
 *   same time.
 * - {@link close} waits for the calls under way. Later calls reject with a ClosedError.
 * - An error of the backend becomes a StorageError with the backend's error as its cause. A CheckpointError is rethrown
 *   unchanged.
 *
 * A call must not wait for another call of the same instance, because the other call may be queued behind it, or
 * refused after `close`.
 *
 * @example
 * ```ts
 * import { AdapterCalls, type CheckpointDraft, copyRecord } from "waymark/adapter";
 *
 * class MyAdapter {
 *   readonly #calls = new AdapterCalls({ name: "mine" });
 *
 *   append(draft: CheckpointDraft): Promise<number> {
 *     const own = copyRecord(draft); // Before the turn: the caller may change its draft while the call waits.
 *     return this.#calls.inTurn(own.taskId, async () => store(own));
 *   }
 *
 *   close(): Promise<void> {
 *     return this.#calls.close();
 *   }
 * }
 *
 * declare function store(draft: CheckpointDraft): Promise<number>;
 * ```
 */
export class AdapterCalls {
  readonly #adapter: string;
  readonly #options: AdapterCallsOptions;
  readonly #turns = new Turns();
  readonly #underWay = new Set<Promise<void>>();
  #closing: Promise<void> | undefined;

  constructor(options: AdapterCallsOptions) {
    this.#adapter = `The ${options.name} adapter`;
    this.#options = options;
  }

  /** The number of calls that haven't ended. */
  get underWay(): number {
    return this.#underWay.size;
  }

  /**
   * Runs `work` at once. Use it for reads, and for writes that the backend orders itself. For an iteration, wrap each
   * step instead of the whole loop. Otherwise `close` would wait for an iteration that its caller abandoned.
   *
   * @throws {ClosedError} The adapter is closed.
   * @throws {StorageError} The backend failed.
   */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.#begin(`${this.#adapter} failed`, work);
  }

  /**
   * Runs `work` once all earlier calls with the same `name` have succeeded or failed.
   *
   * @param name - The task's id, or another name whose calls must not overlap.
   * @throws {ClosedError} The adapter is closed.
   * @throws {StorageError} The backend failed.
   */
  inTurn<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const failed = `${this.#adapter} failed in a call for ${JSON.stringify(name)}`;
    // Async, so that a synchronous throw of `work` becomes a rejection.
    return this.#begin(failed, () => this.#turns.run(name, async () => work()));
  }

  /**
   * Waits for the calls under way, queued ones included, then calls `release`. Later calls of `close` return the same
   * promise.
   *
   * @param release - Frees what the adapter holds: a connection, a timer.
   * @throws {StorageError} `release` failed.
   */
  close(release?: () => Promise<void>): Promise<void> {
    this.#closing ??= Promise.all(this.#underWay)
      .then(() => release?.())
      .catch((error: unknown) => this.#fail(`${this.#adapter} failed to close`, error));
    return this.#closing;
  }

  async #begin<Result>(failed: string, work: () => Promise<Result>): Promise<Result> {
    if (this.#closing !== undefined) throw new ClosedError(this.#adapter);
    // Async, so that a synchronous throw of `work` becomes a rejection.
    const call = (async () => work())();
    const ended = call.then(ignore, ignore);
    this.#underWay.add(ended);
    try {
      return await call;
    } catch (error) {
      return this.#fail(failed, error);
    } finally {
      this.#underWay.delete(ended);
    }
  }

  /** Wraps every error but a CheckpointError. Clients also throw TypeErrors for lost connections (`fetch failed`). */
  #fail(failed: string, cause: unknown): never {
    const { explain, isRetryable } = this.#options;
    if (cause instanceof CheckpointError) throw cause;
    if (explain !== undefined) throw explain(cause);
    const retryable = isLostConnection(cause) || isRetryable?.(cause) === true;
    const next = retryable
      ? "Try again; a save under the same id is stored once."
      : "Look at the error's cause: the same call would probably fail again.";
    throw new StorageError(
      `${failed}: ${isError(cause) ? cause.message : String(cause)}. Checkpoints that it acknowledged are intact. ${next}`,
      { cause, retryable },
    );
  }
}

const LOST_CONNECTION = [
  ...["ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT"],
  ...["EHOSTUNREACH", "ENETUNREACH", "EAI_AGAIN"],
];

function isLostConnection(error: unknown): boolean {
  return isError(error) && (LOST_CONNECTION.includes(readCode(error)) || isLostConnection(error.cause));
}

function ignore(): void {}
