// Loops that receive numbered events, and a storage whose process is killed and drained again and again.
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "vitest";
import { CheckpointManager, type CheckpointManagerOptions, type Run, type StorageAdapter, StorageError } from "waymark";
import { readRunNote } from "../../../src/contract/run-note.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { randomFrom } from "../../support/seeded.js";
import { withWrites } from "./run-support.js";

/** The number of the next event. */
interface State {
  readonly next: number;
}
type Loop = (run: Run<State, unknown, { readonly events: number }>) => Promise<unknown>;

/** The loops. Each returns the number of received events, and fails if one is missing, repeated or out of order. */
export const LOOPS: Readonly<Record<string, Loop>> = {
  "a race with a tick": async (run) => {
    const { state, input } = run;
    if (state.next === input.events) return state.next;
    const message = run.waitFor<number>("message");
    const event = await Promise.race([message, run.sleepUntil("tick", new Date(0)).then(() => undefined)]);
    return run.next(counted(state, event?.value));
  },
  "a wait with a limit, and a step after it": async (run) => {
    const { state, input } = run;
    if (state.next === input.events) return state.next;
    const event = await run.waitFor<number>("message", { timeoutMs: 0 });
    await run.step("work", () => nextTurn());
    return run.next(counted(state, event?.value));
  },
  "a wait that its signal ends, and a step after it": async (run) => {
    const { state, input } = run;
    if (state.next === input.events) return state.next;
    const over = new AbortController();
    const message = run.waitFor<number>("message", { signal: over.signal });
    const event = await Promise.race([message, run.step("tick", () => nextTurn())]);
    message.catch(() => undefined);
    over.abort();
    await run.step("work", () => nextTurn());
    return run.next(counted(state, event?.value));
  },
  "a wait that its signal ends, and another one in the same turn": async (run) => {
    const { state, input } = run;
    if (state.next === input.events) return state.next;
    const over = new AbortController();
    const aborted = run.waitFor<number>("message", { signal: over.signal }).catch((error: unknown) => {
      if (error === over.signal.reason) return undefined;
      throw error;
    });
    await Promise.race([aborted, run.step("tick", () => nextTurn())]);
    over.abort();
    const event = (await aborted) ?? (await run.waitFor<number>("message", { timeoutMs: 0 }));
    await run.step("work", () => nextTurn());
    return run.next(counted(state, event?.value));
  },
};

function counted({ next }: State, received: number | undefined): State {
  if (received === undefined) return { next };
  if (received !== next) throw new Error(`Event ${received} came instead of ${next}.`);
  return { next: next + 1 };
}

/**
 * Sends `events` events to a loop whose process is killed or drained after at most `mostWrites` writes. Writes are
 * acknowledged late; events come before and after them. Some are sent twice, and two stay pending.
 */
export async function sendThrough(
  storage: StorageAdapter,
  loop: Loop,
  {
    events,
    seed,
    mostWrites,
    ...options
  }: Pick<CheckpointManagerOptions<never>, "retention"> & {
    readonly events: number;
    readonly seed: number;
    readonly mostWrites: number;
  },
): Promise<void> {
  const random = randomFrom(seed);
  const managerOn = (store: StorageAdapter) =>
    new CheckpointManager<State>({ storage: store, ownsStorage: false, logger: recordingLogger(), ...options });
  const sender = managerOn(storage);
  // No wait ever receives these events.
  await sender.send("t", "stale", -1);
  await sender.send("t", "message", -1, { wait: "another", force: true });
  let sent = 0;
  const send = async (runner = sender) => {
    if (sent === events) return;
    const [value, id] = [sent, String(sent)];
    sent += 1;
    await sender.send("t", "message", value, { id });
    // The manager of the run wakes its open waits, so that they receive the event at once.
    await runner.send("t", "message", value, { id });
  };
  let result: unknown;
  while (result === undefined) {
    let left = 5 + Math.floor(random() * mostWrites);
    const drain = new AbortController();
    const isDrained = random() < 0.3;
    const mortal = withWrites(storage, async (call) => {
      left -= 1;
      if (left === 0 && isDrained) drain.abort();
      if (left <= 0 && !isDrained) {
        if (left === 0 && random() < 0.5) await call();
        throw new StorageError("killed");
      }
      // These sends are so rare that most events come while a wait is open.
      if (random() < 0.06) await send(runner);
      const sequence = await call();
      if (random() < 0.06) await send(runner);
      for (let turns = Math.floor(random() * 4); turns > 0; turns--) await nextTurn();
      return sequence;
    });
    const how = { initialState: { next: 0 }, input: { events }, signal: drain.signal };
    const runner = managerOn(mortal);
    result = await runner.run("t", loop, how).catch((error: unknown) => {
      if (error instanceof Error && "code" in error && (error.code === "STORAGE_FAILED" || error.code === "RUN_PAUSED"))
        return undefined;
      throw error;
    });
    await send();
  }
  expect(result).toBe(events);
  const left = (await sender.events("t")).filter(({ status }) => status !== "received");
  expect(left.map(({ name }) => name)).toEqual(["stale", "message"]);
  const newest = (await sender.latest("t")) ?? expect.fail();
  expect(readRunNote(newest)?.received?.length).toBeLessThanOrEqual(3);
}
