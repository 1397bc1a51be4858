import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import {
  type AutoSaveOptions,
  CheckpointManager,
  type CheckpointManagerOptions,
  encrypt,
  gzip,
  type StorageAdapter,
} from "waymark";
import { isTransient } from "waymark/adapter";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { z } from "zod";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

/** A schema that stores dates as texts. */
const withDate = z.object({
  at: z.codec(z.iso.datetime(), z.date(), { decode: (text) => new Date(text), encode: (date) => date.toISOString() }),
  password: z.string(),
});

/** A memory adapter whose appends wait until the test releases them. */
function memoryWithGate() {
  const memory = new MemoryAdapter();
  const gate = {
    hold: undefined as Promise<void> | undefined,
    appends: 0,
    atOnce: 0,
    mostAtOnce: 0,
    failWith: undefined as Error | undefined,
  };
  const storage: StorageAdapter = {
    name: "gated",
    capabilities: memory.capabilities,
    append: async (...args) => {
      gate.appends += 1;
      gate.atOnce += 1;
      gate.mostAtOnce = Math.max(gate.mostAtOnce, gate.atOnce);
      try {
        await gate.hold;
        if (gate.failWith !== undefined) throw gate.failWith;
        return await memory.append(...args);
      } finally {
        gate.atOnce -= 1;
      }
    },
    get: (...args) => memory.get(...args),
    read: (query) => memory.read(query),
    list: (query) => memory.list(query),
    tasks: (query) => memory.tasks(query),
    setStatus: (...args) => memory.setStatus(...args),
    remove: (...args) => memory.remove(...args),
    close: () => memory.close(),
  };
  const logger = recordingLogger();
  return { gate, logger, manager: new CheckpointManager({ storage, logger }) };
}

describe("auto-save", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("saves every 30 seconds by default, and only if the state changed", async () => {
    const { manager, gate } = memoryWithGate();
    const state = { n: 1 };
    const autoSave = manager.autoSave("t", () => state);
    await vi.advanceTimersByTimeAsync(29_999);
    expect(gate.appends).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(gate.appends).toBe(1);
    await vi.advanceTimersByTimeAsync(90_000);
    expect(gate.appends).toBe(1);
    state.n = 2;
    await vi.advanceTimersByTimeAsync(30_000);
    expect(gate.appends).toBe(2);
    expect(await manager.latest("t")).toMatchObject({ state: { n: 2 }, label: "Auto-save", status: "running" });
    await autoSave.stop();
    expect(gate.appends).toBe(2);
  });

  it("doesn't save again what the task saved itself", async () => {
    const { manager, gate } = memoryWithGate();
    const state = { n: 1 };
    manager.autoSave("t", () => state, { intervalMs: 10 });
    await manager.save("t", state);
    await vi.advanceTimersByTimeAsync(10);
    expect(gate.appends).toBe(1);
  });

  it("skips a tick while there is no state, and saves with the given stage and label", async () => {
    const { manager } = memoryWithGate();
    let state: { n: number } | undefined;
    manager.autoSave("t", () => state, { intervalMs: 10, stage: "step-4", label: "On the way" });
    await vi.advanceTimersByTimeAsync(10);
    expect(await manager.has("t")).toBe(false);
    state = { n: 4 };
    await vi.advanceTimersByTimeAsync(10);
    expect(await manager.latest("t")).toMatchObject({ stage: "step-4", label: "On the way" });
  });

  it("never has two simultaneous saves, however long one takes", async () => {
    const { manager, gate } = memoryWithGate();
    const held = deferred();
    gate.hold = held.promise;
    let n = 0;
    const autoSave = manager.autoSave("t", () => ({ n: ++n }), { intervalMs: 10 });
    await vi.advanceTimersByTimeAsync(100);
    const flushed = Promise.all([autoSave.flush(), autoSave.flush(), autoSave.stop()]);
    await vi.advanceTimersByTimeAsync(0);
    expect(gate.appends).toBe(1);
    held.resolve();
    await flushed;
    expect(gate.mostAtOnce).toBe(1);
    expect(gate.appends).toBe(4);
  });

  it("reports a failure by event and log, and tries again at the next tick", async () => {
    const { manager, gate, logger } = memoryWithGate();
    const failures: unknown[] = [];
    manager.on("autoSaveFailed", (failure) => failures.push(failure));
    manager.autoSave("t", () => ({ n: 1 }), { intervalMs: 10 });
    const error = new Error("disk full");
    gate.failWith = error;
    await vi.advanceTimersByTimeAsync(10);
    expect(failures).toEqual([{ taskId: "t", error }]);
    expect(logger.lines).toContainEqual(expect.objectContaining({ level: "error", details: { taskId: "t", error } }));
    gate.failWith = undefined;
    await vi.advanceTimersByTimeAsync(10);
    expect((await manager.latest("t"))?.state).toEqual({ n: 1 });
  });

  it("counts it as a failure if getState throws or returns a value that can't be stored", async () => {
    const { manager } = memoryWithGate();
    const failures: unknown[] = [];
    manager.on("autoSaveFailed", ({ error }) => failures.push(error));
    const broken = new Error("not ready");
    manager.autoSave(
      "throws",
      () => {
        throw broken;
      },
      { intervalMs: 10 },
    );
    manager.autoSave("lossy", () => ({ f: () => 1 }), { intervalMs: 10 });
    await vi.advanceTimersByTimeAsync(10);
    expect(failures).toEqual([broken, expect.objectContaining({ code: "STATE_NOT_SERIALIZABLE", path: "$.f" })]);
  });

  it("stop() waits for the save under way, saves an unsaved state, and ends the timer", async () => {
    const { manager, gate } = memoryWithGate();
    const held = deferred();
    gate.hold = held.promise;
    const state = { n: 1 };
    const autoSave = manager.autoSave("t", () => state, { intervalMs: 10 });
    await vi.advanceTimersByTimeAsync(10);
    state.n = 2;
    const stopped = autoSave.stop();
    held.resolve();
    await stopped;
    expect((await manager.latest("t"))?.state).toEqual({ n: 2 });
    state.n = 3;
    await vi.advanceTimersByTimeAsync(100);
    await autoSave.stop();
    expect(gate.appends).toBe(2);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("saves a state again if it came back, or if its checkpoint was removed", async () => {
    const { manager, gate } = memoryWithGate();
    const state = { n: 1 };
    const autoSave = manager.autoSave("t", () => state);
    await autoSave.flush();
    await manager.save("t", { n: 2 });
    await autoSave.flush();
    expect((await manager.latest("t"))?.state).toEqual({ n: 1 });
    await manager.removeTask("t");
    await autoSave.flush();
    expect(await manager.has("t")).toBe(true);
    await autoSave.flush();
    expect(gate.appends).toBe(4);
  });

  /** Returns the sequences of a task's checkpoints, newest first, with the transient one in brackets. */
  async function sequencesOf(manager: CheckpointManager): Promise<unknown[]> {
    return (await manager.list("t")).map((one) => (isTransient(one) ? [one.sequence] : one.sequence));
  }

  it("replaces the auto-save before it, even one of a former process, and leaves milestones", async () => {
    const storage = new MemoryAdapter();
    const former = new CheckpointManager({ storage, ownsStorage: false });
    const state = { n: 0 };
    const autoSave = former.autoSave("t", () => state);
    await former.save("t", { milestone: 1 });
    for (let save = 0; save < 4; save++) {
      state.n += 1;
      await autoSave.flush();
    }
    await former.save("t", { milestone: 2 });
    expect(await sequencesOf(former)).toEqual([6, [5], 1]);
    await former.close();
    expect(await sequencesOf(new CheckpointManager({ storage, ownsStorage: false }))).toEqual([[7], 6, 1]);

    const manager = new CheckpointManager({ storage });
    const next = manager.autoSave("t", () => state);
    await manager.save("t", { milestone: 3 });
    for (let save = 0; save < 4; save++) {
      state.n += 1;
      await next.flush();
      expect(await sequencesOf(manager)).toEqual([[9 + save], 8, 6, 1]);
    }
  });

  it("keeps an auto-save that was marked as failed, with its error", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage, ownsStorage: false });
    const state = { n: 1 };
    const autoSave = manager.autoSave("t", () => state);
    await autoSave.flush();
    await manager.fail("t", new Error("compiler crashed"));
    state.n = 2;
    await manager.close();
    const stored = await new CheckpointManager({ storage }).list("t", { status: ["failed"] });
    expect(stored.map(({ sequence, error }) => [sequence, error?.message])).toEqual([[1, "compiler crashed"]]);
  });

  it("has the stage of the checkpoint before it, unless it is given one", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    await manager.save("t", { n: 1 }, { stage: "phase-2" });
    const autoSave = manager.autoSave("t", () => ({ n: 2 }));
    await autoSave.flush();
    expect((await manager.latest("t"))?.stage).toBe("phase-2");
    await manager.close();
  });

  it("leaves one transient checkpoint, even if the answer of an auto-save was lost", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage });
    const append = storage.append.bind(storage);
    const state = { n: 1 };
    const autoSave = manager.autoSave("t", () => state);
    await autoSave.flush();
    storage.append = async (...args) => {
      storage.append = append;
      await append(...args);
      throw new Error("the answer was lost");
    };
    state.n = 2;
    await expect(autoSave.flush()).rejects.toThrow("lost");
    state.n = 3;
    await autoSave.flush();
    expect(await sequencesOf(manager)).toEqual([[3]]);
  });

  it("removes no milestone, however many auto-saves there are", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter(), retention: { keepLast: 2 } });
    const state = { n: 0 };
    const autoSave = manager.autoSave("t", () => state);
    for (const milestone of [1, 2]) await manager.save("t", { milestone });
    for (; state.n < 8; state.n++) await autoSave.flush();
    expect(await sequencesOf(manager)).toEqual([[10], 2, 1]);
    await manager.save("t", { milestone: 3 });
    expect(await sequencesOf(manager)).toEqual([11, 2]);
  });

  it("saves a state after a rewind if it differs from the newest checkpoint", async () => {
    const { manager } = memoryWithGate();
    const state = { n: 1 };
    const first = await manager.save("t", state);
    const autoSave = manager.autoSave("t", () => state);
    state.n = 2;
    await autoSave.flush();
    await manager.rewind("t", first.id);
    await autoSave.stop();
    expect((await manager.latest("t"))?.state).toEqual({ n: 2 });
  });

  it("doesn't reopen a completed task, even if another process completed it", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage });
    const other = new CheckpointManager({ storage, ownsStorage: false });
    const state = { n: 1 };
    for (const completing of [manager, other]) {
      const autoSave = manager.autoSave("t", () => state);
      await manager.save("t", state);
      await completing.complete("t");
      state.n += 1;
      await autoSave.flush();
      await autoSave.stop();
      expect(await manager.latest("t")).toMatchObject({ status: "completed", state: { n: state.n - 1 } });
    }
  });

  it("doesn't reopen a task that is completed while it is about to save", async () => {
    const { manager } = memoryWithGate();
    const state = { n: 1 };
    await manager.save("t", state);
    const autoSave = manager.autoSave("t", () => state);
    state.n = 2;
    await Promise.all([autoSave.flush(), manager.complete("t")]);
    state.n = 3;
    await Promise.all([manager.save("t", state).then(() => manager.complete("t")), autoSave.flush()]);
    expect((await manager.latest("t"))?.status).toBe("completed");
  });

  it.each([
    ["with tags", { counts: new Map([["a", 1n]]) }, {}],
    [
      "encrypted and compressed",
      { n: 1 },
      { transforms: [gzip(), encrypt({ keys: { k1: randomBytes(32) }, current: "k1" })] },
    ],
    [
      "under a schema that encodes, and redacted",
      { at: new Date(0), password: "secret" },
      { schema: withDate, redact: { paths: ["state.password"] } },
    ],
  ])("doesn't save an unchanged state again after a resume, %s", async (_how, first, options) => {
    const storage = new MemoryAdapter();
    const managerOf = (own: Partial<CheckpointManagerOptions>) =>
      new CheckpointManager({ storage, ownsStorage: false, ...options, ...own } as CheckpointManagerOptions);
    const before = managerOf({});
    await before.save("t", first);
    await before.close();
    const manager = managerOf({});
    const state = (await manager.latest("t"))?.state;
    const autoSave = manager.autoSave("t", () => state);
    await autoSave.flush();
    await manager.close();
    expect(await sequencesOf(managerOf({}))).toEqual([1]);
  });

  it("saves again after a resume if the newest checkpoint is damaged", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage });
    await manager.save("t", { n: 1 });
    const get = storage.get.bind(storage);
    storage.get = async (...args) => {
      const found = await get(...args);
      return found && { ...found, payload: { ...found.payload, body: '{"n":7}' } };
    };
    await manager.autoSave("t", () => ({ n: 1 })).flush();
    expect(await sequencesOf(manager)).toEqual([[2], 1]);
  });

  it("reads the state once for each save, so that it is encoded once", async () => {
    const { manager } = memoryWithGate();
    let reads = 0;
    const state = {
      n: 1,
      get large() {
        reads += 1;
        return "x".repeat(this.n);
      },
    };
    const autoSave = manager.autoSave("t", () => state);
    await autoSave.flush();
    expect(reads).toBe(1);
    await autoSave.flush();
    expect(reads).toBe(2);
    await manager.save("t", state);
    expect(reads).toBe(3);
  });

  it("saves nothing more once it is stopped", async () => {
    const { manager, gate } = memoryWithGate();
    const state = { n: 1 };
    const autoSave = manager.autoSave("t", () => state);
    await manager.close();
    state.n = 2;
    await expect(autoSave.flush()).rejects.toMatchObject({ code: "CLOSED" });
    await autoSave.stop();
    expect(gate.appends).toBe(1);
  });

  it("stop() and flush() reject with the save's error, and stop() ends the timer all the same", async () => {
    const { manager, gate } = memoryWithGate();
    const autoSave = manager.autoSave("t", () => 1);
    gate.failWith = new Error("disk full");
    await expect(autoSave.flush()).rejects.toThrow("disk full");
    await expect(autoSave.stop()).rejects.toThrow("disk full");
    expect(vi.getTimerCount()).toBe(0);
    manager.autoSave("t", () => 1);
  });

  it.each(["released", "lost", "cancelled"] as const)(
    "ends once with the error if a save is refused under a lease that was %s",
    async (how) => {
      const storage = new MemoryAdapter();
      const logger = recordingLogger();
      const manager = new CheckpointManager({ storage, ownsStorage: false, logger });
      const lease = await manager.lease("t");
      const state = { n: 1 };
      const autoSave = manager.autoSave("t", () => state, { lease, intervalMs: 1000 });
      const failures: unknown[] = [];
      manager.on("autoSaveFailed", ({ error }) => failures.push(error));
      await vi.advanceTimersByTimeAsync(1000);
      if (how === "released") await lease.release();
      else if (how === "cancelled") await new CheckpointManager({ storage }).cancel("t", "ada: not needed");
      else await storage.leases.release("t", lease.token);
      state.n = 2;
      await vi.advanceTimersByTimeAsync(3000);
      expect(failures).toMatchObject([{ code: how === "cancelled" ? "RUN_CANCELLED" : "LEASE_LOST" }]);
      expect(logger.lines.filter(({ level }) => level === "error")).toHaveLength(1);
      await expect(autoSave.flush()).rejects.toBe(failures[0]);

      // The task is free for another auto-save, which the end of the first one doesn't affect.
      manager.autoSave("t", () => state);
      await expect(autoSave.stop()).rejects.toBe(failures[0]);
      expect(() => manager.autoSave("t", () => state)).toThrow(/already/);
      await manager.close();
      expect(failures).toHaveLength(1);
      expect((await new CheckpointManager({ storage }).latest("t"))?.state).toEqual({ n: 2 });
      expect(vi.getTimerCount()).toBe(0);
    },
  );

  it("close() resolves if a lost lease has ended an auto-save", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter(), logger: recordingLogger() });
    const lease = await manager.lease("t");
    const autoSave = manager.autoSave("t", () => 1, { lease });
    await lease.release();
    await expect(autoSave.flush()).rejects.toMatchObject({ code: "LEASE_LOST" });
    await manager.close();
  });

  it("close() rejects if its own last save is the first that a lost lease refuses", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter(), logger: recordingLogger() });
    const lease = await manager.lease("t");
    const autoSave = manager.autoSave("t", () => 1, { lease });
    await lease.release();
    await expect(manager.close()).rejects.toMatchObject({ code: "LEASE_LOST" });
    await expect(autoSave.flush()).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("saves an unsaved state when its manager closes, or its scope ends", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage, ownsStorage: false });
    {
      await using _autoSave = manager.autoSave("scope", () => "scoped");
    }
    manager.autoSave("t", () => "last");
    await manager.close();
    const reader = new CheckpointManager({ storage });
    expect((await reader.latest("t"))?.state).toBe("last");
    expect((await reader.latest("scope"))?.state).toBe("scoped");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("refuses a second auto-save of a task, and wrong options", async () => {
    const { manager } = memoryWithGate();
    const autoSave = manager.autoSave("t", () => 1);
    expect(() => manager.autoSave("t", () => 1)).toThrow(/already/);
    await autoSave.stop();
    const wrong = (options: object) => () => manager.autoSave("t", () => 1, options as AutoSaveOptions);
    expect(wrong({ intervalMS: 1 })).toThrow("intervalMS");
    expect(wrong({ intervalMs: 0 })).toThrow(RangeError);
    expect(wrong({ intervalMs: 2 ** 31 })).toThrow(RangeError);
    expect(() => manager.autoSave("t", 1 as never)).toThrow(TypeError);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("auto-save and signals", () => {
  async function started(folder: string, ...args: string[]): Promise<ChildProcess> {
    const script = fileURLToPath(new URL("../../fixtures/auto-save-until-signal.mjs", import.meta.url));
    const child = spawn(process.execPath, [script, folder, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    await once(child.stdout!, "data");
    return child;
  }

  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "saves once as paused on %s, and dies of the signal as without Waymark",
    async (signal) => {
      const folder = await tempFolder();
      const child = await started(folder);
      child.kill(signal);
      expect(await once(child, "exit")).toEqual([null, signal]);
      await using manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: folder }) });
      expect(await manager.list("one")).toMatchObject([{ status: "paused" }]);
      expect(await manager.list("two")).toMatchObject([{ status: "paused", stage: "middle" }]);
      expect(await manager.has("three")).toBe(false);
    },
  );

  it("saves first if a library that cleans up at signals registers later", async () => {
    const folder = await tempFolder();
    const child = await started(folder, "cleans-up");
    child.kill("SIGINT");
    expect(await once(child, "exit")).toEqual([null, "SIGINT"]);
    await using manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: folder }) });
    expect(await manager.list("one")).toMatchObject([{ status: "paused" }]);
    expect(await manager.list("two")).toMatchObject([{ status: "paused" }]);
  });

  it("leaves a completed task unchanged", async () => {
    const folder = await tempFolder();
    const child = await started(folder, "completed");
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([null, "SIGTERM"]);
    await using manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: folder }) });
    expect(await manager.list("one")).toMatchObject([{ status: "completed" }]);
    expect(await manager.list("two")).toMatchObject([{ status: "paused" }]);
  });

  it("releases its lease once it has saved, if a signal ends the process", async () => {
    const script = fileURLToPath(new URL("../../fixtures/auto-save-under-lease.mjs", import.meta.url));
    for (const [signal, listens] of [
      ["SIGINT", false],
      ["SIGTERM", false],
      ["SIGTERM", true],
    ] as const) {
      const path = join(await tempFolder(), "checkpoints.db");
      const args = [script, path, ...(listens ? ["own-listener"] : [])];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
      onTestFinished(() => void child.kill("SIGKILL"));
      await once(child.stdout, "data");
      child.kill(signal);
      expect(await once(child, "exit")).toEqual(listens ? [7, null] : [null, signal]);
      await using manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
      expect(await manager.latest("t")).toMatchObject({ status: "paused" });
      const claimed = manager.lease("t").then((lease) => lease.token);
      if (listens) await expect(claimed).rejects.toMatchObject({ code: "LEASE_HELD" });
      else expect(await claimed).toBe(2);
    }
  });

  it("lets a program that listens to the signal end itself", async () => {
    const folder = await tempFolder();
    const child = await started(folder, "own-listener");
    child.kill("SIGINT");
    expect(await once(child, "exit")).toEqual([7, null]);
    await using manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: folder }) });
    expect((await manager.latest("one"))?.status).toBe("paused");
  });

  /** Sends SIGTERM to a program that then closes its manager. Returns the sequences and statuses that it saved. */
  async function closedOnSignal(when: "before" | "after" | "saving", exitCode?: number): Promise<string[]> {
    const folder = await tempFolder();
    const script = fileURLToPath(new URL("../../fixtures/close-on-signal.mjs", import.meta.url));
    const args = [script, folder, when, ...(exitCode === undefined ? [] : [String(exitCode)])];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    let warned = "";
    child.stderr.on("data", (chunk: Buffer) => {
      warned += chunk.toString();
    });
    await once(child.stdout, "data");
    child.kill("SIGTERM");
    expect(await once(child, "close")).toEqual([exitCode ?? 0, null]);
    expect(warned).toBe("");
    await using manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: folder }) });
    return (await manager.list("t")).map(({ sequence, status }) => `${sequence} ${status}`);
  }

  it.each([
    ["before", 143],
    ["after", undefined],
  ] as const)(
    "saves once as paused if a program that listened %s it closes its manager, and keeps the program's exit code: %s",
    async (when, exitCode) => {
      expect(await closedOnSignal(when, exitCode)).toEqual(["1 paused"]);
    },
  );

  it("saves again as paused after a save that was under way at the signal stored running", async () => {
    expect(await closedOnSignal("saving")).toEqual(["2 paused"]);
  });

  it("doesn't keep an idle process alive", async () => {
    const script = `
      import { CheckpointManager } from "waymark";
      import { MemoryAdapter } from "waymark/adapters/memory";
      new CheckpointManager({ storage: new MemoryAdapter() }).autoSave("t", () => 1, { saveOnSignal: true });
    `;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "inherit" });
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});
