// Tests how long a poller pauses between two polls of a shared storage.
import { expect, it } from "vitest";
import type { Runtime, StorageAdapter } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { collect } from "../../support/collect.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn } from "./run-support.js";

/** Returns the times at which a follower polls, if each poll takes this long. */
async function looksOf({ isHinted, lookMs }: { isHinted: boolean; lookMs: number }, ms: number) {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const inner = new MemoryAdapter({ runtime });
  const looks: number[] = [];
  const storage = withMembers<StorageAdapter>(inner, {
    capabilities: { ...inner.capabilities, multiProcess: true },
    log: withMembers(inner.log, {
      watch: isHinted
        ? (changed) => {
            runtime.setImmediate(changed);
            return inner.log.watch?.(changed) ?? (() => undefined);
          }
        : undefined,
    }),
    async *tasks(query) {
      looks.push(runtime.now());
      if (lookMs > 0) await new Promise<void>((resolve) => void runtime.setTimeout(resolve, lookMs));
      yield* inner.tasks(query);
    },
  });
  // It doesn't wait for the storage, whose looks take time of the runtime.
  const { manager } = managerOn(storage, { runtime: withMembers<Runtime>(runtime, { outside: undefined }) });
  const other = managerOn(inner, { runtime }).manager;
  await other.save("t", 1);
  const stop = new AbortController();
  const following = manager.follow("t", { afterSequence: 1, signal: stop.signal });
  const next = following.next();
  await runtime.advance(ms);
  return { looks, other, runtime, next, stop };
}

it("without hints, a follower looks more and more seldom, and often again once something has come", async () => {
  const { looks, other, runtime, next, stop } = await looksOf({ isHinted: false, lookMs: 0 }, 2300);
  expect(looks).toEqual([0, 0, 50, 125, 237, 405, 658, 1037, 1537, 2037]);
  await other.save("t", 2);
  await runtime.advance(300);
  expect(await next).toMatchObject({ value: { sequence: 2 } });
  stop.abort();
});

it("with hints, a follower looks when something has changed, at most every 20 ms, and every 2 s in any case", async () => {
  const { looks, other, runtime, next, stop } = await looksOf({ isHinted: true, lookMs: 0 }, 4100);
  // The third one comes once the storage tells of changes, since one may have been missed until then.
  expect(looks).toEqual([0, 0, 20, 2020, 4020]);
  await other.save("another", 1);
  await other.save("another", 2);
  await runtime.advance(1);
  await other.save("t", 2);
  await runtime.advance(25);
  expect(looks.slice(5)).toEqual([4100, 4120]);
  expect(await next).toMatchObject({ value: { sequence: 2 } });
  stop.abort();
});

it("on a storage of one process that doesn't tell of changes, a worker and `result` poll", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const inner = new MemoryAdapter({ runtime });
  const storage = withMembers<StorageAdapter>(inner, { log: withMembers(inner.log, { watch: undefined }) });
  const { manager } = managerOn(storage, { runtime });
  const other = managerOn(inner, { runtime }).manager;
  const stop = new AbortController();
  const working = manager.work({ prefix: "q/", signal: stop.signal }, async (run) => {
    await run.waitFor("go");
    return runtime.now();
  });
  await other.enqueue("q/later", {}, { dueAt: new Date(3_600_000) });
  await runtime.advance(90_000);
  await other.enqueue("q/1", {});
  await other.send("q/1", "go", true);
  const result = manager.result("q/1");
  await runtime.advance(1000);
  expect(await result).toBeLessThanOrEqual(90_250);
  stop.abort();
  await working;
});

it("a follower whose looks take long pauses ten times as long, up to 2 s", async () => {
  const { looks, stop, runtime, next } = await looksOf({ isHinted: false, lookMs: 100 }, 7000);
  expect(looks).toEqual([0, 100, 1200, 2300, 3400, 4500, 5600, 6700]);
  const slow = await looksOf({ isHinted: false, lookMs: 500 }, 6000);
  expect(slow.looks).toEqual([0, 500, 3000, 5500]);
  for (const each of [stop, slow.stop]) each.abort();
  const ends = Promise.all([next, slow.next].map((one) => expect(one).rejects.toThrow()));
  for (const each of [runtime, slow.runtime]) await each.advance(1000);
  await ends;
});

/** Makes a storage of several processes whose watches report at once that they work. Counts the open watches. */
function countingStorage(runtime: SimulatedRuntime) {
  const inner = new MemoryAdapter({ runtime });
  const counts = { open: 0, watches: 0, lists: 0 };
  const storage = withMembers<StorageAdapter>(inner, {
    capabilities: { ...inner.capabilities, multiProcess: true },
    log: withMembers(inner.log, {
      watch(changed) {
        counts.open += 1;
        counts.watches += 1;
        runtime.setImmediate(changed);
        return () => {
          counts.open -= 1;
        };
      },
    }),
    list(query) {
      counts.lists += 1;
      return inner.list(query);
    },
  });
  return { inner, storage, counts };
}

it("followers, runs, waits, workers and callers of `result` end the watches that they began", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const { storage, counts } = countingStorage(runtime);
  const { manager } = managerOn(storage, { runtime });
  const stop = new AbortController();
  const working = manager.work({ prefix: "q/", signal: stop.signal }, (run) => run.waitFor("go"));
  const result = manager.result("q/1");
  const following = collect(manager.follow("q/1", { kinds: ["step"] }));
  await manager.enqueue("q/1", {});
  await runtime.advance(1000);
  await manager.send("q/1", "go", true);
  await runtime.advance(1000);
  await result;
  expect(await following).toMatchObject([{ name: "go" }]);
  const left = manager.follow("q/2", { signal: stop.signal }).next();
  const gone = expect(left).rejects.toThrow();
  await runtime.advance(1000);
  expect(counts.open).toBeGreaterThan(1);
  stop.abort();
  await runtime.advance(1000);
  await Promise.all([working, gone]);
  await manager.close();
  expect(counts.watches).toBeGreaterThan(4);
  expect(counts.open).toBe(0);
});

it("a follower polls as often as before once a thousand others have ended", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const { inner, storage } = countingStorage(runtime);
  const { manager } = managerOn(storage, { runtime });
  const other = managerOn(inner, { runtime }).manager;
  await other.save("t", 1);
  const ending = new AbortController();
  const ends = Array.from({ length: 1000 }, () =>
    expect(manager.follow("t", { afterSequence: 1, signal: ending.signal }).next()).rejects.toThrow(),
  );
  await runtime.advance(100);
  ending.abort();
  await runtime.advance(100);
  await Promise.all(ends);
  const following = manager.follow("t", { afterSequence: 1 });
  const next = following.next();
  await runtime.advance(100);
  await other.save("t", 2);
  await runtime.advance(4000);
  expect(await next).toMatchObject({ value: { sequence: 2 } });
  await following.return();
});

it("a run that ends soon reads nothing because its watch begins", async () => {
  const lists: number[] = [];
  for (const isWatched of [false, true]) {
    const runtime = new SimulatedRuntime({ startAt: new Date(0) });
    const { inner, storage, counts } = countingStorage(runtime);
    const log = isWatched ? storage.log : withMembers(inner.log, { watch: undefined });
    const { manager } = managerOn(withMembers(storage, { log }), { runtime });
    await manager.run("t", (run) => run.step("a", () => new Promise<void>((resolve) => runtime.setImmediate(resolve))));
    lists.push(counts.lists);
  }
  expect(lists[1]).toBe(lists[0]);
});
