// Tests syncs of the log off the event loop, and the thread that copies the log into the database.
import { createCipheriv } from "node:crypto";
import { once } from "node:events";
import type * as fs from "node:fs";
import { statSync } from "node:fs";
import type Database from "better-sqlite3";
import { afterEach, describe, expect, it, vi } from "vitest";
import { CheckpointManager } from "waymark";
import type { SqliteAdapter } from "waymark/adapters/sqlite";
import { FULL_AT_PAGES } from "../../../../adapters/sqlite/log-copier.js";
import { record } from "../../../../conformance/records.js";
import { draft } from "../files/drafts.js";
import { collect, connect, listed, newStore, openAdapter, spyingDriver } from "./support.js";

/** The syncs that wait for `proceed` while `isHeld` is true, and the number of syncs that have begun. */
const syncs = { isHeld: false, waiting: [] as (() => void)[], begun: 0, error: undefined as Error | undefined };
const faults = { noThread: false, noLog: false };

vi.mock("node:fs", async (original) => {
  const real = await original<typeof fs>();
  const fdatasync = (file: number, done: (error: Error | null) => void) => {
    syncs.begun += 1;
    const { error } = syncs;
    const sync = () => (error === undefined ? real.fdatasync(file, done) : done(error));
    if (syncs.isHeld) syncs.waiting.push(sync);
    else sync();
  };
  const openSync: typeof fs.openSync = (path, ...how) => {
    if (!faults.noLog || !String(path).endsWith("-wal")) return real.openSync(path, ...how);
    throw Object.assign(new Error("no file is left"), { code: "ENOENT" });
  };
  return { ...real, fdatasync, openSync };
});

vi.mock("node:worker_threads", async (original) => {
  const { Worker } = await original<typeof import("node:worker_threads")>();
  return {
    Worker: class extends Worker {
      constructor(...parameters: ConstructorParameters<typeof Worker>) {
        if (faults.noThread) throw new Error("no thread can be started");
        super(...parameters);
      }
    },
  };
});

afterEach(() => {
  Object.assign(syncs, { isHeld: false, error: undefined, begun: 0 });
  proceed();
  Object.assign(faults, { noThread: false, noLog: false });
});

function proceed(): void {
  for (const sync of syncs.waiting.splice(0)) sync();
}

/** Resolves once a sync has begun. */
async function untilSyncing(count = 1): Promise<void> {
  await vi.waitUntil(() => syncs.waiting.length >= count);
}

/** Whether the promise has settled after the microtasks and some turns of the event loop. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(
    () => (settled = true),
    () => (settled = true),
  );
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  return settled;
}

async function storeWith(...ids: string[]) {
  const store = await newStore();
  for (const id of ids) await store.adapter.append(draft("t", id));
  syncs.begun = 0;
  return store;
}

describe("a save", () => {
  it("is acknowledged once a sync that began after its commit has ended; until then other calls find it", async () => {
    const { adapter } = await storeWith("c1");
    syncs.isHeld = true;
    const saved = adapter.append(draft("t", "c2"));
    await untilSyncing();
    expect(await listed(adapter)).toEqual(["c2", "c1"]);
    expect(await isSettled(saved)).toBe(false);
    proceed();
    expect(await saved).toBe(2);
  });

  it("shares the next sync with all that is committed during a sync", async () => {
    const { adapter } = await storeWith("c1");
    syncs.isHeld = true;
    const first = adapter.append(draft("t", "c2"));
    await untilSyncing();
    const later = [3, 4, 5].map((number) => adapter.append(draft("t", `c${number}`)));
    const status = adapter.setStatus("t", "c1", { status: "completed" });
    expect(await isSettled(Promise.race([...later, status]))).toBe(false);
    expect(syncs.begun).toBe(1);
    proceed();
    await first;
    await untilSyncing();
    proceed();
    expect(await Promise.all([...later, status])).toEqual([3, 4, 5, true]);
    expect(syncs.begun).toBe(2);
  });

  it("doesn't sync with durability normal, nor does a lazy record", async () => {
    const { adapter } = await newStore({ durability: "normal" });
    await adapter.append(draft("t", "c1"));
    const full = await storeWith("c1");
    await full.adapter.log.append("t", [record("s1")], {}, { lazy: true });
    expect(syncs.begun).toBe(0);
  });

  it("that is repeated is acknowledged after its own sync", async () => {
    const { adapter } = await storeWith("c1");
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
    expect(syncs.begun).toBe(1);
  });

  it("that is under way when the adapter is closed is acknowledged", async () => {
    const { adapter, path } = await storeWith("c1");
    syncs.isHeld = true;
    const saved = adapter.append(draft("t", "c2"));
    await untilSyncing();
    const closed = adapter.close();
    expect(await isSettled(closed)).toBe(false);
    proceed();
    expect(await saved).toBe(2);
    await closed;
    expect(statSync(`${path}-wal`, { throwIfNoEntry: false })).toBeUndefined();
  });
});

it("a read of durable records waits for a sync of what it found", async () => {
  const { adapter } = await storeWith("c1");
  await adapter.log.append("t", [record("s1")], {}, { lazy: true });
  syncs.isHeld = true;
  const query = { taskId: "t", order: "oldest", kinds: ["step"] } as const;
  expect(await collect(adapter.log.read(query))).toHaveLength(1);
  const durable = collect(adapter.log.read({ ...query, durableOnly: true }));
  await untilSyncing();
  expect(await isSettled(durable)).toBe(false);
  proceed();
  expect(await durable).toHaveLength(1);
});

describe("a sync that fails", () => {
  it.each([
    ["EIO", false],
    ["ENOSPC", true],
  ])(
    "with %s fails every save that it covers; the database is opened again, with what is there",
    async (code, retryable) => {
      let opened = 0;
      const { adapter } = await newStore({ driver: spyingDriver({ opening: () => void opened++ }) });
      await adapter.append(draft("t", "c1"));
      opened = 0;
      syncs.error = Object.assign(new Error(`${code}: made to fail`), { code });
      const saves = ["c2", "c3"].map((id) => adapter.append(draft("t", id)));
      const expected = {
        code: "STORAGE_FAILED",
        retryable,
        message: expect.stringMatching(/earlier checkpoints are intact/i),
      };
      for (const save of saves) await expect(save).rejects.toMatchObject(expected);
      syncs.error = undefined;
      expect(opened).toBe(0);
      expect(await listed(adapter)).toEqual(["c3", "c2", "c1"]);
      expect(opened).toBe(1);
      expect(await adapter.append(draft("t", "c3"))).toBe(3);
    },
  );

  it("also fails the saves that were committed meanwhile: the next sync would succeed without the first one's pages", async () => {
    const { adapter, path } = await storeWith("c1");
    // Keeps the log when the adapter closes the database.
    connect(path).prepare("SELECT count(*) FROM waymark_tasks").get();
    syncs.error = new Error("made to fail");
    syncs.isHeld = true;
    const first = adapter.append(draft("t", "c2"));
    await untilSyncing();
    const second = adapter.append(draft("t", "c3"));
    syncs.error = undefined;
    syncs.isHeld = false;
    proceed();
    for (const save of [first, second]) await expect(save).rejects.toThrow(/could not be synced/);
  });

  it("empties the log before the next save, since a later sync wouldn't include what it has lost", async () => {
    const { adapter, path } = await storeWith("c1");
    // Keeps the log when the adapter closes the database.
    const reader = connect(path);
    reader.prepare("SELECT count(*) FROM waymark_tasks").get();
    syncs.error = new Error("made to fail");
    await expect(adapter.append(draft("t", "c2"))).rejects.toThrow(/could not be synced/);
    syncs.error = undefined;
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    expect(await listed(adapter)).toEqual(["c2", "c1"]);
    expect(statSync(`${path}-wal`).size).toBe(0);
  });
});

describe("the log", () => {
  /** Returns an incompressible text of 100,000 characters. */
  function noise(seed: string): string {
    const stream = createCipheriv("aes-128-ctr", Buffer.alloc(16, seed), Buffer.alloc(16));
    return JSON.stringify(stream.update(Buffer.alloc(75_000)).toString("base64"));
  }

  /** Saves to many tasks at once, in each task one after another. */
  async function saveSteadily(adapter: SqliteAdapter, saves: number, seen: () => void) {
    const inTask = async (taskId: string) => {
      for (let number = 0; number < saves; number++) {
        await adapter.append(draft(taskId, `c${number}`, { body: noise(`${taskId} ${number} `) }));
        seen();
      }
    };
    await Promise.all(Array.from({ length: 16 }, (_, task) => inTask(`t${task}`)));
  }

  it("keeps its bound under a steady load, and no copy runs on the event loop", async () => {
    const { adapter, path } = await newStore({ durability: "normal" });
    let largest = 0;
    await saveSteadily(adapter, 40, () => {
      largest = Math.max(largest, statSync(`${path}-wal`).size);
    });
    // Some 50 MB were written. Commits during the copy make the log longer.
    expect(statSync(path).size).toBeGreaterThan(25_000_000);
    expect(largest).toBeLessThan(2 * FULL_AT_PAGES * 4120);
    await adapter.close();
    expect(statSync(`${path}-wal`, { throwIfNoEntry: false })).toBeUndefined();
    expect(await collect(openAdapter({ path }).list({ taskId: "t7", order: "oldest" }))).toHaveLength(40);
  });

  it.each([
    ["if no thread can be started", () => newStore({ durability: "normal" })],
    ["with a driver that is passed", () => newStore({ durability: "normal", driver: spyingDriver({}) })],
  ])("is copied by SQLite itself %s", async (_when, open) => {
    faults.noThread = true;
    const { adapter, path } = await open();
    await saveSteadily(adapter, 10, () => undefined);
    expect(statSync(`${path}-wal`).size).toBeLessThan(FULL_AT_PAGES * 4120);
    expect(statSync(path).size).toBeGreaterThan(8_000_000);
  });
});

it("a log that can't be opened beside the database is synced by each commit, and a warning reports why", async () => {
  faults.noLog = true;
  const warned = once(process, "warning");
  const connections = new Set<Database.Database>();
  const driver = spyingDriver({ prepared: (_sql, database) => connections.add(database) });
  const { adapter } = await newStore({ driver });
  expect(await adapter.append(draft("t", "c1"))).toBe(1);
  expect([...connections].at(-1)?.pragma("synchronous", { simple: true })).toBe(2);
  expect(syncs.begun).toBe(0);
  expect(await warned).toMatchObject([{ code: "WAYMARK_SYNC_ON_LOOP", message: expect.stringMatching(/event loop/) }]);
});

it("a manager's run and saves wait for the same syncs", async () => {
  const { adapter } = await storeWith("c1");
  const manager = new CheckpointManager({ storage: adapter });
  syncs.isHeld = true;
  const saved = manager.save("t", { n: 1 });
  await untilSyncing();
  expect(await isSettled(saved)).toBe(false);
  syncs.isHeld = false;
  proceed();
  expect(await saved).toMatchObject({ sequence: 2 });
});

it.each(["full", "normal"] as const)(
  "a program that awaits nothing but calls doesn't keep timers from firing, and a save from ending: %s",
  async (durability) => {
    const { adapter } = await newStore({ durability });
    await adapter.append(draft("t", "c1"));
    let isSaved = false;
    let hasFired = false;
    const saving = adapter.append(draft("t", "c2")).then(() => {
      isSaved = true;
    });
    setTimeout(() => {
      hasFired = true;
    }, 1);
    let reads = 0;
    for (; !(isSaved && hasFired) && reads < 1_000_000; reads++) await adapter.get("t", "c1");
    expect([isSaved, hasFired]).toEqual([true, true]);
    await saving;
    hasFired = false;
    setTimeout(() => {
      hasFired = true;
    }, 1);
    for (let save = 3; !hasFired && save < 100_000; save++) await adapter.append(draft("t", `c${save}`));
    expect(hasFired).toBe(true);
    hasFired = false;
    setTimeout(() => {
      hasFired = true;
    }, 1);
    for (let change = 0; !hasFired && change < 100_000; change++)
      await adapter.setStatus("t", "c1", { status: change % 2 === 0 ? "paused" : "running" });
    expect(hasFired).toBe(true);
  },
);
