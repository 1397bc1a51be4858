import { constants } from "node:buffer";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { JsonObject } from "waymark";
import { CheckpointManager, type CheckpointManagerOptions, type StorageAdapter, type Transform } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";

function managerInMemory(options: Partial<CheckpointManagerOptions> = {}) {
  return new CheckpointManager({ storage: new MemoryAdapter(), ...options });
}

describe("save", () => {
  it("answers with the summary of what it stored", async () => {
    const manager = managerInMemory({ clock: () => Date.UTC(2026, 10, 21, 12), createId: () => "first" });
    const summary = await manager.save(
      "build-42",
      { n: 1 },
      { stage: "tests", label: "After the tests", parentId: "before", metadata: { host: "a" } },
    );
    expect(summary).toEqual({
      taskId: "build-42",
      id: "first",
      sequence: 1,
      createdAt: "2026-11-21T12:00:00.000Z",
      stage: "tests",
      label: "After the tests",
      parentId: "before",
      metadata: { host: "a" },
      status: "running",
      stateVersion: 1,
      sizeBytes: 7,
    });
    expect(await manager.list("build-42")).toEqual([summary]);
  });

  it("lets timers run in a loop of saves, however fast the storage is: leases must renew themselves", async () => {
    const manager = managerInMemory();
    let isOver = false;
    setImmediate(() => {
      isOver = true;
    });
    for (let n = 0; n < 100_000 && !isOver; n++) await manager.save("t", { n });
    expect(isOver).toBe(true);
  });

  it("reads the state before it returns, so the caller may change it afterwards", async () => {
    const manager = managerInMemory();
    const state = { messages: ["one"] };
    const metadata = { tags: ["a"] };
    const saved = manager.save("t", state, { metadata });
    state.messages.push("two");
    metadata.tags.push("b");
    await saved;
    expect((await manager.latest("t"))?.state).toEqual({ messages: ["one"] });
    expect((await manager.latest("t"))?.metadata).toEqual({ tags: ["a"] });
  });

  it("does the same for states of 1 MiB and more, whose digest doesn't block the event loop", async () => {
    const manager = managerInMemory();
    const state = { messages: ["x".repeat(2 ** 20)] };
    const saved = [manager.save("t", state), manager.save("t", "small")];
    state.messages.push("two");
    expect((await Promise.all(saved)).map(({ sequence }) => sequence)).toEqual([1, 2]);
    const [first] = await manager.list("t", { order: "oldest" });
    expect((await manager.restore("t", first?.id ?? "")).state).toEqual({ messages: ["x".repeat(2 ** 20)] });
  });

  it("stores the saves of one task in call order, even if a transform is slower for the first", async () => {
    const first = deferred();
    let calls = 0;
    const slowFirst: Transform = {
      name: "slow-first",
      encode: async (body) => {
        calls += 1;
        if (calls === 1) await first.promise;
        else first.resolve();
        return body;
      },
      decode: (body) => body,
    };
    const manager = managerInMemory({ transforms: [slowFirst] });
    const saved = await Promise.all([manager.save("t", 1), manager.save("t", 2), manager.save("t", 3)]);
    expect(saved.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
    expect((await manager.latest("t"))?.state).toBe(3);
  });

  it("stores a save after those that still wait for their transforms, even if an earlier one has ended", async () => {
    const second = deferred();
    const slowSecond: Transform = {
      name: "slow-second",
      encode: async (body) => {
        if (Buffer.from(body).toString() === "2") await second.promise;
        return body;
      },
      decode: (body) => body,
    };
    const manager = managerInMemory({ transforms: [slowSecond] });
    const first = manager.save("t", 1);
    const slow = manager.save("t", 2);
    await first;
    const third = manager.save("t", 3);
    // This is enough time for the third save to overtake the second.
    await manager.save("u", 1);
    second.resolve();
    expect([(await slow).sequence, (await third).sequence]).toEqual([2, 3]);
  });

  it("stores the next save of a task after a transform failed for the previous save", async () => {
    let calls = 0;
    const failsFirst: Transform = {
      name: "fails-first",
      encode: async (body) => {
        calls += 1;
        if (calls === 1) throw new Error("no key");
        return body;
      },
      decode: (body) => body,
    };
    const manager = managerInMemory({ transforms: [failsFirst] });
    const [failed, saved] = await Promise.allSettled([manager.save("t", 1), manager.save("t", 2)]);
    expect(failed).toMatchObject({ status: "rejected", reason: { message: expect.stringContaining("no key") } });
    expect(saved).toMatchObject({ status: "fulfilled", value: { sequence: 1 } });
  });

  it("has the status failed by default if an error is given, and keeps the error as data", async () => {
    const manager = managerInMemory();
    const error = Object.assign(new TypeError("no such tool"), { code: "ENOTOOL" });
    const summary = await manager.save("t", {}, { error });
    expect(summary.status).toBe("failed");
    expect(summary.error).toMatchObject({ name: "TypeError", message: "no such tool", code: "ENOTOOL" });
    expect((await manager.save("t", {}, { error: "plain text", status: "paused" })).error).toEqual({
      message: "plain text",
    });
  });

  it("refuses a save that expected another newest checkpoint, and stores nothing", async () => {
    const manager = managerInMemory();
    await manager.save("t", 1, { expectedSequence: 0 });
    await expect(manager.save("t", 2, { expectedSequence: 0 })).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect(await manager.list("t")).toHaveLength(1);
  });

  it.each<[object, string]>([
    [{ host: "a", when: new Date(0) }, "metadata.when"],
    [{ gates: [{ check() {} }] }, "metadata.gates[0].check"],
    [{ "two words": [undefined] }, 'metadata["two words"][0]'],
  ])("says where metadata isn't plain JSON: %o", async (metadata, path) => {
    const saving = managerInMemory().save("t", 1, { metadata: metadata as JsonObject });
    await expect(saving).rejects.toThrow(TypeError);
    await expect(saving).rejects.toThrow(`; ${path} isn't. Nothing was saved.`);
  });

  it("leaves out fields of metadata that are undefined", async () => {
    const saved = await managerInMemory().save("t", 1, {
      metadata: { host: "a", port: undefined, at: { x: undefined } },
    });
    expect(saved.metadata).toEqual({ host: "a", at: {} });
    expect(saved.metadata).not.toHaveProperty("port");
  });

  it("reports that a state above the longest text must be split, whatever maxPayloadBytes is", async () => {
    const manager = managerInMemory({ maxPayloadBytes: 2 ** 31 });
    // Short in memory: nothing reads the characters before they are counted.
    const half = "x".repeat(constants.MAX_STRING_LENGTH - 100);
    const saving = manager.save("t", { a: half, b: half });
    await expect(saving).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    await expect(saving).rejects.toThrow(/V8's limit.*\$\.b.*no option raises this limit\. Split the state/);
  });

  it("refuses a state larger than maxPayloadBytes, and stores nothing", async () => {
    const manager = managerInMemory({ maxPayloadBytes: 10 });
    await expect(manager.save("t", "12345678901")).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    expect(await manager.has("t")).toBe(false);
  });

  it.each([
    ["", RangeError, "empty"],
    ["x".repeat(513), RangeError, "512"],
    ["\ud800", RangeError, "surrogate"],
    [7, TypeError, "string"],
  ])("refuses the taskId %j, and says why", async (taskId, kind, why) => {
    const saving = managerInMemory().save(taskId as string, {});
    await expect(saving).rejects.toThrow(kind);
    await expect(saving).rejects.toThrow(why);
  });

  it.each<[object, string]>([
    [{ stag: "x" }, '"stag"'],
    [{ status: "done" }, "done"],
    [{ stage: "" }, "stage"],
    [{ expectedSequence: -1 }, "expectedSequence"],
    [{ metadata: { when: new Date(0) } }, "metadata"],
    [{ metadata: ["list"] }, "metadata"],
    [{ metadata: { big: "x".repeat(70_000) } }, "metadata"],
  ])("refuses the options %j, and names the culprit", async (options, culprit) => {
    const manager = managerInMemory();
    await expect(manager.save("t", {}, options)).rejects.toThrow(culprit);
    expect(await manager.has("t")).toBe(false);
  });

  it("refuses an empty id from createId", async () => {
    await expect(managerInMemory({ createId: () => "" }).save("t", {})).rejects.toThrow("createId");
  });
});

describe("reading", () => {
  it("returns undefined if there is no checkpoint", async () => {
    const manager = managerInMemory();
    expect(await manager.latest("t")).toBeUndefined();
    expect(await manager.list("t")).toEqual([]);
    expect(await manager.tasks()).toEqual([]);
    expect(await manager.has("t")).toBe(false);
  });

  it("finds the latest of a stage, or of a status", async () => {
    const manager = managerInMemory();
    await manager.save("t", 1, { stage: "plan" });
    await manager.save("t", 2, { stage: "build", status: "paused" });
    await manager.save("t", 3, { stage: "build", status: "failed" });
    expect((await manager.latest("t", { stage: "plan" }))?.state).toBe(1);
    expect((await manager.latest("t", { status: ["paused", "completed"] }))?.state).toBe(2);
    expect(await manager.latest("t", { stage: "deploy" })).toBeUndefined();
  });

  it("restores a checkpoint twice as two independent values", async () => {
    const manager = managerInMemory();
    const { id } = await manager.save("t", { list: [1] });
    const one = await manager.restore("t", id);
    const two = await manager.restore("t", id);
    expect(one).toEqual(two);
    expect(one.state).not.toBe(two.state);
  });

  it("reports which checkpoint is missing", async () => {
    const manager = managerInMemory();
    await manager.save("t", 1);
    const restoring = manager.restore("t", "other");
    await expect(restoring).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND", taskId: "t", id: "other" });
  });

  it("lists by any part of the query, newest first", async () => {
    const manager = managerInMemory();
    for (const n of [1, 2, 3, 4, 5]) await manager.save("t", n, { stage: n % 2 === 0 ? "even" : "odd" });
    const sequences = async (query: Parameters<typeof manager.list>[1]) =>
      (await manager.list("t", query)).map(({ sequence }) => sequence);
    expect(await sequences({})).toEqual([5, 4, 3, 2, 1]);
    expect(await sequences({ limit: 2 })).toEqual([5, 4]);
    expect(await sequences({ limit: 0 })).toEqual([]);
    expect(await sequences({ beforeSequence: 4, afterSequence: 1 })).toEqual([3, 2]);
    expect(await sequences({ stage: "odd", order: "oldest" })).toEqual([1, 3, 5]);
    expect(await sequences({ status: "completed" })).toEqual([]);
  });

  it("returns the whole history, oldest first if requested", async () => {
    const manager = managerInMemory();
    for (const n of [1, 2, 3]) await manager.save("t", { n });
    const states = async (query: Parameters<typeof manager.history>[1]) => {
      const found: unknown[] = [];
      for await (const { state } of manager.history("t", query)) found.push(state);
      return found;
    };
    expect(await states({ order: "oldest" })).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(await states({ limit: 2 })).toEqual([{ n: 3 }, { n: 2 }]);
    expect(await states({ limit: 0 })).toEqual([]);
  });

  it.each(["newest", "oldest"] as const)(
    "reads no more checkpoints than the history's limit, %s first",
    async (order) => {
      const storage = new MemoryAdapter();
      let records = 0;
      const read = storage.read.bind(storage);
      storage.read = async function* (query) {
        for await (const record of read(query)) {
          records += 1;
          yield record;
        }
      };
      const manager = new CheckpointManager({ storage });
      for (const n of [1, 2, 3]) await manager.save("t", n);
      const found: unknown[] = [];
      for await (const { state } of manager.history("t", { order, limit: 2 })) found.push(state);
      expect(found).toEqual(order === "newest" ? [3, 2] : [1, 2]);
      expect(records).toBe(2);
    },
  );

  it("returns as many intact checkpoints as the limit, though some of the first are damaged", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage });
    for (const n of [1, 2, 3, 4, 5]) await manager.save("t", n);
    const read = storage.read.bind(storage);
    storage.read = async function* (query) {
      for await (const record of read(query))
        yield record.sequence % 2 === 0 ? { ...record, seal: "0".repeat(64) } : record;
    };
    const found: unknown[] = [];
    for await (const { state } of manager.history("t", { limit: 3 })) found.push(state);
    expect(found).toEqual([5, 3, 1]);
  });

  it("shows the incomplete tasks, most recent first", async () => {
    let nowMs = 0;
    const manager = managerInMemory({ clock: () => nowMs });
    for (const taskId of ["a/old", "a/new", "b/other"]) {
      nowMs += 1000;
      await manager.save(taskId, {});
    }
    await manager.save("a/done", {});
    await manager.complete("a/done");
    expect((await manager.findIncomplete()).map(({ taskId }) => taskId)).toEqual(["b/other", "a/new", "a/old"]);
    expect((await manager.findIncomplete({ prefix: "a/", limit: 1 })).map(({ taskId }) => taskId)).toEqual(["a/new"]);
    expect((await manager.tasks({ after: "a/done" })).map(({ taskId }) => taskId)).toEqual([
      "a/new",
      "a/old",
      "b/other",
    ]);
  });

  it.each<[string, (manager: CheckpointManager) => Promise<unknown>]>([
    ["lates", (manager) => manager.latest("t", { lates: 1 } as object)],
    ["limt", (manager) => manager.list("t", { limt: 1 } as object)],
    ["order", (manager) => manager.list("t", { order: "up" } as object)],
    ["limit", (manager) => manager.list("t", { limit: 1.5 })],
    ["prefx", (manager) => manager.tasks({ prefx: "" } as object)],
    ["after", (manager) => manager.tasks({ order: "recent", after: "t" })],
    ["status", (manager) => manager.findIncomplete({ status: "failed" } as object)],
  ])("refuses a query with a wrong %s", async (culprit, call) => {
    await expect(call(managerInMemory())).rejects.toThrow(culprit);
  });
});

describe("status", () => {
  it("completes a task, and a new save reopens it", async () => {
    const manager = managerInMemory();
    await manager.save("t", 1);
    await manager.complete("t");
    expect(await manager.findIncomplete()).toEqual([]);
    await manager.save("t", 2);
    expect(await manager.findIncomplete()).toHaveLength(1);
  });

  it("never lets a checkpoint leave completed", async () => {
    const manager = managerInMemory();
    const { id } = await manager.save("t", 1, { status: "completed" });
    await expect(manager.fail("t", new Error("late"))).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    await expect(manager.setStatus("t", id, "running")).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    await manager.complete("t");
  });

  it("keeps the error of a failure, and drops it when the status changes", async () => {
    const manager = managerInMemory();
    const { id } = await manager.save("t", 1);
    await manager.fail("t", new RangeError("too far"));
    expect((await manager.latest("t"))?.error).toMatchObject({ name: "RangeError", message: "too far" });
    await manager.setStatus("t", id, "running");
    expect(await manager.latest("t")).not.toHaveProperty("error");
  });

  it("doesn't complete a checkpoint that is newer than the caller saw", async () => {
    const manager = managerInMemory();
    const { sequence } = await manager.save("t", 1);
    await manager.save("t", 2);
    await expect(manager.complete("t", { expectedSequence: sequence })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
    });
    expect((await manager.latest("t"))?.status).toBe("running");
  });

  it("throws if there is nothing to change", async () => {
    const manager = managerInMemory();
    await expect(manager.complete("t")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await expect(manager.setStatus("t", "x", "failed")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await expect(manager.setStatus("t", "x", "done" as "failed")).rejects.toThrow(TypeError);
  });
});

describe("removing", () => {
  it("removes one checkpoint and never uses its sequence again", async () => {
    const manager = managerInMemory();
    await manager.save("t", 1);
    const { id } = await manager.save("t", 2);
    expect(await manager.remove("t", id)).toBe(true);
    expect(await manager.remove("t", id)).toBe(false);
    expect((await manager.save("t", 3)).sequence).toBe(3);
  });

  it("removes a task, and its numbering starts over", async () => {
    const manager = managerInMemory();
    await manager.save("t", 1);
    await manager.save("t", 2);
    expect(await manager.removeTask("t")).toBe(2);
    expect(await manager.has("t")).toBe(false);
    expect((await manager.save("t", 3)).sequence).toBe(1);
  });
});

describe("events", () => {
  it("report saves and removals with their origin, until unsubscribed", async () => {
    const manager = managerInMemory({ retention: { keepLast: 1 } });
    const told: unknown[] = [];
    const unsubscribe = manager.on("saved", ({ sequence }) => told.push(["saved", sequence]));
    manager.on("removed", ({ ids, by }) => told.push(["removed", ids.length, by]));
    await manager.save("t", 1);
    await manager.save("t", 2);
    unsubscribe();
    await manager.save("t", 3);
    await manager.removeTask("t");
    expect(told).toEqual([
      ["saved", 1],
      ["saved", 2],
      ["removed", 1, "retention"],
      ["removed", 1, "retention"],
      ["removed", 3, "request"],
    ]);
  });

  it("of a listener that throws are logged, and the save succeeds", async () => {
    const logger = recordingLogger();
    const manager = managerInMemory({ logger });
    const after = vi.fn();
    manager.on("saved", () => {
      throw new Error("broken listener");
    });
    manager.on("saved", after);
    await manager.save("t", 1);
    expect(after).toHaveBeenCalledOnce();
    expect(logger.lines).toContainEqual(
      expect.objectContaining({ level: "error", message: expect.stringContaining("saved") }),
    );
  });

  it("refuses an event that doesn't exist", () => {
    expect(() => managerInMemory().on("save" as "saved", () => {})).toThrow(/"save".*autoSaveFailed/);
    expect(() => managerInMemory().on("saved", undefined as never)).toThrow(TypeError);
  });
});

describe("the manager's options", () => {
  it.each<[object, string]>([
    [{ storge: 1 }, "storge"],
    [{ storage: {} }, "storage"],
    [{ storage: Promise.resolve(new MemoryAdapter()) }, "It is a promise: await it first"],
    [{ storage: new MemoryAdapter(), schema: {} }, "schema"],
    [{ storage: new MemoryAdapter(), stateVersion: 0 }, "stateVersion"],
    [{ storage: new MemoryAdapter(), maxPayloadBytes: 0 }, "maxPayloadBytes"],
    [{ storage: new MemoryAdapter(), retention: {} }, "etention"],
    [{ storage: new MemoryAdapter(), transforms: [{ name: "a+b" }] }, "a+b"],
  ])("are refused by name if they are wrong: %j", (options, culprit) => {
    expect(() => new CheckpointManager(options as CheckpointManagerOptions)).toThrow(culprit);
  });
});

describe("close", () => {
  it("is idempotent, closes its storage, and refuses what comes later", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage });
    await Promise.all([manager.close(), manager.close()]);
    await manager.close();
    await expect(storage.get("t", "x")).rejects.toMatchObject({ code: "CLOSED" });
    await expect(manager.save("t", 1)).rejects.toMatchObject({ code: "CLOSED" });
    await expect(manager.latest("t")).rejects.toMatchObject({ code: "CLOSED" });
    await expect(manager.history("t").next()).rejects.toMatchObject({ code: "CLOSED" });
    expect(() => manager.autoSave("t", () => 1)).toThrow("closed");
  });

  it("leaves a storage open that it doesn't own", async () => {
    const storage = new MemoryAdapter();
    {
      await using manager = new CheckpointManager({ storage, ownsStorage: false });
      await manager.save("t", 1);
    }
    expect(await storage.remove("t", "all")).toBe(1);
  });

  it("waits for the saves in progress", async () => {
    const order: string[] = [];
    const memory = new MemoryAdapter();
    const reached = deferred();
    const release = deferred();
    const storage: StorageAdapter = Object.assign(Object.create(memory) as StorageAdapter, {
      append: async (...args: Parameters<StorageAdapter["append"]>) => {
        reached.resolve();
        await release.promise;
        const sequence = await memory.append(...args);
        order.push("saved");
        return sequence;
      },
      list: memory.list.bind(memory),
      close: async () => {
        order.push("closed");
        await memory.close();
      },
    });
    const manager = new CheckpointManager({ storage });
    const saved = manager.save("t", 1);
    await reached.promise;
    const closed = manager.close();
    release.resolve();
    await Promise.all([saved, closed]);
    expect(order).toEqual(["saved", "closed"]);
  });
});

describe("a value from outside", () => {
  it.each<[string, unknown, string]>([
    [
      "whose message is an object",
      Object.assign(new Error("x"), { message: { code: 500 } }),
      "whose message isn't text",
    ],
    ["whose name is a symbol", Object.assign(new Error("kept"), { name: Symbol("s") }), "kept"],
    ["whose stack is a number", Object.assign(new Error("kept"), { stack: 7 }), "kept"],
    [
      "that throws when it is read",
      new Proxy(new Error("x"), {
        get: () => {
          throw new Error("no");
        },
      }),
      "",
    ],
    [
      "that is a cycle",
      (() => {
        const cycle: { self?: unknown } = {};
        cycle.self = cycle;
        return cycle;
      })(),
      "object",
    ],
    ["that is a lone surrogate", "\ud800", "\ufffd"],
  ])("is kept as text if it is an error %s", async (_name, error, message) => {
    const manager = managerInMemory();
    await manager.save("t", 1);
    await manager.fail("t", error);
    const failure = (await manager.latest("t"))?.error;
    expect(failure?.message).toContain(message);
    for (const part of Object.values(failure ?? {})) expect(part).toBeTypeOf("string");
  });

  it("fails no save if the logger throws or a listener rejects", async () => {
    const warned = deferred();
    const onWarning = ({ message }: Error) => {
      if (message.includes("broken logger")) warned.resolve();
    };
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    const broken = () => {
      throw new Error("broken logger");
    };
    const manager = managerInMemory({ logger: { debug: broken, info: broken, warn: broken, error: broken } });
    // Imitates an async listener, whose type doesn't show that it returns a promise.
    manager.on("saved", () => Promise.reject(new Error("late")) as unknown as undefined);
    expect((await manager.save("t", 1)).sequence).toBe(1);
    await warned.promise;
  });

  it("is refused if createId repeats an id, even with the same state", async () => {
    let nowMs = Date.UTC(2026, 10, 21, 12);
    const manager = managerInMemory({ createId: ({ stage }) => stage ?? "none", clock: () => nowMs++ });
    await manager.save("t", 1, { stage: "plan", label: "first" });
    await expect(manager.save("t", 1, { stage: "plan", label: "first" })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
      message: expect.stringContaining("createId returned"),
    });
    await expect(manager.save("t", 1, { stage: "plan", label: "again" })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
    });
    await expect(manager.save("t", 2, { stage: "plan" })).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect((await manager.latest("t"))?.label).toBe("first");
    expect((await manager.save("t", 1, { stage: "build" })).sequence).toBe(2);
  });

  it("is skipped if an adapter returns a record whose seal doesn't match", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage, logger: recordingLogger() });
    await manager.save("t", 1);
    await manager.save("t", 2);
    const read = storage.read.bind(storage);
    storage.read = async function* (query) {
      for await (const record of read(query)) yield record.sequence === 2 ? { ...record, label: "forged" } : record;
    };
    expect((await manager.latest("t"))?.state).toBe(1);
  });

  it("reports the reason why a payload can't be read once in the event and once in the error", async () => {
    const storage = new MemoryAdapter();
    const manager = managerInMemory({ storage, logger: recordingLogger() });
    const { id } = await manager.save("t", 1);
    const get = storage.get.bind(storage);
    storage.get = async (...asked) => {
      const record = await get(...asked);
      return record && "payload" in record ? { ...record, payload: { ...record.payload, body: "2" } } : record;
    };
    const reasons: string[] = [];
    manager.on("corrupt", ({ reason }) => void reasons.push(reason));
    await expect(manager.restore("t", id)).rejects.toThrow(
      `Checkpoint ${id} of task "t" can't be read: its payload fails its SHA-256 checksum (checkpoint ${id} (sequence 1) of task "t"). It was`,
    );
    expect(reasons).toEqual(["its payload fails its SHA-256 checksum"]);
  });

  it("is refused if another writer saves while a task is being completed", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage });
    await manager.save("t", 1);
    const setStatus = storage.setStatus.bind(storage);
    storage.setStatus = async (...args) => {
      await new CheckpointManager({ storage, ownsStorage: false }).save("t", 2);
      return setStatus(...args);
    };
    await expect(manager.complete("t")).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect(await manager.list("t")).toMatchObject([{ status: "running" }, { status: "running" }]);
  });

  it.each<[object, string]>([
    [{ logger: {} }, "logger"],
    [{ clock: 5 }, "clock"],
    [{ createId: "x" }, "createId"],
    [{ migrations: [] }, "migrations"],
    [{ migrations: { one: () => 1 } }, "one"],
    [{ migrations: { 1: "x" } }, "migrations[1]"],
    [{ ownsStorage: "no" }, "ownsStorage"],
    [{ transforms: "gz" }, "transforms"],
    [{ transforms: [{ name: "x" }] }, "encode and decode"],
  ])("is refused at once if an option is %j", (options, culprit) => {
    expect(() => managerInMemory(options)).toThrow(TypeError);
    expect(() => managerInMemory(options)).toThrow(culprit);
  });

  it("is refused by name if it isn't a plan, a status, an option or a time", async () => {
    const manager = managerInMemory();
    for (const plan of [null, {}, [], { taskId: "t", keep: [1], remove: [] }]) {
      await expect(manager.retention.apply(plan as never)).rejects.toThrow(
        /plan made by retention.plan or planRetention/,
      );
    }
    await expect(manager.list("t", { status: 5 as never })).rejects.toThrow(/status/);
    const { id } = await manager.save("t", 1);
    await expect(manager.setStatus("t", id, "paused", { eror: "x" } as object)).rejects.toThrow(/no "eror"/);
    expect((await manager.list("t"))[0]?.status).toBe("running");
    await expect(managerInMemory({ clock: () => Number.NaN }).save("t", 1)).rejects.toThrow(/clock/);
    await expect(managerInMemory({ clock: () => 8.64e15 }).save("t", 1)).rejects.toThrow(/10000/);
  });
});
