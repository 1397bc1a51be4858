import { readdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { describe, expect, it } from "vitest";
import { isBeingRun, isStillBeingRun, RunLock, runLockPath } from "../../../systems/run-lock.js";
import { bundled } from "../../support/bundled.mjs";
import { deferred } from "../../support/deferred.js";
import { tempFolder } from "../../support/temp-folder.js";
import { WatchedSink } from "./processes.js";

const HOLDER = fileURLToPath(await bundled("tests/fixtures/processes/hold-lock.mjs"));

async function lockOf(taskId = "t") {
  const folder = await tempFolder();
  return { folder, path: runLockPath(join(folder, "session"), taskId) };
}

async function taken(path: string): Promise<RunLock> {
  const lock = await RunLock.take(path);
  if (lock === undefined) throw new Error("somebody else has the lock");
  return lock;
}

describe("a task's lock", () => {
  it("is held until its release, and leaves nothing behind", async () => {
    const { folder, path } = await lockOf();
    expect(isBeingRun(path)).toBe(false);
    const lock = await taken(path);
    await lock.claim(() => expect.unreachable());

    expect(isBeingRun(path)).toBe(true);
    expect(await RunLock.take(path)).toBeUndefined();
    lock.release();
    expect(isBeingRun(path)).toBe(false);
    expect(await readdir(join(folder, "session"))).toEqual([]);
  });

  it("is free once the forked children of a killed run have called exec", async () => {
    const { path } = await lockOf();
    const lock = await taken(path);
    expect(await isStillBeingRun(path)).toBe(true);
    const looked = isStillBeingRun(path);
    lock.release();
    expect(await looked).toBe(false);
  });

  it("has its own path for each task, whatever the task's name", async () => {
    expect(runLockPath("s", "a")).toBe(resolve(runLockPath("s", "a")));
    const paths = ["a", "A", "../a", "a/b", "x".repeat(512)].map((task) => runLockPath("/s", task));

    expect(new Set(paths).size).toBe(paths.length);
    for (const path of paths) expect(path).toMatch(/^\/s\/\.running-[0-9a-f]{32}$/);
  });

  it("that another process holds is held until that one is killed, and then taken over at once", async () => {
    const { path } = await lockOf();
    const holder = execa(process.execPath, [HOLDER, path], { reject: false, lines: true });
    await holder.iterable().next();
    expect(isBeingRun(path)).toBe(true);
    expect(await RunLock.take(path)).toBeUndefined();
    holder.kill("SIGKILL");
    await holder;

    expect(isBeingRun(path)).toBe(false);
    const lock = await taken(path);
    await lock.claim(() => expect.unreachable());
    lock.release();
  });

  it("of a killed run is claimed only when no process of that run's command is left", async () => {
    const { folder, path } = await lockOf();
    // The command ends only when the test says so.
    const command = "mkfifo go; trap 'cat go; exit' TERM; sh -c 'echo ready; exec sleep 1000' & wait";
    const holder = execa(process.execPath, [HOLDER, path, folder, command], { reject: false });
    const output = new WatchedSink();
    holder.stdout.on("data", (chunk: Buffer) => output.write(chunk));
    await output.until(/ready/);
    holder.kill("SIGKILL");
    await holder;
    const lock = await taken(path);
    expect(isBeingRun(path)).toBe(true);
    const waits = deferred();
    let isClaimed = false;
    const claimed = lock.claim(waits.resolve).then(() => {
      isClaimed = true;
    });
    await waits.promise;
    expect(isClaimed).toBe(false);
    await writeFile(join(folder, "go"), "");

    await claimed;
    lock.release();
  });

  it("that was taken but not claimed stays in its place, because another run may have taken it too", async () => {
    const { folder, path } = await lockOf();
    (await taken(path)).release();

    expect(isBeingRun(path)).toBe(false);
    expect(await readdir(join(folder, "session"))).toHaveLength(1);
  });

  it("can be taken while another run releases it", async () => {
    const { path } = await lockOf();
    const takeAndRelease = async () => {
      for (let turn = 0; turn < 6; turn++) {
        const lock = await RunLock.take(path);
        if (lock === undefined) continue;
        await lock.claim(() => undefined);
        lock.release();
      }
    };
    await Promise.all([takeAndRelease(), takeAndRelease(), takeAndRelease(), takeAndRelease()]);
  });

  it("is a typed error if it can't be made", async () => {
    const folder = await tempFolder();
    await writeFile(join(folder, "file"), "");

    await expect(RunLock.take(join(folder, "file", "x"))).rejects.toMatchObject({ code: "STORAGE_FAILED" });
    const path = join(folder, "file");
    await expect(RunLock.take(path)).rejects.toThrow(
      `The lock ${path} can't be used: File exists. Nothing was run, and`,
    );
    const below = join(path, "x");
    await expect(RunLock.take(below)).rejects.toThrow(`The lock ${below} can't be used: Not a directory. Nothing`);
  });
});
