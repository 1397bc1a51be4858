// Tests the chunks that steps write while they run.
import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type StepCall, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { PAUSING } from "../../../src/contract/run-record.js";
import { collect } from "../../support/collect.js";
import { deferred } from "../../support/deferred.js";
import { managerOn, runOf, STORAGES, withWrites } from "./run-support.js";

type Manager = ReturnType<typeof managerOn>["manager"];

async function chunksOf(manager: Manager, taskId = "t"): Promise<unknown[]> {
  const records = await collect(manager.records(taskId, { kinds: ["chunk"] }));
  return records.map((record) => ("value" in record ? record.value : undefined));
}

it("a chunk that can't be stored rejects, and doesn't throw into the listener that writes it", async () => {
  const { manager } = managerOn();
  await manager.run("t", (run) =>
    run.step("model", async ({ write }) => {
      let written: Promise<void> | undefined;
      expect(() => {
        written = write(() => 1);
      }).not.toThrow();
      await expect(written).rejects.toMatchObject({ code: "STATE_NOT_SERIALIZABLE" });
    }),
  );
});

describe.each(Object.entries(STORAGES))("chunks on %s", (_name, open) => {
  it("are stored in their order before the step's result, and followed while the step runs", async () => {
    const storage = await open();
    const { manager } = managerOn(storage);
    const following = manager.follow("t", { kinds: ["chunk", "step"] });
    const seen = deferred();
    const running = manager.run("t", (run) =>
      run.step("model", async ({ write }) => {
        await write("Hello");
        await seen.promise;
        void write({ tokens: 2 });
        await write(new Uint8Array([1, 2]));
        return "Hello there";
      }),
    );
    const first = await following.next();
    expect(first.value).toMatchObject({ kind: "chunk", name: "model", value: { attempt: 1, chunk: "Hello" } });
    seen.resolve();
    const rest = await collect(following);
    expect(await running).toBe("Hello there");
    expect(rest).toMatchObject([
      { kind: "chunk", value: { attempt: 1, chunk: { tokens: 2 } } },
      { kind: "chunk", value: { attempt: 1, chunk: new Uint8Array([1, 2]) } },
      { kind: "step", name: "model" },
    ]);
    await storage.close();
  });
});

it("chunks wait 20 ms for others, and the last ones share the write of the result", async () => {
  const runtime = new SimulatedRuntime();
  const writes: (readonly string[])[] = [];
  const storage = withWrites(new MemoryAdapter({ runtime }), (call, _isLazy, titles) => {
    if (titles.some((title) => title.startsWith("chunk"))) writes.push(titles);
    return call();
  });
  const { manager } = managerOn(storage, { runtime });
  const pause = (ms: number) => new Promise<void>((resolve) => void runtime.setTimeout(resolve, ms));
  const running = manager.run("t", (run) =>
    run.step("model", async ({ write }) => {
      for (const token of ["a", "b"]) await write(token);
      await pause(100);
      for (const token of ["c", "d"]) await write(token);
    }),
  );
  await runtime.advance(1000);
  await running;
  expect(writes).toEqual([
    ["chunk model", "chunk model"],
    ["chunk model", "chunk model", "step model"],
  ]);
});

it("a step that writes faster than the storage stores has to wait, and no chunk is lost", async () => {
  const [full, written] = [deferred(), deferred()];
  const storage = withWrites(new MemoryAdapter(), async (call, _isLazy, titles) => {
    if (titles.includes("chunk log")) {
      full.resolve();
      await written.promise;
    }
    return call();
  });
  const { manager } = managerOn(storage);
  let awaited = 0;
  const running = manager.run("t", (run) =>
    run.step("log", async ({ write }) => {
      for (; awaited < 100; awaited++) await write("x".repeat(10_000));
    }),
  );
  await full.promise;
  await nextTurn();
  expect(awaited).toBe(6);
  written.resolve();
  await running;
  expect(await chunksOf(manager)).toHaveLength(100);
});

it("each chunk names the attempt of its step, and an attempt that was killed has left its own", async () => {
  const { manager, storage } = managerOn();
  let isKilled = false;
  const mortal = withWrites(storage, (call) =>
    isKilled ? Promise.reject(new StorageError("The process was killed.")) : call(),
  );
  const killed = managerOn(mortal).manager.run("t", (run) =>
    run.step("model", async ({ write }) => {
      await write("a");
      await manager.follow("t", { kinds: ["chunk"] }).next();
      isKilled = true;
    }),
  );
  await expect(killed).rejects.toMatchObject({ code: "STORAGE_FAILED" });
  await manager.run("t", (run) => run.step("model", ({ write }) => write("b")));
  expect(await chunksOf(manager)).toEqual([
    { attempt: 1, chunk: "a" },
    { attempt: 2, chunk: "b" },
  ]);
});

it("chunks aren't stored twice if the answer to their write is lost", async () => {
  let isLost = true;
  const storage = withWrites(new MemoryAdapter(), async (call, _isLazy, titles) => {
    const sequence = await call();
    if (!isLost || !titles.includes("chunk model")) return sequence;
    isLost = false;
    throw new StorageError("The answer was lost.", { retryable: true });
  });
  const { manager } = managerOn(storage);
  await manager.run("t", (run) => run.step("model", async ({ write }) => write("a")));
  expect(await chunksOf(manager)).toEqual([{ attempt: 1, chunk: "a" }]);
});

it("a failed attempt's chunks stay, also before a retry, and a fork takes none along", async () => {
  const { manager } = managerOn();
  await manager.run("t", (run) =>
    run.step(
      "model",
      async ({ write, attempt }) => {
        await write(attempt);
        if (attempt === 1) throw new RangeError("overloaded");
        return "done";
      },
      { retry: { times: 1, backoffMs: 0 } },
    ),
  );
  expect(await chunksOf(manager)).toEqual([1, 2].map((attempt) => ({ attempt, chunk: attempt })));
  expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "model", status: "completed", attempts: 2 }]);
  const { sequence } = (await collect(manager.records("t", { kinds: ["step"] })))[0]!;
  await manager.fork("t", sequence, "branch");
  expect(await chunksOf(manager, "branch")).toEqual([]);
});

it("a chunk that can't be stored fails the step, and the log has what `redact` leaves", async () => {
  const { manager } = managerOn(undefined, { redact: { paths: ["step.model.token"] } });
  const unstorable = manager.run("t", (run) => run.step("model", ({ write }) => write(() => 1)));
  await expect(unstorable).rejects.toMatchObject({ code: "STATE_NOT_SERIALIZABLE" });
  await manager.run("u", (run) => run.step("model", ({ write }) => write({ token: "secret" })));
  expect(await chunksOf(manager, "u")).toEqual([{ attempt: 1, chunk: { token: "[redacted]" } }]);
});

it("a write after its attempt, or once the run is cancelled, is refused, and ends no process", async () => {
  const { manager } = managerOn();
  const writes: StepCall["write"][] = [];
  await manager.run("t", (run) =>
    run.step(
      "model",
      async ({ write, attempt }) => {
        writes.push(write);
        if (attempt === 1) throw new RangeError("overloaded");
        // The first attempt's listener is still there.
        void writes[0]?.("late");
        await expect(writes[0]?.("late")).rejects.toThrow(/had ended/);
      },
      {
        retry: {
          times: 1,
          backoffMs: 0,
          // The attempt writes this before the pause.
          if: () => {
            void writes[0]?.("late");
            return true;
          },
        },
      },
    ),
  );
  void writes[1]?.("late");
  expect(await chunksOf(manager)).toEqual([]);
  const cancelled = manager.run("u", (run) =>
    run.step("model", async ({ write, signal }) => {
      await manager.cancel("u", "by the test");
      if (!signal.aborted) await once(signal, "abort");
      void write("late");
      await write("late");
    }),
  );
  await expect(cancelled).rejects.toMatchObject({ code: "RUN_CANCELLED" });
  expect(await chunksOf(manager, "u")).toEqual([]);
});

it("a run that pauses stores what its step writes, as it stores the step's result", async () => {
  const { manager } = managerOn();
  const stop = new AbortController();
  const paused = manager.run(
    "t",
    (run) =>
      run.step("model", async ({ write }) => {
        stop.abort();
        void write("last words");
      }),
    { signal: stop.signal },
  );
  await expect(paused).rejects.toMatchObject({ code: "RUN_PAUSED" });
  expect(await chunksOf(manager)).toEqual([{ attempt: 1, chunk: "last words" }]);
});

it.each(["chunk", "step"])("only a step counts as progress of a worker's run: %s", async (kind) => {
  const written: string[] = [];
  const storage = withWrites(new MemoryAdapter(), (call, _isLazy, titles) => {
    written.push(...titles);
    return call();
  });
  const { manager } = managerOn(storage);
  const stop = new AbortController();
  await manager.enqueue("t", {});
  await manager.work({ prefix: "t", signal: stop.signal }, async (run) => {
    if (kind === "step") await run.step("first", () => 1);
    await run.step("model", async ({ write, signal }) => {
      await write("a");
      await manager.follow("t", { kinds: ["chunk"] }).next();
      stop.abort();
      signal.throwIfAborted();
    });
  });
  expect(written).toContain("chunk model");
  // Without progress, the pause is noted, so that the attempt doesn't count as killed.
  expect(written.includes(`mark ${PAUSING}`)).toBe(kind === "chunk");
});
