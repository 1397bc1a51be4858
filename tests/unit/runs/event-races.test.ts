// No event is lost and none is received twice, however often a loop that races a wait against a tick is killed.
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { type Run, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { managerOn, withWrites } from "./run-support.js";

const EVENTS = 150;

/** Numbers from 0 to 1, determined by the seed. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

type State = { readonly got: readonly number[] };
const LOOPS: Record<string, (run: Run<State>) => Promise<unknown>> = {
  "a race with a tick": async (run) => {
    const { got } = run.state;
    if (got.length === EVENTS) return got;
    const message = run.waitFor<number>("message");
    const event = await Promise.race([message, run.sleepUntil("tick", new Date(0)).then(() => undefined)]);
    return run.next({ got: event === undefined ? got : [...got, event.value] });
  },
  "a wait with a limit, and a step after it": async (run) => {
    const { got } = run.state;
    if (got.length === EVENTS) return got;
    const event = await run.waitFor<number>("message", { timeoutMs: 0 });
    await run.step("work", () => nextTurn());
    return run.next({ got: event === undefined ? got : [...got, event.value] });
  },
  "a wait that its signal ends, and a step after it": async (run) => {
    const { got } = run.state;
    if (got.length === EVENTS) return got;
    const over = new AbortController();
    const message = run.waitFor<number>("message", { signal: over.signal });
    const event = await Promise.race([message, run.step("tick", () => nextTurn())]);
    message.catch(() => undefined);
    over.abort();
    await run.step("work", () => nextTurn());
    return run.next({ got: event === undefined ? got : [...got, event.value] });
  },
};

it.each(Object.entries(LOOPS).flatMap(([name, loop]) => [1, 2, 3].map((seed) => [name, seed, loop] as const)))(
  "%s gets each event once, in order (seed %d)",
  async (_name, seed, loop) => {
    const random = chance(seed);
    const inner = new MemoryAdapter();
    const sender = managerOn(inner).manager;
    let sent = 0;
    const send = async () => {
      if (sent < EVENTS) await sender.send("t", "message", sent++);
    };
    let result: unknown;
    for (let lives = 0; result === undefined && lives < 2000; lives++) {
      let left = 5 + Math.floor(random() * 40);
      // Writes are acknowledged late, and events come before and after them.
      const storage = withWrites(inner, async (call) => {
        left -= 1;
        if (left === 0 && random() < 0.5) await call();
        if (left <= 0) throw new StorageError("killed");
        if (random() < 0.2) await send();
        const sequence = await call();
        if (random() < 0.2) await send();
        for (let turns = Math.floor(random() * 4); turns > 0; turns--) await nextTurn();
        return sequence;
      });
      const { manager } = managerOn(storage);
      const stop = new AbortController();
      if (random() < 0.3) setImmediate(() => stop.abort());
      const initialState: State = { got: [] };
      result = await manager.run("t", loop, { initialState, signal: stop.signal }).catch((error: unknown) => {
        const { code } = error as { code?: string };
        if (code === "STORAGE_FAILED" || code === "RUN_PAUSED") return undefined;
        throw error;
      });
      await send();
    }
    expect(result).toEqual(Array.from({ length: EVENTS }, (_, n) => n));
    const events = await managerOn(inner).manager.events("t");
    expect(events.filter(({ status }) => status !== "received")).toEqual([]);
  },
);
