import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { readdir, truncate } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type DiagnosticsMessages, gzip } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { tempFolder } from "../../support/temp-folder.js";
import { runOf } from "../runs/run-support.js";

const SECRET = "sesame";

type Traced = Exclude<keyof DiagnosticsMessages, "waymark:damaged" | "waymark:lease-lost">;

/** Returns the contexts of a channel's calls as they were when the calls ended. */
function callsOf<Name extends Traced>(
  name: Name,
  start: (context: DiagnosticsMessages[Name]) => void = () => undefined,
): DiagnosticsMessages[Name][] {
  const calls: DiagnosticsMessages[Name][] = [];
  const ignore = () => undefined;
  const asyncEnd = (context: DiagnosticsMessages[Name]) => {
    calls.push({ ...context });
  };
  const subscribers = { start, end: ignore, asyncStart: ignore, asyncEnd, error: ignore };
  const channel = tracingChannel<unknown, DiagnosticsMessages[Name]>(name);
  channel.subscribe(subscribers);
  onTestFinished(() => void channel.unsubscribe(subscribers));
  return calls;
}

function messagesOn(name: "waymark:damaged" | "waymark:lease-lost"): unknown[] {
  const messages: unknown[] = [];
  const listener = (message: unknown) => void messages.push(message);
  subscribe(name, listener);
  onTestFinished(() => void unsubscribe(name, listener));
  return messages;
}

function inMemory(options: { readonly keepLast?: number } = {}) {
  const retention = options.keepLast === undefined ? undefined : { keepLast: options.keepLast };
  return new CheckpointManager({ storage: new MemoryAdapter(), retention });
}

it("publishes a save with its checkpoint's fields, and without what the program has put into it", async () => {
  const saves = callsOf("waymark:save");
  const manager = inMemory();
  const { id, sizeBytes } = await manager.save("t", SECRET, {
    stage: "one",
    label: SECRET,
    metadata: { note: SECRET },
  });
  expect(saves).toEqual([{ taskId: "t", id, stage: "one", status: "running", sizeBytes, sequence: 1 }]);
});

it("also publishes auto-saves, forks and the saves of runs", async () => {
  const manager = inMemory();
  const { id } = await manager.save("original", 1);
  const saves = callsOf("waymark:save");
  await manager.fork("original", id, "fork");
  await manager.autoSave("auto", () => 2).stop();
  await manager.run("run", (run) => run.step("only", () => 3));
  expect(saves.map(({ taskId }) => taskId)).toEqual(["fork", "auto", "run", "run"]);
});

it("publishes latest with the fields of what it found, or with none", async () => {
  const manager = inMemory();
  const { id, sizeBytes } = await manager.save("t", 1);
  const calls = callsOf("waymark:latest");
  await manager.latest("t");
  await manager.latest("other");
  expect(calls).toEqual([{ taskId: "t", id, status: "running", sizeBytes, sequence: 1 }, { taskId: "other" }]);
});

it("publishes what a policy removes, after a save and on request", async () => {
  const prunes = callsOf("waymark:prune");
  const manager = inMemory({ keepLast: 2 });
  for (let n = 1; n <= 4; n++) await manager.save("t", n);
  await manager.retention.prune("t", { keepLast: 1 });
  expect(prunes).toEqual([
    { taskId: "t", by: "retention", removed: 1 },
    { taskId: "t", by: "retention", removed: 1 },
    { taskId: "t", by: "request", removed: 1 },
  ]);
});

it("publishes a claim that is granted with its token, and one that isn't with the error's code", async () => {
  const claims = callsOf("waymark:claim");
  const manager = inMemory();
  await using _held = await manager.lease("t", { holder: "a" });
  await expect(manager.lease("t", { holder: "b" })).rejects.toThrow();
  expect(claims).toEqual([
    { taskId: "t", holder: "a", token: 1 },
    { taskId: "t", holder: "b", error: { name: "LeaseHeldError", code: "LEASE_HELD" } },
  ]);
});

it("publishes a worker's claims with its prefix and the tasks", async () => {
  const manager = inMemory();
  for (const taskId of ["mail/1", "mail/2", "mail/3"]) await manager.enqueue(taskId);
  const claims = callsOf("waymark:claim");
  const draining = new AbortController();
  await manager.work({ prefix: "mail/", concurrency: 2, signal: draining.signal }, () => draining.abort());
  const [first] = claims;
  expect(first).toEqual({ prefix: "mail/", holder: first?.holder, taskIds: ["mail/1", "mail/2"] });
});

it("publishes an error's name and code, but not its message", async () => {
  const [runs, steps] = [callsOf("waymark:run"), callsOf("waymark:step")];
  const failed = inMemory().run("t", (run) =>
    run.step("read", () => {
      throw Object.assign(new RangeError(SECRET), { code: "ENOENT", detail: SECRET });
    }),
  );
  await expect(failed).rejects.toThrow(SECRET);
  const error = { name: "RangeError", code: "ENOENT" };
  expect(steps).toEqual([{ taskId: "t", attempt: 1, turn: 1, step: "read", error }]);
  expect(runs).toEqual([{ taskId: "t", attempt: 1, turn: 1, status: "failed", error }]);
});

it("publishes each step that runs, and none whose result is recorded", async () => {
  const steps = callsOf("waymark:step");
  const manager = inMemory();
  let isBroken = true;
  const run = () =>
    manager.run("t", async (run) => {
      await run.step("model", () => SECRET);
      await run.step("model", () => SECRET);
      if (isBroken) throw new Error("the program");
    });
  await expect(run()).rejects.toThrow();
  isBroken = false;
  await run();
  expect(steps).toEqual([
    { taskId: "t", attempt: 1, turn: 1, step: "model" },
    { taskId: "t", attempt: 1, turn: 1, step: "model 2" },
  ]);
});

it("distinguishes a paused run from a stopped one", async () => {
  const runs = callsOf("waymark:run");
  const storage = new MemoryAdapter();
  const manager = new CheckpointManager({ storage });
  const pausing = new AbortController();
  const paused = manager.run("paused", () => pausing.abort(), { signal: pausing.signal });
  await expect(paused).rejects.toThrow();
  const stopped = manager.run("stopped", async (run) => {
    await storage.leases.claim("stopped", "somebody else", 30_000, { force: true });
    await run.step("refused", () => 1);
  });
  await expect(stopped).rejects.toThrow();
  expect(runs.map(({ taskId, status, error }) => [taskId, status, error?.code])).toEqual([
    ["paused", "paused", "RUN_PAUSED"],
    ["stopped", "stopped", "LEASE_LOST"],
  ]);
});

it("keeps the traceparent from a subscriber for the attempt that continues", async () => {
  const given = ["00-11111111111111111111111111111111-1111111111111111-01", "the second"];
  const runs = callsOf("waymark:run", (run) => {
    const traceparent = given.shift();
    if (traceparent !== undefined) run.traceparent = traceparent;
  });
  const manager = inMemory();
  const fail = () => manager.run("t", () => Promise.reject(new Error("again")));
  await expect(fail()).rejects.toThrow();
  expect((await runOf(manager, "t"))?.traceparent).toBe("00-11111111111111111111111111111111-1111111111111111-01");
  await expect(fail()).rejects.toThrow();
  expect((await runOf(manager, "t"))?.traceparent).toBe("the second");
  await expect(fail()).rejects.toThrow();
  expect(await runOf(manager, "t")).not.toHaveProperty("traceparent");
  expect(runs.map(({ previousTraceparent }) => previousTraceparent)).toEqual([
    undefined,
    "00-11111111111111111111111111111111-1111111111111111-01",
    "the second",
  ]);
});

it("forgets the traceparent if there are no listeners any more", async () => {
  const manager = inMemory();
  const fail = () => manager.run("t", () => Promise.reject(new Error("again")));
  const channel = tracingChannel<unknown, DiagnosticsMessages["waymark:run"]>("waymark:run");
  const listener = (message: unknown) => void Object.assign(message as object, { traceparent: "the first" });
  channel.start.subscribe(listener);
  await expect(fail()).rejects.toThrow();
  channel.start.unsubscribe(listener);
  expect((await runOf(manager, "t"))?.traceparent).toBe("the first");
  await expect(fail()).rejects.toThrow();
  expect(await runOf(manager, "t")).not.toHaveProperty("traceparent");
});

it("runs the code of a step within the store that is bound to the channel, and within `around`", async () => {
  const [bound, around] = [new AsyncLocalStorage<string>(), new AsyncLocalStorage<string>()];
  const { start } = tracingChannel<string, DiagnosticsMessages["waymark:step"]>("waymark:step");
  start.bindStore(bound, ({ step }) => `bound to ${step}`);
  onTestFinished(() => void start.unbindStore(bound));
  callsOf("waymark:step", (call) => {
    call.around = (work) => around.run(`around ${call.step}`, work);
  });
  const seen = await inMemory().run("t", async (run) => {
    const inStep = await run.step("a", () => [bound.getStore(), around.getStore()]);
    return [...inStep, bound.getStore(), around.getStore()];
  });
  expect(seen).toEqual(["bound to a", "around a", undefined, undefined]);
});

it("publishes each save in the asynchronous context of its own caller, also if another save was made first", async () => {
  const caller = new AsyncLocalStorage<number>();
  const seen: unknown[] = [];
  callsOf("waymark:save", () => void seen.push(caller.getStore()));
  const manager = new CheckpointManager({ storage: new MemoryAdapter(), transforms: [gzip()] });
  const big = "x".repeat(5_000_000);
  await Promise.all([1, 2, 3].map((n) => caller.run(n, () => manager.save("t", n === 1 ? big : n))));
  expect(seen).toEqual([1, 2, 3]);
});

it("reports that a lease is lost, but not that it was released", async () => {
  const lost = messagesOn("waymark:lease-lost");
  const storage = new MemoryAdapter();
  const manager = new CheckpointManager({ storage });
  await (await manager.lease("released")).release();
  const lease = await manager.lease("lost", { holder: "a" });
  await storage.leases.claim("lost", "b", 30_000, { force: true });
  await expect(manager.save("lost", 1, { lease })).rejects.toThrow();
  await lease.release();
  expect(lost).toEqual([{ taskId: "lost", holder: "a", token: 1 }]);
});

it("reports which record is damaged, without its content", async () => {
  const damaged = messagesOn("waymark:damaged");
  const path = await tempFolder();
  const manager = new CheckpointManager({ storage: new JsonFileAdapter({ path }) });
  await manager.save("t", SECRET);
  const { id } = await manager.save("t", SECRET);
  const newest = (await readdir(join(path, "t"))).filter((name) => name.endsWith(`${id}.json`));
  await truncate(join(path, "t", newest[0]!), 300);
  await manager.latest("t");
  expect(damaged).toEqual([{ taskId: "t", id, sequence: 2 }]);
});
