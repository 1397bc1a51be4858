import { AsyncResource } from "node:async_hooks";
import { setImmediate } from "node:timers";
import { types } from "node:util";
import { checkKeys, listKeys } from "../src/contract/arguments.js";
import type { Runtime } from "../src/contract/runtime.js";

export interface SimulatedRuntimeOptions {
  /** The time at the beginning. Default 2026-01-01T00:00:00Z. */
  readonly startAt?: Date | undefined;
}

/**
 * A runtime whose time stands still until {@link advance} moves it: a day of pauses, sleeps, leases and polls takes
 * milliseconds. Pass it to each manager of a test as `runtime`, and to its MemoryAdapter.
 *
 * @example
 * ```ts
 * import { CheckpointManager } from "waymark";
 * import { MemoryAdapter } from "waymark/adapters/memory";
 * import { SimulatedRuntime } from "waymark/testing";
 *
 * const runtime = new SimulatedRuntime();
 * const manager = new CheckpointManager({ storage: new MemoryAdapter({ runtime }), runtime });
 * const reminded = manager.run("order-7", async (run) => {
 *   await run.sleepUntil("a day", new Date(runtime.now() + 24 * 60 * 60 * 1000));
 *   return run.step("remind", () => "reminded");
 * });
 * await runtime.advance(24 * 60 * 60 * 1000);
 * console.log(await reminded);
 * ```
 */
export class SimulatedRuntime implements Runtime {
  #nowMs: number;
  /** Sorted by time, the next timer last. */
  readonly #timers: Timer[] = [];
  #ids = 0;
  /** The calls of {@link setImmediate} that haven't begun. */
  #immediates = 0;
  /** The promises of {@link outside} that haven't settled. */
  readonly #outside = new Set<Promise<unknown>>();
  #isAdvancing = false;

  /** @throws {TypeError} `startAt` isn't a valid date. */
  constructor(options: SimulatedRuntimeOptions = {}) {
    checkKeys("SimulatedRuntimeOptions", options, listKeys<SimulatedRuntimeOptions>({ startAt: true }));
    const { startAt = new Date(Date.UTC(2026, 0, 1)) } = options;
    if (!types.isDate(startAt) || Number.isNaN(startAt.getTime()))
      throw new TypeError('SimulatedRuntimeOptions.startAt must be a valid Date, such as new Date("2026-01-01").');
    this.#nowMs = startAt.getTime();
  }

  /** Returns the simulated time, in milliseconds since 1970. */
  now(): number {
    return this.#nowMs;
  }

  /**
   * Lets everything that is due at the current time happen: steps, saves, claims, and everything that follows from
   * them. Waits for calls of the managers' storages and for other promises of {@link outside}.
   */
  async settle(): Promise<void> {
    for (;;) {
      // All promises that don't wait for I/O or a timer settle within this turn of the event loop.
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (this.#outside.size > 0) await Promise.allSettled(this.#outside);
      else if (this.#immediates === 0) return;
    }
  }

  /**
   * Advances the time by `ms` milliseconds. Stops at each timer that becomes due, calls it, and waits for everything
   * that follows from it, like {@link settle}.
   *
   * @throws {TypeError} Another call is under way.
   */
  async advance(ms: number): Promise<void> {
    if (this.#isAdvancing) throw new TypeError("SimulatedRuntime.advance was called while another call is under way.");
    if (!(ms >= 0 && Number.isFinite(ms)))
      throw new RangeError(`SimulatedRuntime.advance needs milliseconds, not ${ms}.`);
    this.#isAdvancing = true;
    try {
      const endMs = this.#nowMs + ms;
      await this.settle();
      for (let timer = this.#takeTimer(endMs); timer !== undefined; timer = this.#takeTimer(endMs)) {
        this.#nowMs = timer.atMs;
        timer.call();
        await this.settle();
      }
      this.#nowMs = endMs;
    } finally {
      this.#isAdvancing = false;
    }
  }

  /**
   * Returns a wrapper of `target`, an object or a function. Time doesn't pass before the wrapper's promises have
   * settled. Managers wrap their storage and transforms. Wrap what your steps call: `runtime.outside(fetch)`. If such a
   * promise never settles, or needs time to pass, {@link advance} never returns.
   */
  outside<Target extends object>(target: Target): Target {
    return this.#watched(target, undefined);
  }

  elapsedMs(): number {
    return this.#nowMs;
  }

  setTimeout(call: () => void, ms: number): () => void {
    // Like Node, rounds down to whole milliseconds, at least one.
    const atMs = this.#nowMs + Math.max(1, Math.trunc(ms));
    const context = new AsyncResource("SimulatedTimeout");
    const timer = { atMs, call: () => context.runInAsyncScope(call) };
    const at = this.#timers.findLastIndex((other) => other.atMs > atMs) + 1;
    this.#timers.splice(at, 0, timer);
    return () => {
      const index = this.#timers.indexOf(timer);
      if (index >= 0) this.#timers.splice(index, 1);
    };
  }

  setImmediate(call: () => void): void {
    this.#immediates += 1;
    setImmediate(() => {
      this.#immediates -= 1;
      call();
    });
  }

  /** Returns a UUID of version 7, made of the simulated time and a counter. */
  randomUUID(): string {
    this.#ids += 1;
    const time = hex(this.#nowMs, 12);
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${hex(this.#ids, 12)}`;
  }

  #takeTimer(endMs: number): Timer | undefined {
    const next = this.#timers.at(-1);
    return next !== undefined && next.atMs <= endMs ? this.#timers.pop() : undefined;
  }

  /** @param owner - The object that `target` is a method of. */
  #watched<Target extends object>(target: Target, owner: unknown): Target {
    return new Proxy(target, {
      get: (_, key) => {
        const member: unknown = Reflect.get(target, key);
        // `bind`, `call` and `apply` stay unwrapped, so that they call the proxy.
        const isOfFunctions = typeof target === "function" && key in Function.prototype;
        return isObject(member) && !isOfFunctions && !isFixed(target, key) ? this.#watched(member, target) : member;
      },
      apply: (_, given, args) => {
        const result: unknown = typeof target === "function" && Reflect.apply(target, owner ?? given, args);
        if (types.isPromise(result)) this.#waitFor(result);
        return isObject(result) && Symbol.asyncIterator in result ? this.outside(result) : result;
      },
    });
  }

  #waitFor(promise: Promise<unknown>): void {
    const forget = () => this.#outside.delete(promise);
    this.#outside.add(promise);
    promise.then(forget, forget);
  }
}

interface Timer {
  readonly atMs: number;
  readonly call: () => void;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

function isObject(value: unknown): value is object {
  return typeof value === "function" || (typeof value === "object" && value !== null);
}

/** Whether a proxy must return the member itself. */
function isFixed(target: object, key: PropertyKey): boolean {
  const property = Reflect.getOwnPropertyDescriptor(target, key);
  return property !== undefined && !property.configurable && !property.writable;
}
