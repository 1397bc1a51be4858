// Tests `fork` and `rewind`, which make new checkpoints with the state of an older one.
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  CheckpointManager,
  type CheckpointManagerOptions,
  type CheckpointSummary,
  encrypt,
  gzip,
  type StorageAdapter,
} from "waymark";
import { findDamage, isCorrupt, isTransient } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

function managerOn(storage: StorageAdapter, options: Partial<CheckpointManagerOptions> = {}) {
  return new CheckpointManager({ storage, ownsStorage: false, logger: recordingLogger(), ...options });
}

async function recordOf(storage: StorageAdapter, taskId: string, id: string) {
  const record = await storage.get(taskId, id);
  if (record === undefined || isCorrupt(record)) throw new Error(`There is no whole ${id}.`);
  return record;
}

/** Makes a task with two checkpoints, the first of which has every field. */
async function taskOfTwo(storage: StorageAdapter, options: Partial<CheckpointManagerOptions> = {}) {
  const manager = managerOn(storage, options);
  const state = { n: 1, at: new Date(5), tags: new Set(["a"]) };
  const about = { stage: "gate", label: "After the gate", metadata: { host: "a" } };
  const first = await manager.save("t", state, { ...about, status: "paused", error: "stopped", parentId: "none" });
  await manager.save("t", { n: 2 });
  await manager.complete("t");
  return { manager, first, state };
}

/** The conditions and options of the appends. */
function appendsOf(storage: StorageAdapter): unknown[] {
  const appends: unknown[] = [];
  const append = storage.append.bind(storage);
  storage.append = (draft, ...rest) => {
    appends.push(rest);
    return append(draft, ...rest);
  };
  return appends;
}

const STORAGES: Record<string, (folder: string) => StorageAdapter> = {
  memory: () => new MemoryAdapter(),
  "json-file": (folder) => openStorage(`files:${join(folder, "store")}`),
  "task-file": (folder) => openStorage(`tasks:${join(folder, "store")}`),
  sqlite: (folder) => openStorage(`sqlite:${join(folder, "store.db")}`),
};

it("a fork of a fork names the fork that it comes from", async () => {
  const { manager, first } = await taskOfTwo(new MemoryAdapter());
  const fork = await manager.fork("t", first.id, "fork");
  const second = await manager.fork("fork", fork.id, "fork of the fork");
  expect(second.metadata).toEqual({ host: "a", forkedFrom: { taskId: "fork", id: fork.id } });
});

describe.each(Object.entries(STORAGES))("in %s", (_name, open) => {
  it("fork begins an independent task, which outlives the task it comes from", async () => {
    const storage = open(await tempFolder());
    const { manager, first, state } = await taskOfTwo(storage);
    const forked = await manager.fork("t", first.id, "u");
    await manager.save("u", { n: 3 });
    await manager.removeTask("t");
    expect((await manager.restore("u", forked.id)).state).toEqual(state);
    expect((await manager.list("u")).map(({ sequence }) => sequence)).toEqual([2, 1]);
    await manager.close();
    await storage.close();
  });

  it("rewind continues from an old checkpoint, and removes nothing", async () => {
    const storage = open(await tempFolder());
    const { manager, first, state } = await taskOfTwo(storage);
    const rewound = await manager.rewind("t", first.id);
    expect(await manager.latest("t")).toEqual({ ...rewound, state });
    expect(await manager.list("t")).toHaveLength(3);
    await manager.remove("t", first.id);
    expect((await manager.latest("t"))?.state).toEqual(state);
    await manager.close();
    await storage.close();
  });
});

describe("fork", () => {
  it("keeps stage, label and metadata, is running, and names its origin", async () => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter(), { clock: () => Date.UTC(2026, 10, 21) });
    const forked = await manager.fork("t", first.id, "u");
    expect(forked).toEqual({
      taskId: "u",
      id: expect.any(String),
      sequence: 1,
      createdAt: "2026-11-21T00:00:00.000Z",
      stage: "gate",
      label: "After the gate",
      metadata: { host: "a", forkedFrom: { taskId: "t", id: first.id } },
      status: "running",
      stateVersion: 1,
      sizeBytes: first.sizeBytes,
    });
    expect(forked.id).not.toBe(first.id);
    expect(await manager.list("u")).toEqual([forked]);
  });

  it("accepts another label and other metadata, and emits an event", async () => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter());
    const saved: CheckpointSummary[] = [];
    manager.on("saved", (summary) => saved.push(summary));
    const forked = await manager.fork("t", first.id, "u", { label: "Second try", metadata: { try: 2 } });
    expect(forked).toMatchObject({ label: "Second try", stage: "gate" });
    expect(forked.metadata).toEqual({ try: 2, forkedFrom: { taskId: "t", id: first.id } });
    expect(saved).toEqual([forked]);
  });

  it("reuses the stored bytes, and names their checkpoint to the storage", async () => {
    const storage = new MemoryAdapter();
    const { first } = await taskOfTwo(storage, { transforms: [gzip({ level: 9 })] });
    const appends = appendsOf(storage);
    // If the states were encoded again, they would be larger, and the schema would refuse them.
    const schema = { "~standard": { version: 1, vendor: "test", validate: () => ({ issues: [{ message: "no" }] }) } };
    const manager = managerOn(storage, { transforms: [gzip({ level: 0 })], schema: schema as never, stateVersion: 7 });
    const forked = await manager.fork("t", first.id, "u");
    const rewound = await manager.rewind("t", first.id);
    const { payload } = await recordOf(storage, "t", first.id);
    for (const { taskId, id } of [forked, rewound]) {
      const record = await recordOf(storage, taskId, id);
      expect([record.payload, record.stateVersion, findDamage(record)]).toEqual([payload, 1, undefined]);
    }
    const sharesWith = { taskId: "t", id: first.id };
    expect(appends).toEqual([
      [{ expectedSequence: 0, noEventAfter: 0 }, { sharesWith }],
      [{}, { sharesWith }],
    ]);
  });

  it("is refused if the new task has checkpoints, and stores nothing", async () => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter());
    await manager.save("u", "kept");
    for (const taken of ["u", "t"]) {
      await expect(manager.fork("t", first.id, taken)).rejects.toMatchObject({
        code: "CHECKPOINT_CONFLICT",
        message: expect.stringMatching(
          /^Task "[ut]" already has checkpoints.* Nothing was stored; choose an unused task id/,
        ),
      });
    }
    expect(await manager.list("u")).toHaveLength(1);
    const rivals = await Promise.allSettled(["v", "v", "v"].map((taskId) => manager.fork("t", first.id, taskId)));
    expect(rivals.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected"]);
  });

  it("is stored only under the new task's lease", async () => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter());
    const lease = await manager.lease("u");
    await using other = await manager.lease("t");
    await expect(manager.fork("t", first.id, "u", { lease: other })).rejects.toThrow(/lease is for task "t"/);
    await lease.release();
    await expect(manager.fork("t", first.id, "u", { lease })).rejects.toMatchObject({ code: "LEASE_LOST" });
    await using next = await manager.lease("u");
    expect(await manager.fork("t", first.id, "u", { lease: next })).toMatchObject({ sequence: 1 });
  });
});

describe("rewind", () => {
  it("has the old checkpoint as parent, its stage, label and metadata, and reopens the task", async () => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter());
    const rewound = await manager.rewind("t", first.id);
    expect(rewound).toMatchObject({
      sequence: 3,
      parentId: first.id,
      stage: "gate",
      label: "After the gate",
      status: "running",
    });
    expect(rewound.metadata).toEqual({ host: "a" });
    expect(rewound).not.toHaveProperty("error");
    expect((await manager.findIncomplete()).map(({ taskId }) => taskId)).toEqual(["t"]);
    expect(await manager.rewind("t", first.id, { label: "Again", metadata: {} })).toMatchObject({
      label: "Again",
      metadata: {},
    });
  });

  it("makes a milestone of an auto-save's state, as a fork does", async () => {
    const manager = managerOn(new MemoryAdapter());
    await using autoSave = manager.autoSave("t", () => "auto-saved");
    await autoSave.flush();
    const [transient] = await manager.list("t");
    expect(transient && isTransient(transient)).toBe(true);
    const rewound = await manager.rewind("t", transient?.id ?? "");
    expect(rewound).not.toHaveProperty("metadata");
    const forked = await manager.fork("t", transient?.id ?? "", "u");
    expect(forked.metadata).toEqual({ forkedFrom: { taskId: "t", id: transient?.id } });
  });

  it("is refused without storing anything if another writer has saved since or the lease is lost", async () => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter());
    const stale = manager.rewind("t", first.id, { expectedSequence: 1 });
    await expect(stale).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    const lease = await manager.lease("t");
    await lease.release();
    await expect(manager.rewind("t", first.id, { lease })).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(await manager.list("t")).toHaveLength(2);
    expect((await manager.rewind("t", first.id, { expectedSequence: 2 })).sequence).toBe(3);
  });

  it.each([
    ["without transforms", []],
    ["with them", [gzip()]],
  ])("is stored between the saves that were called before and after it, %s", async (_name, transforms) => {
    const storage = new MemoryAdapter();
    const { manager, first } = await taskOfTwo(storage, { transforms });
    const [reached, release] = [deferred(), deferred()];
    const get = storage.get.bind(storage);
    storage.get = async (...asked) => {
      reached.resolve();
      await release.promise;
      return get(...asked);
    };
    const saves = [manager.save("t", "before"), manager.rewind("t", first.id), manager.save("t", "after")];
    await reached.promise;
    release.resolve();
    expect((await Promise.all(saves)).map(({ sequence }) => sequence)).toEqual([3, 4, 5]);
  });

  it("applies the retention policy, which may remove its parent", async () => {
    const { manager, first, state } = await taskOfTwo(new MemoryAdapter(), { retention: { keepLast: 1 } });
    await expect(manager.rewind("t", first.id)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    const { id } = await manager.save("t", state);
    const rewound = await manager.rewind("t", id);
    expect(await manager.list("t")).toEqual([rewound]);
    expect((await manager.latest("t"))?.state).toEqual(state);
  });
});

describe.each(["fork", "rewind"] as const)("%s", (method) => {
  const copy = (manager: CheckpointManager, id: string, options = {}) =>
    method === "fork" ? manager.fork("t", id, "u", options) : manager.rewind("t", id, options);

  it("encrypts a payload that is bound to its checkpoint again, under the current key", async () => {
    const storage = new MemoryAdapter();
    const keys = { old: randomBytes(32), now: randomBytes(32) };
    const { first, state } = await taskOfTwo(storage, { transforms: [gzip(), encrypt({ keys, current: "old" })] });
    const manager = managerOn(storage, { transforms: [gzip(), encrypt({ keys, current: "now" })] });
    const copied = await copy(manager, first.id);
    expect((await manager.restore(copied.taskId, copied.id)).state).toEqual(state);
    const current = managerOn(storage, { transforms: [gzip(), encrypt({ keys: { now: keys.now }, current: "now" })] });
    expect((await current.restore(copied.taskId, copied.id)).state).toEqual(state);
    const without = copy(managerOn(storage, { transforms: [gzip()] }), first.id);
    await expect(without).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
  });

  it("encrypts a payload from before encryption was configured, unless plain payloads are refused", async () => {
    const storage = new MemoryAdapter();
    const { first, state } = await taskOfTwo(storage);
    const keys = { k: randomBytes(32) };
    const strict = managerOn(storage, { transforms: [encrypt({ keys, current: "k", requireEncrypted: true })] });
    await expect(copy(strict, first.id)).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
    const manager = managerOn(storage, { transforms: [encrypt({ keys, current: "k" })] });
    const copied = await copy(manager, first.id);
    const { payload } = await recordOf(storage, copied.taskId, copied.id);
    expect(payload.encoding).toBe("json-tagged+encrypt");
    expect((await strict.restore(copied.taskId, copied.id)).state).toEqual(state);
  });

  it("throws the error of restore if there is no such checkpoint, or it is damaged", async () => {
    const root = await tempFolder();
    const storage = openStorage(`files:${root}`);
    const { manager, first } = await taskOfTwo(storage);
    const failureOf = (call: Promise<unknown>) =>
      call.then(
        () => undefined,
        ({ code, message }) => ({ code, message }),
      );
    const expectSame = async (id: string, code: string) => {
      const restored = await failureOf(manager.restore("t", id));
      expect(restored).toMatchObject({ code });
      expect(await failureOf(copy(manager, id))).toEqual(restored);
    };
    await expectSame("other", "CHECKPOINT_NOT_FOUND");
    const corrupt: unknown[] = [];
    manager.on("corrupt", ({ id }) => corrupt.push(id));
    const path = join(root, "t", `000000000001-${first.id}.json`);
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replace('"n":1', '"n":7'));
    await expectSame(first.id, "CHECKPOINT_CORRUPT");
    await writeFile(path, text.replace("After the gate", "After the goat"));
    await expectSame(first.id, "CHECKPOINT_CORRUPT");
    await writeFile(path, text.slice(0, 40));
    await expectSame(first.id, "CHECKPOINT_CORRUPT");
    expect(corrupt).toHaveLength(6);
    expect(await manager.has("u")).toBe(false);
    expect(await manager.list("t")).toHaveLength(1);
    await storage.close();
  });

  it.each<[object, string]>([
    [{ lable: "x" }, '"lable"'],
    [{ stage: "x" }, '"stage"'],
    [{ label: 7 }, "label"],
    [{ metadata: { when: new Date() } }, "metadata"],
    [{ lease: {} }, "lease"],
  ])("refuses the options %j, and names the culprit", async (options, culprit) => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter());
    await expect(copy(manager, first.id, options)).rejects.toThrow(culprit);
    expect([await manager.has("u"), (await manager.list("t")).length]).toEqual([false, 2]);
  });

  it("redacts label and metadata as a save does", async () => {
    const storage = new MemoryAdapter();
    const { first } = await taskOfTwo(storage);
    const manager = managerOn(storage, { redact: { paths: ["label", "metadata.host"] } });
    expect(await copy(manager, first.id)).toMatchObject({ label: "[redacted]", metadata: { host: "[redacted]" } });
  });

  it("is refused once the manager is closed", async () => {
    const { manager, first } = await taskOfTwo(new MemoryAdapter());
    await manager.close();
    await expect(copy(manager, first.id)).rejects.toMatchObject({ code: "CLOSED" });
  });
});

it("fork refuses a task id that isn't one", async () => {
  const { manager, first } = await taskOfTwo(new MemoryAdapter());
  await expect(manager.fork("t", first.id, "")).rejects.toThrow(/taskId must not be empty/);
});
