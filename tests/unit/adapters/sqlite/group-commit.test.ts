import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointManager, encrypt } from "waymark";
import { draft } from "../files/drafts.js";
import { connect, listed, newStore, openAdapter, spyingDriver } from "./support.js";

describe("appends that are called at the same moment", () => {
  it("share one transaction, in call order, and a read that comes after them sees them", async () => {
    const commits: string[] = [];
    const driver = spyingDriver({ running: (sql) => void (sql === "COMMIT" && commits.push(sql)) });
    const { adapter } = await newStore({ driver });
    await adapter.append(draft("t", "first"));
    commits.length = 0;
    const appended = Array.from({ length: 64 }, (_, index) => adapter.append(draft("t", `c${index}`)));
    const seen = listed(adapter);
    expect(await Promise.all(appended)).toEqual(Array.from({ length: 64 }, (_, index) => index + 2));
    expect(commits).toHaveLength(1);
    expect(await seen).toHaveLength(65);
  });

  it("share it when they are encrypted saves of one task", async () => {
    const commits: string[] = [];
    const driver = spyingDriver({ running: (sql) => void (sql === "COMMIT" && commits.push(sql)) });
    const { adapter } = await newStore({ driver });
    const transforms = [encrypt({ keys: { k: Buffer.alloc(32, 7) }, current: "k" })];
    const manager = new CheckpointManager({ storage: adapter, transforms });
    await manager.save("t", "first");
    commits.length = 0;
    const saved = await Promise.all(Array.from({ length: 64 }, (_, state) => manager.save("t", { state })));
    expect(saved.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 64 }, (_, index) => index + 2));
    expect(commits).toHaveLength(1);
  });

  it("are stored at once when 256 of them, or 4 MB, wait", async () => {
    const appended: Promise<number>[] = [];
    const stored: number[] = [];
    const driver = spyingDriver({ running: (sql) => void (sql === "COMMIT" && stored.push(appended.length)) });
    const { adapter } = await newStore({ driver });
    await adapter.append(draft("t", "first"));
    stored.length = 0;
    for (let index = 0; index < 260; index++) appended.push(adapter.append(draft("t", `c${index}`)));
    const body = JSON.stringify("x".repeat(3_000_000));
    for (let index = 0; index < 3; index++) appended.push(adapter.append(draft("t", `large-${index}`, { body })));
    expect(await Promise.all(appended)).toEqual(Array.from({ length: 263 }, (_, index) => index + 2));
    expect(stored).toEqual([255, 261, 263]);
  });

  it("each have their own outcome", async () => {
    const { adapter } = await newStore();
    const [one, stale, taken, retry, last] = await Promise.allSettled([
      adapter.append(draft("t", "c1"), { expectedSequence: 0 }),
      adapter.append(draft("t", "c2"), { expectedSequence: 0 }),
      adapter.append(draft("t", "c1", { body: '"another"' })),
      adapter.append(draft("t", "c1")),
      adapter.append(draft("t", "c3"), { expectedSequence: 1 }),
    ]);
    expect([one, retry, last]).toMatchObject([{ value: 1 }, { value: 1 }, { value: 2 }]);
    expect([stale, taken]).toMatchObject(Array(2).fill({ reason: { code: "CHECKPOINT_CONFLICT" } }));
    expect(await listed(adapter)).toEqual(["c3", "c1"]);
  });

  it("are made one by one if one of them can't be stored", async () => {
    class SmallDisk extends Database {
      constructor(...args: ConstructorParameters<typeof Database>) {
        super(...args);
        this.pragma("max_page_count = 40");
      }
    }
    const { adapter } = await newStore({ driver: SmallDisk });
    const noise = JSON.stringify(Array.from({ length: 60_000 }, (_, index) => Math.sin(index)));
    const [first, large, last] = await Promise.allSettled([
      adapter.append(draft("t", "c1")),
      adapter.append(draft("t", "c2", { body: noise })),
      adapter.append(draft("t", "c3")),
    ]);
    expect([first, last]).toMatchObject([{ value: 1 }, { value: 2 }]);
    expect(large).toMatchObject({ reason: { code: "STORAGE_FAILED", retryable: true } });
  });

  it("wait once, all together, for another process's lock", async () => {
    const begun: string[] = [];
    const driver = spyingDriver({ running: (sql) => void (sql === "BEGIN IMMEDIATE" && begun.push(sql)) });
    const { adapter, path } = await newStore({ driver, busyTimeoutMs: 0 });
    await adapter.append(draft("t", "first"));
    connect(path).exec("BEGIN IMMEDIATE");
    begun.length = 0;
    await adapter.append(draft("t", "alone")).catch(() => undefined);
    const attempts = begun.length;
    const appended = ["c1", "c2", "c3"].map((id) => adapter.append(draft("t", id)));
    expect(await Promise.allSettled(appended)).toMatchObject(Array(3).fill({ reason: { code: "STORAGE_FAILED" } }));
    expect(begun).toHaveLength(2 * attempts);
  });

  it("that wait when the adapter is closed are stored, and later ones are refused", async () => {
    const { adapter, path } = await newStore();
    const appended = adapter.append(draft("t", "c1"));
    const closed = adapter.close();
    await expect(adapter.append(draft("t", "c2"))).rejects.toMatchObject({ code: "CLOSED" });
    expect(await appended).toBe(1);
    await closed;
    expect(await listed(openAdapter({ path }))).toEqual(["c1"]);
  });
});
