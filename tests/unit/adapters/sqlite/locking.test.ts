import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { CheckpointConflictError, StorageError } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { draft } from "../../../../conformance/drafts.js";
import { connect, listed, newStore, openAdapter, spyingDriver } from "./support.js";

/** Makes a store with checkpoint c1 of task t, and a connection that holds its write lock. */
async function lockedStore(options: Parameters<typeof newStore>[0] = {}) {
  const store = await newStore(options);
  await store.adapter.append(draft("t", "c1"));
  const holder = connect(store.path);
  holder.exec("BEGIN IMMEDIATE");
  return { ...store, holder };
}

it("a database that another process is just creating counts as ours", async () => {
  const { path } = await newStore();
  mkdirSync(dirname(path), { recursive: true });
  // The log's first page is written, but the tables don't exist yet.
  connect(path).exec("PRAGMA journal_mode = WAL");
  let made: Promise<number> | undefined;
  const driver = spyingDriver({
    prepared(sql) {
      if (made !== undefined || !sql.includes("sqlite_schema")) return;
      const other = openAdapter({ path });
      made = other.append(draft("t", "c1"));
      // A read makes the waiting append happen now.
      void other.get("t", "c1");
    },
  });
  expect(await openAdapter({ path, driver }).append(draft("t", "c2"))).toBe(2);
  expect(await made).toBe(1);
});

describe("a database that another process has locked", () => {
  it("is waited for, and causes a typed error when the wait times out", async () => {
    const { adapter, holder } = await lockedStore({ busyTimeoutMs: 20 });
    const refused = adapter.append(draft("t", "c2"));
    await expect(refused).rejects.toThrow(StorageError);
    await expect(refused).rejects.toThrow(/locked by another process.*20 ms.*changed nothing.*Try again/);
    await expect(refused).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    await expect(adapter.setStatus("t", "c1", { status: "completed" })).rejects.toThrow(StorageError);
    await expect(adapter.remove("t", "all")).rejects.toThrow(StorageError);

    holder.exec("COMMIT");
    expect(await adapter.append(draft("t", "c2"))).toBe(2);
    expect(await listed(adapter)).toEqual(["c2", "c1"]);
  });

  it("fails at once if the waiting time is 0", async () => {
    const { adapter } = await lockedStore({ busyTimeoutMs: 0 });
    await expect(adapter.append(draft("t", "c2"))).rejects.toThrow(StorageError);
  });

  it("is written to as soon as it is free again", async () => {
    let tries = 0;
    const release = () => holder.exec("COMMIT");
    const driver = spyingDriver({
      running: (sql) => {
        if (sql !== "BEGIN IMMEDIATE") return;
        tries += 1;
        if (tries === 5) release();
      },
    });
    const { adapter, holder } = await lockedStore({ driver });
    expect(await adapter.append(draft("t", "c2"))).toBe(2);
    expect(tries).toBe(5);
  });

  it.each(["append", "setStatus", "remove"])("refuses a waiting %s if the lease is taken", async (call) => {
    const { adapter, holder } = await lockedStore();
    holder.exec("COMMIT");
    const { token } = await adapter.leases.claim("t", "first", 600_000);
    holder.exec("BEGIN IMMEDIATE");
    const condition = { fencingToken: token };
    const writing =
      call === "append"
        ? adapter.append(draft("t", "c2"), condition)
        : call === "remove"
          ? adapter.remove("t", "all", condition)
          : adapter.setStatus("t", "c1", { status: "paused" }, condition);
    const refused = expect(writing).rejects.toMatchObject({ code: "LEASE_LOST" });
    // Before the call has the lock, it reads the first holder's lease.
    for (let turn = 0; turn < 100; turn++) await nextTurn();
    holder.exec("UPDATE waymark_leases SET holder = 'second', token = token + 1; COMMIT");
    await refused;
    expect(await adapter.get("t", "c1")).toMatchObject({ status: "running" });
    expect(await listed(adapter)).toEqual(["c1"]);
  });

  it("is waited for by a late call as long as the calls before it succeed", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    let tries = 0;
    const driver = spyingDriver({
      running(sql) {
        if (sql !== "BEGIN IMMEDIATE") return;
        tries += 1;
        if (tries === 4) holder.exec("BEGIN IMMEDIATE");
        if (tries === 3 || tries === 5) vi.advanceTimersByTime(4000);
        if (tries === 3 || tries === 6) holder.exec("COMMIT");
      },
    });
    const { adapter, holder } = await lockedStore({ busyTimeoutMs: 5000, driver });
    tries = 0;
    const appended = adapter.append(draft("t", "c2"));
    const changed = adapter.setStatus("t", "c1", { status: "completed" });
    expect([await appended, await changed, tries]).toEqual([2, true, 6]);
  });

  it("doesn't block the event loop", async () => {
    const { adapter, holder } = await lockedStore();
    const appended = adapter.append(draft("t", "c2"));
    for (let turn = 0; turn < 100; turn++) await nextTurn();
    holder.exec("COMMIT");
    expect(await appended).toBe(2);
  });

  it("can be read meanwhile, even by an adapter that opens it only then", async () => {
    const { adapter, path } = await lockedStore();
    void adapter.append(draft("t", "c2")).catch(() => undefined);
    expect(await listed(adapter)).toEqual(["c1"]);
    expect(await adapter.get("t", "c1")).toMatchObject({ id: "c1" });
    const other = new SqliteAdapter({ path, busyTimeoutMs: 0 });
    onTestFinished(() => other.close());
    expect(await listed(other)).toEqual(["c1"]);
  });
});

describe("calls that wait for a lock", () => {
  it("take effect in call order, with the arguments of the time of the call", async () => {
    const { adapter, holder } = await lockedStore();
    const appended = ["c2", "c3", "c4"].map((id) => {
      const body = new TextEncoder().encode(id);
      const mutable = { ...draft("t", id, { body, metadata: { id } }) };
      const promise = adapter.append(mutable);
      body.fill(0);
      Object.assign(mutable, { id: "changed", metadata: {} });
      return promise;
    });
    const ids = ["c2"];
    const removed = adapter.remove("t", ids);
    ids.push("c3");
    const last = adapter.append(draft("t", "c5"), { expectedSequence: 4 });
    holder.exec("COMMIT");

    expect(await Promise.all(appended)).toEqual([2, 3, 4]);
    expect(await removed).toBe(1);
    expect(await last).toBe(5);
    expect(await listed(adapter)).toEqual(["c5", "c4", "c3", "c1"]);
    const stored = await adapter.get("t", "c3");
    expect(stored).toMatchObject({ metadata: { id: "c3" }, payload: { body: new TextEncoder().encode("c3") } });
  });

  it("are not overtaken by calls that are made once the lock is free", async () => {
    const { adapter, holder } = await lockedStore();
    const waiting = adapter.append(draft("t", "c2"));
    holder.exec("COMMIT");
    expect(await Promise.all([waiting, adapter.append(draft("t", "c3"))])).toEqual([2, 3]);
    expect(await adapter.append(draft("t", "c4"))).toBe(4);
  });

  it("fail one by one: a refused one doesn't stop the next", async () => {
    const { adapter, holder } = await lockedStore();
    const refused = adapter.append(draft("t", "c2"), { expectedSequence: 9 });
    const next = adapter.append(draft("t", "c3"));
    holder.exec("COMMIT");
    await expect(refused).rejects.toThrow(CheckpointConflictError);
    expect(await next).toBe(2);
  });

  it("are waited for by close", async () => {
    const { adapter, holder, path } = await lockedStore();
    const appended = adapter.append(draft("t", "c2"));
    const closed = adapter.close();
    await nextTurn();
    holder.exec("COMMIT");
    await closed;
    expect(await appended).toBe(2);
    expect(await listed(openAdapter({ path }))).toEqual(["c2", "c1"]);
  });

  it("include the first one, which opens the database", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    await adapter.close();
    const holder = connect(path);
    // An exclusive lock also blocks readers.
    holder.pragma("locking_mode = EXCLUSIVE");
    holder.exec("BEGIN IMMEDIATE");
    let opened = 0;
    const driver = spyingDriver({
      opening: () => {
        opened += 1;
        if (opened === 3) holder.close();
      },
    });
    const reader = openAdapter({ path, driver });
    expect(await listed(reader)).toEqual(["c1"]);
    expect(opened).toBe(3);
  });
});
