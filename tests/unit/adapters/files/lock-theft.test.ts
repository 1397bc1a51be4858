import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { FolderLock, LockLostError } from "../../../../adapters/files/folder-lock.js";
import { StorageError } from "../../../../src/contract/errors.js";
import { tempFolder } from "../../../support/temp-folder.js";

/** What happens right before a folder with all that is in it is deleted. */
const moments = vi.hoisted(() => ({ beforeDeletion: (_path: string): void => {} }));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const deleteFolder: typeof real.rmSync = (path, options) => {
    moments.beforeDeletion(String(path));
    real.rmSync(path, options);
  };
  return { ...real, rmSync: deleteFolder, default: real };
});

afterEach(() => {
  moments.beforeDeletion = () => {};
});

const LATER = { firstInFolder: false };

async function newLock() {
  const folder = await tempFolder();
  const path = join(folder, ".lock");
  const acquire = async (kind: "file" | "folder") => {
    const lock = await FolderLock.acquire(path, { kind, leavesFolder: true }, 0);
    onTestFinished(() => lock.release());
    return lock;
  };
  const target = join(folder, "target");
  writeFileSync(target, "before");
  return { folder, path, target, acquire };
}

/** As if its holder had been stopped for longer than a lock stays fresh. */
function makeStale(lockPath: string): void {
  const then = new Date(Date.now() - 60_000);
  for (const claim of readdirSync(lockPath)) utimesSync(join(lockPath, claim), then, then);
}

/** Half of the stale time: when a holder renews its lock. */
const RENEWAL_MS = 2_500;

describe("the theft of a stale lock", () => {
  it("leaves its holder nothing to commit by, before it deletes anything", async () => {
    const { path, target, acquire } = await newLock();
    const asleep = await acquire("folder");
    makeStale(path);
    const tries: unknown[] = [];
    moments.beforeDeletion = () => {
      try {
        tries.push(asleep.discard(target));
      } catch (error) {
        tries.push(error);
      }
    };
    await acquire("file");
    expect(tries).toEqual([expect.any(LockLostError)]);
    expect(readFileSync(target, "utf8")).toBe("before");
  });

  it("deletes nothing of who takes the lock meanwhile", async () => {
    const { path, acquire } = await newLock();
    await acquire("file");
    makeStale(path);
    const others = join(path, "1@elsewhere+0123abcd+0123456789abcdef00000000");
    moments.beforeDeletion = () => {
      mkdirSync(path, { recursive: true });
      writeFileSync(others, "");
    };
    await expect(acquire("file")).rejects.toBeInstanceOf(StorageError);
    expect(existsSync(others)).toBe(true);
  });

  it("has deleted what was claimed before it goes on", async () => {
    const { folder, path, acquire } = await newLock();
    await acquire("file");
    makeStale(path);
    await acquire("file");
    expect(readdirSync(folder)).toEqual([".lock", "target"]);
  });

  it("succeeds where somebody claims the lock in the folder that is being deleted", async () => {
    const { path, target, acquire } = await newLock();
    await acquire("file");
    makeStale(path);
    moments.beforeDeletion = (stolen) => {
      moments.beforeDeletion = () => {};
      rmSync(stolen, { recursive: true });
      throw Object.assign(new Error("ENOTEMPTY: directory not empty"), { code: "ENOTEMPTY", syscall: "rmdir" });
    };
    const thief = await acquire("file");
    await thief.write(target, Buffer.from("after"), LATER);
    expect(readFileSync(target, "utf8")).toBe("after");
  });
});

describe("a lock that could not be renewed", () => {
  /** Its place is gone when it is to be renewed, and there again afterwards. */
  async function lost(kind: "file" | "folder") {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { folder, path, target, acquire } = await newLock();
    const lock = await acquire(kind);
    renameSync(path, `${path}-away`);
    // What the timer throws ends up here; in a program it would end the process.
    await vi.advanceTimersByTimeAsync(RENEWAL_MS);
    renameSync(`${path}-away`, path);
    return { folder, lock, target };
  }

  it.each(["file", "folder"] as const)("commits nothing any more, with a claim by %s", async (kind) => {
    const { lock, target } = await lost(kind);
    await expect(lock.write(target, Buffer.from("after"), LATER)).rejects.toThrow(
      new LockLostError("The lock could not be renewed in time."),
    );
    expect(readFileSync(target, "utf8")).toBe("before");
  });

  it("removes nothing any more", async () => {
    const { lock, target } = await lost("folder");
    expect(() => lock.discard(target)).toThrow(new LockLostError("The lock could not be renewed in time."));
    expect(readFileSync(target, "utf8")).toBe("before");
  });

  it("is given up like any other, and leaves nothing", async () => {
    const { folder, lock } = await lost("folder");
    lock.release();
    expect(readdirSync(join(folder, ".lock"))).toEqual([]);
  });
});
