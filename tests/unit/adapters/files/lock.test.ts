import { spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  watch,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { FolderLock, LockLostError, withLock } from "../../../../adapters/files/lock.js";
import { StorageError } from "../../../../src/contract/errors.js";
import { tempFolder } from "../../../support/temp-folder.js";

/** Functions that are called right before a folder is deleted with its content or listed, or instead of a pause. */
const moments = vi.hoisted(() => ({
  beforeDeletion: (_path: string): void => {},
  beforeListing: (): void => {},
  insteadOfPause: undefined as ((ms: number) => void) | undefined,
}));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const deleteFolder: typeof real.rmSync = (path, options) => {
    if (options?.recursive) moments.beforeDeletion(String(path));
    real.rmSync(path, options);
  };
  const listFolder = new Proxy(real.readdirSync, {
    apply(list, self, args) {
      moments.beforeListing();
      return Reflect.apply(list, self, args);
    },
  });
  return { ...real, rmSync: deleteFolder, readdirSync: listFolder, default: real };
});

vi.mock("node:timers/promises", async (original) => {
  const real: typeof import("node:timers/promises") = await original();
  const pause = async (ms: number) => (moments.insteadOfPause ? moments.insteadOfPause(ms) : real.setTimeout(ms));
  return { ...real, setTimeout: pause, default: real };
});

afterEach(() => {
  moments.beforeDeletion = () => {};
  moments.beforeListing = () => {};
  moments.insteadOfPause = undefined;
});

/** The lock of another process, with another owner. */
async function anotherProcess() {
  vi.resetModules();
  return import("../../../../adapters/files/lock.js");
}

async function newLock() {
  const folder = await tempFolder();
  const path = join(folder, ".lock");
  const acquire = async (timeoutMs = 0, from = FolderLock) => {
    const lock = await from.acquire(path, timeoutMs);
    onTestFinished(() => lock.release());
    return lock;
  };
  const claims = () => readdirSync(path).filter((name) => statSync(join(path, name)).isFile());
  return { folder, path, target: join(folder, "target"), acquire, claims };
}

/** Ages the lock, as if its holder had been stopped for longer than a lock stays fresh. */
function makeStale(lockPath: string): void {
  const then = new Date(Date.now() - 60_000);
  for (const name of readdirSync(lockPath)) utimesSync(join(lockPath, name), then, then);
}

/** A claim of a process on another machine. */
function claimFromElsewhere(lockPath: string): string {
  const claim = join(lockPath, "1@elsewhere+0123456789abcdef-0");
  mkdirSync(lockPath, { recursive: true });
  writeFileSync(claim, "");
  return claim;
}

describe("FolderLock", () => {
  it("is held by one at a time, and free once released", async () => {
    const { acquire, claims } = await newLock();
    const lock = await acquire();
    expect(claims()).toHaveLength(1);
    await expect(acquire()).rejects.toBeInstanceOf(StorageError);
    lock.release();
    expect(claims()).toEqual([]);
    await acquire();
  });

  it("is given to a waiting call as soon as it is free", async () => {
    const { acquire } = await newLock();
    const first = await acquire();
    const pauses: number[] = [];
    moments.insteadOfPause = (ms) => {
      pauses.push(ms);
      if (pauses.length === 100) first.release();
    };
    await acquire(600_000);
    // The waiting call polls after short pauses, and finds the lock free at its first poll after the release.
    expect(pauses).toHaveLength(100);
    expect(Math.max(...pauses)).toBeLessThan(50);
  });

  it("reports who holds it when the wait times out, and that nothing was changed", async () => {
    const { acquire, path } = await newLock();
    await acquire();
    const error = await acquire(5).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    expect((error as Error).message).toContain(`${process.pid}@${hostname()} held ${path} for all 5 ms`);
    expect((error as Error).message).toContain("Nothing was changed. Try again");
  });

  it("commits and removes any number of files, and leaves nothing else", async () => {
    const { acquire, folder, target, claims } = await newLock();
    const lock = await acquire();
    await lock.write(target, Buffer.from("one"));
    await lock.write(target, Buffer.from("two"));
    await lock.write(`${target}-2`, Buffer.from("three"), 0o640);
    expect(readFileSync(target, "utf8")).toBe("two");
    expect([target, `${target}-2`].map((path) => statSync(path).mode & 0o777)).toEqual([0o600, 0o640]);
    expect(lock.remove(target)).toBe(true);
    expect(lock.remove(target)).toBe(false);
    await expect(lock.write(folder, Buffer.from("x"))).rejects.toMatchObject({ syscall: "rename" });
    lock.release();
    expect(readdirSync(folder)).toEqual([".lock", "target-2"]);
    expect(claims()).toEqual([]);
    expect(readdirSync(join(folder, ".lock"), { recursive: true })).toHaveLength(1);
  });

  it("needs the folder that it locks", async () => {
    const { folder } = await newLock();
    await expect(FolderLock.acquire(join(folder, "nowhere", ".lock"), 0)).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("tells whether another process held it meanwhile", async () => {
    const { acquire } = await newLock();
    const others = (await anotherProcess()).FolderLock;
    const held = async (from: typeof FolderLock) => {
      const lock = await acquire(0, from);
      lock.release();
      return lock.isUninterrupted;
    };
    expect([await held(FolderLock), await held(FolderLock), await held(FolderLock)]).toEqual([false, true, true]);
    expect([await held(others), await held(FolderLock), await held(FolderLock)]).toEqual([false, false, true]);
  });

  it("is free once its holder's last write is committed, and leaves no file", async () => {
    const { acquire, target, claims } = await newLock();
    const lock = await acquire();
    await lock.write(`${target}-1`, Buffer.from("one"));
    await lock.writeLast(target, Buffer.from("two"));
    expect([`${target}-1`, target].map((path) => readFileSync(path, "utf8"))).toEqual(["one", "two"]);
    expect(statSync(target).mode & 0o777).toBe(0o600);
    expect(claims()).toEqual([]);
    const next = await acquire();
    lock.release();
    next.assertHeld();
  });

  it("removes its folder and the one above, unless they hold something else", async () => {
    const { folder, path, acquire } = await newLock();
    writeFileSync(join(folder, "note.txt"), "");
    (await acquire()).releaseAndRemoveFolder();
    expect(readdirSync(folder)).toEqual(["note.txt"]);
    const lock = await acquire();
    const waiting = claimFromElsewhere(path);
    lock.releaseAndRemoveFolder();
    expect(existsSync(waiting)).toBe(true);
    rmSync(path, { recursive: true });
    rmSync(join(folder, "note.txt"));
    const clean = await acquire();
    clean.markClean();
    clean.releaseAndRemoveFolder();
    expect(existsSync(folder)).toBe(false);
    mkdirSync(folder);
  });
});

describe("the theft of a lock", () => {
  it("happens five seconds after its holder's last sign of life, and not before", async () => {
    const { acquire, path } = await newLock();
    const claim = claimFromElsewhere(path);
    const renewed = new Date();
    utimesSync(claim, renewed, renewed);
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    vi.setSystemTime(renewed.getTime() + 4_900);
    await expect(acquire()).rejects.toThrow("1@elsewhere held");
    vi.setSystemTime(renewed.getTime() + 5_100);
    await acquire();
    expect(existsSync(claim)).toBe(false);
  });

  it("doesn't wait if the holder is dead", async () => {
    const { acquire, path, claims } = await newLock();
    const lock = await acquire();
    const { pid } = spawnSync(process.execPath, ["--version"]);
    const deadClaim = claims()[0]?.replace(/^\d+/, String(pid)) ?? "";
    lock.release();
    writeFileSync(join(path, deadClaim), "");
    await acquire();
    expect(claims()).not.toContain(deadClaim);
  });

  it("doesn't happen while the holder renews its claim, however long a write takes", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const { acquire, path, target, claims } = await newLock();
    const lock = await acquire();
    makeStale(path);
    const watcher = watch(path);
    onTestFinished(() => watcher.close());
    const renewed = once(watcher, "change");
    await vi.advanceTimersByTimeAsync(2_000);
    await renewed;
    expect(statSync(join(path, claims()[0] ?? "")).mtimeMs).toBeGreaterThan(Date.now() - 30_000);
    await expect(acquire()).rejects.toBeInstanceOf(StorageError);
    await lock.write(target, Buffer.from("x"));
    expect(readFileSync(target, "utf8")).toBe("x");
  });

  it("leaves the former holder unable to write, remove or release", async () => {
    const { acquire, folder, path, target, claims } = await newLock();
    writeFileSync(target, "stays");
    const asleep = await acquire();
    makeStale(path);
    const thief = await acquire(0, (await anotherProcess()).FolderLock);
    await expect(asleep.write(`${target}-2`, Buffer.from("too late"))).rejects.toBeInstanceOf(LockLostError);
    await expect(asleep.writeLast(`${target}-2`, Buffer.from("too late"))).rejects.toBeInstanceOf(LockLostError);
    expect(() => asleep.remove(target)).toThrow(LockLostError);
    expect(() => asleep.assertHeld()).toThrow(LockLostError);
    asleep.release();
    expect(claims()).toHaveLength(1);
    await thief.write(target, Buffer.from("the thief's"));
    expect(readFileSync(target, "utf8")).toBe("the thief's");
    expect(readdirSync(folder)).toEqual([".lock", "target"]);
  });

  it("moves the former holder's folder away before it deletes anything", async () => {
    const { acquire, path, target } = await newLock();
    writeFileSync(target, "before");
    const asleep = await acquire();
    makeStale(path);
    const tries: unknown[] = [];
    moments.beforeDeletion = () => {
      try {
        tries.push(asleep.remove(target));
      } catch (error) {
        tries.push(error);
      }
    };
    await acquire(0, (await anotherProcess()).FolderLock);
    expect(tries).toEqual([expect.any(LockLostError)]);
    expect(readFileSync(target, "utf8")).toBe("before");
  });

  it("deletes nothing of a process that takes the lock meanwhile", async () => {
    const { path, acquire } = await newLock();
    await acquire();
    makeStale(path);
    let others = "";
    moments.beforeDeletion = () => {
      others = claimFromElsewhere(path);
    };
    await expect(acquire(0, (await anotherProcess()).FolderLock)).rejects.toThrow("1@elsewhere held");
    expect(existsSync(others)).toBe(true);
  });
});

describe("withLock", () => {
  const OPTIONS = { name: ".lock", timeoutMs: 0 };

  it("deletes nothing of the next holder if the claim was stolen before it looked", async () => {
    const { path, acquire } = await newLock();
    const files = "9@elsewhere+0123456789abcdef.files";
    moments.beforeListing = () => {
      moments.beforeListing = () => {};
      renameSync(path, `${path}-stolen`);
      mkdirSync(join(path, files), { recursive: true });
    };
    await expect(acquire()).rejects.toBeInstanceOf(LockLostError);
    expect(readdirSync(path)).toEqual([files]);
    expect((await acquire()).isUninterrupted).toBe(false);
    expect(readdirSync(path)).not.toContain(files);
  });

  it("lets the calls of one process take turns, in call order, however they end", async () => {
    const folder = await tempFolder();
    const order: number[] = [];
    const calls = [1, 2, 3].map((n) =>
      withLock(folder, OPTIONS, async () => {
        await new Promise(setImmediate);
        order.push(n);
        if (n === 2) throw new Error("no");
      }).catch(() => undefined),
    );
    await Promise.all(calls);
    expect(order).toEqual([1, 2, 3]);
  });

  it("starts over if the lock was stolen before the commit", async () => {
    const folder = await tempFolder();
    let runs = 0;
    await withLock(folder, OPTIONS, async (lock) => {
      runs += 1;
      if (runs === 1) {
        makeStale(join(folder, ".lock"));
        (await (await anotherProcess()).FolderLock.acquire(join(folder, ".lock"), 0)).release();
      }
      await lock.write(join(folder, "target"), Buffer.from(`run ${runs}`));
    });
    expect(readFileSync(join(folder, "target"), "utf8")).toBe("run 2");
  });

  it("gives up if the lock is stolen again and again, and reports it", async () => {
    const folder = await tempFolder();
    const losing = withLock(folder, OPTIONS, async () => {
      throw new LockLostError("again");
    });
    await expect(losing).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
  });

  it("makes a missing folder, or else fails with the system's ENOENT", async () => {
    const folder = join(await tempFolder(), "missing");
    await expect(withLock(folder, OPTIONS, async () => undefined)).rejects.toMatchObject({ code: "ENOENT" });
    const makeFolder = async () => mkdirSync(folder);
    expect(await withLock(folder, { ...OPTIONS, makeFolder }, async () => "done")).toBe("done");
  });
});
