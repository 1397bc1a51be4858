import { AsyncLocalStorage } from "node:async_hooks";
import { readFile } from "node:fs/promises";
import { expect, it, onTestFinished } from "vitest";
import { gzip, type Run, type StorageAdapter } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { withMembers } from "../../support/with-members.js";
import { managerOn, STORAGES } from "../runs/run-support.js";

const HOUR_MS = 60 * 60 * 1000;

it("time stands still until it is advanced", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date("2030-05-01T12:00:00Z") });
  const { manager } = managerOn(new MemoryAdapter({ runtime }), { runtime });
  expect((await manager.save("t", 1)).createdAt).toBe("2030-05-01T12:00:00.000Z");
  expect((await manager.save("t", 2)).createdAt).toBe("2030-05-01T12:00:00.000Z");
  await runtime.advance(1500);
  expect((await manager.save("t", 3)).createdAt).toBe("2030-05-01T12:00:01.500Z");
});

it("timers are called in the order of their times, and those of one time in the order in which they were set", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const calls: string[] = [];
  const note = (name: string) => () => void calls.push(`${name} ${runtime.now()}`);
  runtime.setTimeout(note("c"), 20);
  runtime.setTimeout(note("a"), 10);
  runtime.setTimeout(note("b"), 10);
  runtime.setTimeout(note("soon"), 0);
  const cancel = runtime.setTimeout(note("cancelled"), 15);
  runtime.setTimeout(() => {
    cancel();
    runtime.setTimeout(note("set by another"), 4.9);
  }, 12);
  await runtime.advance(19);
  expect(calls).toEqual(["soon 1", "a 10", "b 10", "set by another 16"]);
  expect(runtime.now()).toBe(19);
  await runtime.advance(1);
  expect(calls.at(-1)).toBe("c 20");
  cancel();
});

it("what follows from a timer happens before the next one", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const calls: string[] = [];
  const turns = async (left: number): Promise<void> => {
    if (left === 0) return void calls.push(`settled ${runtime.now()}`);
    await new Promise<void>((resolve) => runtime.setImmediate(resolve));
    return turns(left - 1);
  };
  runtime.setTimeout(() => void turns(10), 10);
  runtime.setTimeout(() => calls.push(`timer ${runtime.now()}`), 10);
  await runtime.advance(10);
  expect(calls).toEqual(["settled 10", "timer 10"]);
});

it("a timer is called in the asynchronous context in which it was set", async () => {
  const runtime = new SimulatedRuntime();
  const context = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  context.run("mine", () => runtime.setTimeout(() => seen.push(context.getStore()), 1));
  await runtime.advance(1);
  expect(seen).toEqual(["mine"]);
});

it("settle runs what is due until nothing is left, and no time passes", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const { manager } = managerOn(new MemoryAdapter({ runtime }), { runtime });
  for (let n = 0; n < 20; n += 1) await manager.enqueue(`q/${n}`);
  await manager.enqueue("q/later", undefined, { dueAt: new Date(1) });
  const stop = new AbortController();
  const worked = manager.work({ prefix: "q/", signal: stop.signal, pauseOnSignal: false }, (run) =>
    run.step("a", () => run.step.length),
  );
  await runtime.settle();
  expect((await manager.tasks({ status: ["completed"] })).length).toBe(20);
  expect(runtime.now()).toBe(0);
  stop.abort();
  await worked;
});

it("the calls of `outside` end before time passes", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const { manager } = managerOn(new MemoryAdapter({ runtime }), { runtime });
  const read = runtime.outside(readFile);
  const files = runtime.outside({
    async *read() {
      for (let n = 0; n < 20; n += 1) yield await readFile(import.meta.filename);
    },
  });
  const ended = manager.run("t", async (run) => {
    await run.step("read", async () => {
      for (let n = 0; n < 20; n += 1) await read(import.meta.filename);
    });
    await run.step("read on", async () => {
      for await (const _file of files.read());
    });
    return runtime.now();
  });
  await runtime.advance(HOUR_MS);
  expect(await ended).toBe(0);
});

it("`outside` keeps an object as it is: members, private fields, iterators, errors", async () => {
  class Client {
    static readonly #word = "done";
    readonly fixed = Object.freeze({ inner: { n: 1 } });
    readonly nested = { call: async () => this.#secret() };
    async fail(): Promise<never> {
      throw new TypeError("no");
    }
    async *items() {
      yield* [1, 2];
      return Client.#word;
    }
    sync() {
      return this.#secret();
    }
    #secret() {
      return "secret";
    }
  }
  const client = new SimulatedRuntime().outside(new Client());
  expect(client).toBeInstanceOf(Client);
  expect(client.fixed).toEqual({ inner: { n: 1 } });
  expect(await client.nested.call()).toBe("secret");
  expect(client.sync()).toBe("secret");
  expect(client.sync.bind(client)()).toBe("secret");
  await expect(client.fail()).rejects.toThrow(TypeError);
  const items: number[] = [];
  for await (const item of client.items()) items.push(item);
  expect(items).toEqual([1, 2]);
});

it("transforms end before time passes", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const { manager } = managerOn(new MemoryAdapter({ runtime }), { runtime, transforms: [gzip()] });
  const ended = manager.run("t", async (run) => {
    for (let n = 0; n < 5; n += 1) await run.step("a", () => "x".repeat(100_000));
    return runtime.now();
  });
  await runtime.advance(HOUR_MS);
  expect(await ended).toBe(0);
});

it.each(Object.entries(STORAGES))("a run and a worker get by without real time (%s)", async (_, open) => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const storage = await open();
  onTestFinished(() => storage.close());
  const { manager } = managerOn(storage, { runtime });
  await manager.enqueue("q/t");
  const stop = new AbortController();
  const ended: [string, number][] = [];
  const fn = async (run: Run<unknown, unknown, unknown>) => {
    const flaky = ({ attempt }: { readonly attempt: number }) => {
      if (attempt < 3) throw new Error("no answer");
    };
    await run.step("flaky", flaky, { retry: { times: 2, backoffMs: 1000 } });
    await run.sleepUntil("a minute", new Date(60_000));
    ended.push([run.taskId, Math.trunc(runtime.now() / 1000)]);
  };
  const worked = manager.work({ prefix: "q/", signal: stop.signal, pauseOnSignal: false }, fn);
  const ran = manager.run("t", fn);
  await runtime.advance(61_000);
  await ran;
  expect(ended.toSorted()).toEqual([
    ["q/t", 60],
    ["t", 60],
  ]);
  stop.abort();
  await worked;
  for (const taskId of ["t", "q/t"]) expect((await manager.latest(taskId))?.status).toBe("completed");
});

it("ids are UUIDs, and differ between runtimes that start at different times", () => {
  const [a, b] = [new SimulatedRuntime(), new SimulatedRuntime({ startAt: new Date(1) })];
  const ids = [a.randomUUID(), a.randomUUID(), b.randomUUID()];
  expect(new Set(ids).size).toBe(3);
  for (const id of ids) expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-8[\da-f]{3}-[\da-f]{12}$/);
  expect(new SimulatedRuntime().randomUUID()).toBe(ids[0]);
});

it("refuses a time that isn't one, and a second advance at the same time", async () => {
  expect(() => new SimulatedRuntime({ starAt: new Date() } as never)).toThrow('has no "starAt"');
  for (const startAt of [new Date(Number.NaN), "2026-01-01", 0, null]) {
    expect(() => new SimulatedRuntime({ startAt: startAt as Date })).toThrow(
      /^SimulatedRuntimeOptions\.startAt must be a valid Date/,
    );
  }
  const runtime = new SimulatedRuntime();
  await expect(runtime.advance(-1)).rejects.toThrow(RangeError);
  await expect(runtime.advance(Number.POSITIVE_INFINITY)).rejects.toThrow(RangeError);
  const first = runtime.advance(1);
  await expect(runtime.advance(1)).rejects.toThrow("under way");
  await first;
  await runtime.advance(1);
});

it("a manager refuses a runtime that lacks a member", () => {
  expect(() => managerOn(new MemoryAdapter(), { runtime: { now: () => 0 } as never })).toThrow(
    new TypeError("options.runtime must have the method elapsedMs."),
  );
});

it("a storage whose calls take long stops the time", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const inner = new MemoryAdapter({ runtime });
  const append: StorageAdapter["append"] = async (...args) => {
    // Meanwhile, a file is read in real turns of the event loop.
    await readFile(import.meta.filename);
    return inner.append(...args);
  };
  const { manager } = managerOn(withMembers(inner, { append }), { runtime });
  const saved = manager.save("t", 1);
  await runtime.advance(HOUR_MS);
  expect(await manager.has("t")).toBe(true);
  expect((await saved).sequence).toBe(1);
});
