// Waits whose signal aborts before they have received an event, or after it.
import { expect, it } from "vitest";
import { CheckpointManager, type Run, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { listEventHeaders } from "../../../src/runs/run-view.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { managerOn, withWrites } from "./run-support.js";

/** A run whose first wait is aborted at the moment at which its event comes, and which fails so often. */
function abortedRun(failures = 1) {
  const { manager, storage } = managerOn();
  const got: unknown[] = [];
  let fails = failures;
  const program = async (run: Run<{ readonly turn: number }>) => {
    if (run.state.turn === 0) {
      const listening = new AbortController();
      const aborted = run.waitFor("msg", { signal: listening.signal }).catch(() => undefined);
      await run.step("tick", async () => {
        await manager.send("t", "msg", "A", { id: "a" });
      });
      listening.abort();
      expect(await aborted).toBeUndefined();
      if (fails-- > 0) throw new Error("stop");
    }
    const { value } = (await run.waitFor("msg", { timeoutMs: 0 })) ?? {};
    got.push(value);
    return run.state.turn < 2 ? run.next({ turn: run.state.turn + 1 }) : got;
  };
  const attempt = () => manager.run("t", program, { initialState: { turn: 0 } });
  return { manager, storage, attempt, got };
}

it("an event whose wait was aborted is received by the next wait, and once", async () => {
  const { manager, storage, attempt } = abortedRun();
  await expect(attempt()).rejects.toThrow("stop");
  expect(await manager.events("t")).toMatchObject([{ id: "a", status: "pending" }]);
  expect(await listEventHeaders(storage, "t")).toMatchObject([{ id: "a", status: "pending" }]);
  expect(await attempt()).toEqual(["A", undefined, undefined]);
  expect(await manager.events("t")).toMatchObject([{ id: "a", status: "received" }]);
});

it("an event whose wait was aborted is received by the next wait of the same attempt", async () => {
  const { attempt } = abortedRun(0);
  expect(await attempt()).toEqual(["A", undefined, undefined]);
});

it.each(["a save", "a restart", "a rewind"])(
  "an event whose wait was aborted is still pending after %s",
  async (how) => {
    const { manager, attempt } = abortedRun();
    await expect(attempt()).rejects.toThrow("stop");
    const program = async (run: Run) => (await run.waitFor("msg", { timeoutMs: 0 }))?.value;
    if (how === "a save") await manager.save("t", { turn: 7 });
    if (how === "a rewind") await manager.rewind("t", (await manager.latest("t"))?.id ?? "");
    expect(await manager.run("t", program, { restart: how === "a restart" })).toBe("A");
  },
);

it("an event that a run has received stays received, if the signal of its wait is aborted at the resume", async () => {
  const { manager } = managerOn();
  const closing = new AbortController();
  const charged: unknown[] = [];
  const attempt = () =>
    manager.run("t", async (run) => {
      const { value } = await run.waitFor("job", { signal: closing.signal });
      await run.step("charge", () => charged.push(value));
      if (run.attempt === 1) throw new Error("stop");
      return value;
    });
  await manager.send("t", "job", "J1");
  await expect(attempt()).rejects.toThrow("stop");
  closing.abort();
  expect(await attempt()).toBe("J1");
  expect(charged).toEqual(["J1"]);
});

it("a wait is refused while another one with its name is open, with advice for waits", async () => {
  const { manager } = managerOn();
  const program = async (run: Run) => {
    run.waitFor("msg").catch(() => undefined);
    return run.waitFor("msg");
  };
  await expect(manager.run("t", program)).rejects.toThrow(
    /^A wait named "msg" is already under way .* Keep the promise of the open wait, or abort its `signal` and await it/,
  );
});

it("an event is received in the next turn if the process is killed before a wait that its signal ended gives it back", async () => {
  const storage = new MemoryAdapter();
  let left = 4;
  const mortal = withWrites(storage, async (call) => {
    left -= 1;
    if (left < 0) throw new StorageError("killed");
    return call();
  });
  const program = (manager: CheckpointManager<number>) =>
    manager.run("t", async (run) => {
      if (run.state === 1) return (await run.waitFor("m", { timeoutMs: 0 }))?.value;
      const over = new AbortController();
      const message = run.waitFor("m", { signal: over.signal });
      message.catch(() => undefined);
      await run.step("tick", () => manager.send("t", "m", "hello", { id: "1" }));
      over.abort();
      await run.step("work", () => 1);
      return run.next(1);
    });
  const first = new CheckpointManager<number>({ storage: mortal, ownsStorage: false, logger: recordingLogger() });
  await expect(program(first)).rejects.toThrow("killed");
  const second = new CheckpointManager<number>({ storage, logger: recordingLogger() });
  expect(await program(second)).toBe("hello");
});
