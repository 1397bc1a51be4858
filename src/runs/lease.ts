import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { checkKeys, type StorageAdapter } from "../contract/adapter.js";
import { LeaseHeldError, LeaseLostError, UnsupportedOperationError } from "../contract/errors.js";
import type { LeaseStore } from "../contract/leases.js";
import { checkInteger, checkText } from "../manager/arguments.js";

export interface LeaseOptions {
  /** How long the lease lasts without a renewal, in milliseconds, from 100. It renews itself after a third. Default 30,000. */
  readonly ttlMs?: number | undefined;
  /** Shown to others who claim the task. Default: the machine's name, the process id and a random part. */
  readonly holder?: string | undefined;
}

/**
 * The right to run a task, until it is released or lost. Give it to `save`, `setStatus` and `remove`: once it is lost, they
 * store nothing, and throw a LeaseLostError.
 */
export interface Lease extends AsyncDisposable {
  readonly taskId: string;
  readonly holder: string;
  /** The fencing token: 1, 2, 3 … per task. Every claim of the task gets a higher one. */
  readonly token: number;
  /** When it expires unless it is renewed, in ISO 8601 UTC by this machine's clock. */
  readonly expiresAt: string;
  /**
   * Aborts once the lease is lost, with the LeaseLostError, or released. If it expires unrenewed, that is at once; if
   * somebody else has it meanwhile, as after a suspend, at the next renewal.
   */
  readonly signal: AbortSignal;
  /** Renews it now. @throws {LeaseLostError} It is lost. */
  renew(): Promise<void>;
  /** Ends it: the task is free. Idempotent. */
  release(): Promise<void>;
}

const DEFAULT_TTL_MS = 30_000;
const MIN_TTL_MS = 100;
const MAX_TTL_MS = 2 ** 31 - 1;
/** This process, for those who wait for it. */
const HOLDER = `${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`;

/**
 * Claims a task.
 *
 * @throws {LeaseHeldError} Somebody else has it.
 * @throws {UnsupportedOperationError} The storage gives no leases.
 */
export async function claimLease(storage: StorageAdapter, taskId: string, options: LeaseOptions): Promise<TaskLease> {
  checkKeys("LeaseOptions", options, ["ttlMs", "holder"] satisfies (keyof LeaseOptions)[]);
  const { ttlMs = DEFAULT_TTL_MS, holder = HOLDER } = options;
  checkInteger("LeaseOptions.ttlMs", ttlMs, MIN_TTL_MS);
  if (ttlMs > MAX_TTL_MS) throw new RangeError(`LeaseOptions.ttlMs must be at most ${MAX_TTL_MS}; it is ${ttlMs}.`);
  checkText("LeaseOptions.holder", holder, 1);
  const { leases } = storage;
  if (leases === undefined) {
    throw new UnsupportedOperationError(`The ${storage.name} storage gives no leases. Nothing was changed.`);
  }
  const askedAtMs = performance.now();
  const claim = await leases.claim(taskId, holder, ttlMs);
  if (!claim.isGranted) throw new LeaseHeldError(taskId, claim);
  return new TaskLease(leases, { taskId, holder, token: claim.token, ttlMs, askedAtMs });
}

interface Claimed {
  readonly taskId: string;
  readonly holder: string;
  readonly token: number;
  readonly ttlMs: number;
  /** When it was asked for, by `performance.now()`: it lasts at least from then on. */
  readonly askedAtMs: number;
}

/** A lease that renews itself. Its timers don't keep the process alive. */
export class TaskLease implements Lease {
  readonly taskId: string;
  readonly holder: string;
  readonly token: number;
  readonly #leases: LeaseStore;
  readonly #ttlMs: number;
  readonly #ending = new AbortController();
  readonly #renewal: NodeJS.Timeout;
  #expiry: NodeJS.Timeout | undefined;
  #expiresAtMs = 0;
  #released: Promise<void> | undefined;

  constructor(leases: LeaseStore, { taskId, holder, token, ttlMs, askedAtMs }: Claimed) {
    this.#leases = leases;
    this.#ttlMs = ttlMs;
    this.taskId = taskId;
    this.holder = holder;
    this.token = token;
    this.#lastsFrom(askedAtMs);
    // A failure of the storage is no loss yet: the next renewal, or the expiry, decides.
    this.#renewal = setInterval(() => void this.renew().catch(() => undefined), ttlMs / 3).unref();
  }

  get expiresAt(): string {
    return new Date(Date.now() + this.#expiresAtMs - performance.now()).toISOString();
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  async renew(): Promise<void> {
    this.signal.throwIfAborted();
    const askedAtMs = performance.now();
    const isHeld = await this.#leases.renew(this.taskId, this.token, this.#ttlMs);
    if (!isHeld) this.#end(this.#lost("it has expired, or somebody else has it"));
    this.signal.throwIfAborted();
    this.#lastsFrom(askedAtMs);
  }

  release(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #release(): Promise<void> {
    const isLost = this.signal.aborted;
    this.#end(this.#lost("it was released"));
    if (!isLost) await this.#leases.release(this.taskId, this.token);
  }

  #lastsFrom(askedAtMs: number): void {
    clearTimeout(this.#expiry);
    this.#expiresAtMs = askedAtMs + this.#ttlMs;
    const expire = (): void => this.#end(this.#lost("it expired before it was renewed"));
    this.#expiry = setTimeout(expire, Math.max(0, this.#expiresAtMs - performance.now())).unref();
  }

  #end(reason: LeaseLostError): void {
    clearInterval(this.#renewal);
    clearTimeout(this.#expiry);
    this.#ending.abort(reason);
  }

  #lost(why: string): LeaseLostError {
    const message = `The lease of task ${JSON.stringify(this.taskId)} under token ${this.token} is lost: ${why}.`;
    return new LeaseLostError(`${message} Stop this run, and claim the task anew.`, { taskId: this.taskId });
  }
}
