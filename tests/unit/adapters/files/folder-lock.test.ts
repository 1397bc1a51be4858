import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { FolderLock, LockLostError } from "../../../../adapters/files/folder-lock.js";
import { removeLockFolders } from "../../../../adapters/files/lock-claim.js";
import { StorageError } from "../../../../src/contract/errors.js";
import { tempFolder } from "../../../support/temp-folder.js";

const LATER = { firstInFolder: false };

async function newLock() {
  const folder = await tempFolder();
  const path = join(folder, ".lock");
  const acquire = async (kind: "file" | "folder" = "file", timeoutMs = 0) => {
    const lock = await FolderLock.acquire(path, { kind, leavesFolder: true }, timeoutMs);
    onTestFinished(() => lock.release());
    return lock;
  };
  return { folder, path, target: join(folder, "target"), acquire, claims: () => readdirSync(path) };
}

/** As if its holder had been stopped for longer than a lock stays fresh. */
function makeStale(lockPath: string): void {
  const then = new Date(Date.now() - 60_000);
  for (const claim of claimsIn(lockPath)) utimesSync(claim, then, then);
}

function claimsIn(lockPath: string): string[] {
  return readdirSync(lockPath).map((claim) => join(lockPath, claim));
}

/** A claim of another machine's process, in a lock whose time a mocked clock tells. */
function claimFromElsewhere(lockFolder: string): string {
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const claim = join(lockFolder, "1@elsewhere+0123abcd+0123456789abcdef00000000");
  mkdirSync(lockFolder);
  writeFileSync(claim, "");
  return claim;
}

describe("FolderLock", () => {
  it.each(["file", "folder"] as const)(
    "is held by one at a time, and free once released, with a claim by %s",
    async (kind) => {
      const { acquire, claims } = await newLock();
      const lock = await acquire(kind);
      expect(claims()).toHaveLength(1);
      await expect(acquire(kind)).rejects.toBeInstanceOf(StorageError);
      lock.release();
      expect(claims()).toEqual([]);
      await acquire(kind);
    },
  );

  it("is given to the one that waits as soon as it is free", async () => {
    const { acquire } = await newLock();
    const first = await acquire();
    const second = acquire("file", 10_000);
    first.release();
    await second;
  });

  it("says who holds it when the wait is over, and that nothing was changed", async () => {
    const { acquire, path } = await newLock();
    await acquire();
    const error = await acquire("file", 5).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    expect((error as Error).message).toContain(`process ${process.pid} on ${hostname()} held ${path} for the 5 ms`);
    expect((error as Error).message).toContain("Nothing was changed. Try again");
  });

  it("names what else is in its folder", async () => {
    const { acquire, path } = await newLock();
    mkdirSync(path);
    writeFileSync(join(path, "junk"), "");
    await expect(acquire()).rejects.toThrow("another program (junk)");
  });

  it("commits a file and is free at once", async () => {
    const { acquire, target } = await newLock();
    const lock = await acquire();
    await lock.write(target, Buffer.from("content"), LATER);
    expect(readFileSync(target, "utf8")).toBe("content");
    expect(statSync(target).mode & 0o777).toBe(0o600);
    await acquire();
  });

  it.each([
    ["what it had begun to write", "the very same"],
    ["something shorter instead", "short"],
    ["something longer instead", "a good deal longer than it was"],
  ])("commits %s, and nothing else", async (_what, text) => {
    const { acquire, target, claims } = await newLock();
    const begun = Buffer.from("the very same");
    const lock = await acquire();
    lock.begin(begun);
    const content = text === begun.toString() ? begun : Buffer.from(text);
    await lock.write(target, content, LATER);
    expect(readFileSync(target, "utf8")).toBe(text);
    expect(claims()).toEqual([]);
  });

  it("commits nothing of what it had begun to write where it was stolen", async () => {
    const { acquire, path, target } = await newLock();
    const sleeper = await acquire();
    sleeper.begin(Buffer.from("likely"));
    makeStale(path);
    const thief = await acquire();
    await expect(sleeper.write(target, Buffer.from("other"), LATER)).rejects.toBeInstanceOf(LockLostError);
    expect(existsSync(target)).toBe(false);
    await thief.write(target, Buffer.from("thief"), LATER);
    expect(readFileSync(target, "utf8")).toBe("thief");
  });

  it("leaves nothing of what it had begun to write and never committed", async () => {
    const { acquire, claims } = await newLock();
    const lock = await acquire();
    lock.begin(Buffer.from("likely"));
    lock.release();
    expect(claims()).toEqual([]);
  });

  it("with a claim by folder, commits and removes any number of files", async () => {
    const { acquire, folder, target } = await newLock();
    const lock = await acquire("folder");
    await lock.write(target, Buffer.from("one"), LATER);
    await lock.write(target, Buffer.from("two"), LATER);
    await lock.write(`${target}-2`, Buffer.from("three"), LATER);
    expect(lock.discard(target)).toBe(true);
    expect(lock.discard(target)).toBe(false);
    lock.release();
    expect(readdirSync(folder)).toEqual([".lock", "target-2"]);
  });

  it("leaves nothing of a file that was never committed", async () => {
    const { acquire, folder, claims } = await newLock();
    const lock = await acquire();
    await expect(lock.write(folder, Buffer.from("x"), LATER)).rejects.toMatchObject({ syscall: "rename" });
    lock.release();
    expect(claims()).toEqual([]);
  });

  it("is anybody's five seconds after its holder was last heard of, and not before", async () => {
    const { acquire, path } = await newLock();
    await acquire();
    const renewed = new Date();
    for (const claim of claimsIn(path)) utimesSync(claim, renewed, renewed);
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    vi.setSystemTime(renewed.getTime() + 4_900);
    await expect(acquire()).rejects.toBeInstanceOf(StorageError);
    vi.setSystemTime(renewed.getTime() + 5_100);
    await acquire();
  });

  it.each([
    ["an hour", 60 * 60_000],
    ["three seconds", 3_000],
  ])("is anybody's five seconds after its claim was first seen, if that is dated %s ahead", async (_what, aheadMs) => {
    const { acquire, path } = await newLock();
    const claim = claimFromElsewhere(path);
    const ahead = new Date(Date.now() + aheadMs);
    utimesSync(claim, ahead, ahead);
    await expect(acquire()).rejects.toBeInstanceOf(StorageError);
    vi.advanceTimersByTime(4_900);
    await expect(acquire()).rejects.toBeInstanceOf(StorageError);
    vi.advanceTimersByTime(200);
    await acquire();
    expect(existsSync(claim)).toBe(false);
  });

  it("stays with a holder that renews it by a clock that is ahead", async () => {
    const { acquire, path } = await newLock();
    const claim = claimFromElsewhere(path);
    for (let renewals = 0; renewals < 4; renewals++) {
      const ahead = new Date(Date.now() + 60 * 60_000);
      utimesSync(claim, ahead, ahead);
      await expect(acquire()).rejects.toBeInstanceOf(StorageError);
      vi.advanceTimersByTime(2_500);
    }
  });

  it("is stolen from a holder that doesn't renew it", async () => {
    const { acquire, folder, path, target } = await newLock();
    const asleep = await acquire();
    makeStale(path);
    const thief = await acquire();
    await thief.write(target, Buffer.from("the thief's"), LATER);

    await expect(asleep.write(target, Buffer.from("too late"), LATER)).rejects.toBeInstanceOf(LockLostError);
    expect(readFileSync(target, "utf8")).toBe("the thief's");
    expect(readdirSync(folder)).toEqual([".lock", "target"]);
  });

  it("removes nothing for a holder that it was stolen from", async () => {
    const { acquire, path, target } = await newLock();
    writeFileSync(target, "stays");
    const asleep = await acquire("folder");
    makeStale(path);
    await acquire();
    expect(() => asleep.discard(target)).toThrow(LockLostError);
    await expect(asleep.write(target, Buffer.from("too late"), LATER)).rejects.toBeInstanceOf(LockLostError);
    expect(readFileSync(target, "utf8")).toBe("stays");
  });

  it("is not freed by a holder that it was stolen from", async () => {
    const { acquire, path, claims } = await newLock();
    const asleep = await acquire();
    makeStale(path);
    await acquire();
    asleep.release();
    expect(claims()).toHaveLength(1);
    await expect(acquire()).rejects.toBeInstanceOf(StorageError);
  });

  it("is not waited for where its holder is dead", async () => {
    const { acquire, path, claims } = await newLock();
    const lock = await acquire();
    const { pid } = spawnSync(process.execPath, ["--version"]);
    const deadClaim = claims()[0]?.replace(/^\d+/, String(pid)) ?? "";
    lock.release();
    writeFileSync(join(path, deadClaim), "");
    await acquire();
    expect(claims()).not.toContain(deadClaim);
  });

  it("waits for a holder on another machine, dead or not", async () => {
    const { acquire, path } = await newLock();
    mkdirSync(path);
    writeFileSync(join(path, "1@elsewhere+0123abcd+0123456789abcdef00000000"), "");
    await expect(acquire()).rejects.toThrow("process 1 on elsewhere held");
  });

  it("needs the folder that it locks", async () => {
    const { folder } = await newLock();
    const acquiring = FolderLock.acquire(join(folder, "nowhere", ".lock"), { kind: "file", leavesFolder: true }, 0);
    await expect(acquiring).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("is lost where it can't be renewed", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { acquire, path, target } = await newLock();
    const lock = await acquire();
    rmSync(path, { recursive: true });
    await vi.advanceTimersByTimeAsync(2_500);
    await expect(lock.write(target, Buffer.from("x"), LATER)).rejects.toBeInstanceOf(LockLostError);
    expect(existsSync(target)).toBe(false);
  });

  it("is renewed while it is held, though its file is written meanwhile", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { acquire, path, target } = await newLock();
    const lock = await acquire();
    makeStale(path);
    await vi.advanceTimersByTimeAsync(2_500);
    await expect(acquire()).rejects.toBeInstanceOf(StorageError);
    await lock.write(target, Buffer.from("x"), LATER);
    expect(readFileSync(target, "utf8")).toBe("x");
  });
});

describe("FolderLock, where its folder doesn't stay", () => {
  it.each(["file", "folder"] as const)("leaves nothing when it is released, with a claim by %s", async (kind) => {
    const { folder, path, target } = await newLock();
    const lock = await FolderLock.acquire(path, { kind, leavesFolder: false }, 0);
    await expect(FolderLock.acquire(path, { kind, leavesFolder: false }, 0)).rejects.toBeInstanceOf(StorageError);
    await lock.write(target, Buffer.from("x"), LATER);
    lock.release();
    expect(readdirSync(folder)).toEqual(["target"]);
  });

  it("refuses a link in its folder's place, wherever it leads", async () => {
    const { folder, path, acquire } = await newLock();
    symlinkSync(join(folder, "nowhere"), path);
    await expect(acquire()).rejects.toThrow("is a symbolic link, which is not followed");
    expect(existsSync(join(folder, "nowhere"))).toBe(false);
  });
});

describe("removeLockFolders", () => {
  it("removes a free lock and stolen ones that a killed thief left behind, and nothing else", async () => {
    const { folder, path, acquire } = await newLock();
    const lock = await acquire();
    mkdirSync(`${path}-stolen`);
    writeFileSync(join(`${path}-stolen`, "claim"), "");
    writeFileSync(join(folder, "note.txt"), "");
    removeLockFolders(folder, ".lock");
    expect(readdirSync(folder)).toEqual([".lock", "note.txt"]);
    lock.release();
    removeLockFolders(folder, ".lock");
    expect(readdirSync(folder)).toEqual(["note.txt"]);
  });
});
