import { once } from "node:events";
import { mkdir, readFile, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { StorageError } from "waymark";
import { CheckpointRepository } from "waymark/oneshot";
import { type LockedFiles, withLockedFile } from "../../systems/locked-folder.js";
import { tempFolder } from "../support/temp-folder.js";
import { visibleIn } from "../support/visible-files.js";
import { paiFolder, SEED } from "./phase-checkpoints/pai-folder.js";

const OTHER = new URL("../fixtures/shared-lock/other-program.mjs", import.meta.url).pathname;
/** Older than a lock that still counts as held without a sign of life. */
const STALE = new Date(Date.now() - 60_000);

function otherProgram(what: "count" | "halves" | "hold", file: string, times = 0) {
  const run = execa(process.execPath, [OTHER, what, file, `${times}`]);
  onTestFinished(() => void run.kill("SIGKILL"));
  return run;
}

/** A program that took the file's lock and was killed. */
async function killedHolder(file: string): Promise<void> {
  const holder = otherProgram("hold", file);
  const ended = holder.catch(() => undefined);
  await once(holder.stdout, "data");
  holder.kill("SIGKILL");
  await ended;
}

function checkpoint(completedWs: readonly string[]) {
  const now = new Date();
  return {
    featureId: "F01",
    agentId: "a",
    status: "running",
    currentWs: "",
    startTime: now,
    lastUpdate: now,
    completedWs,
  } as const;
}

async function savedFeature() {
  const root = await tempFolder();
  const repository = new CheckpointRepository(root);
  await repository.save(checkpoint([]));
  return { repository, file: join(repository.checkpointDir, "F01.json") };
}

describe("beside a program that locks with proper-lockfile", () => {
  it("no write of seed.json is lost, on either side", async () => {
    const pai = await paiFolder(SEED);
    const counting = otherProgram("count", pai.seedPath, 60);
    let id = "";
    for (let i = 0; i < 20; i++) id = await pai.create();
    await counting;
    expect((await pai.seed()).state).toMatchObject({ count: 60, checkpointRef: id, note: "kept" });
    expect(pai.logger.lines).toEqual([]);
    expect(await visibleIn(pai.root)).toEqual(["checkpoints", "checkpoints.events.jsonl", "seed.json"]);
  });

  it("a feature's file is never seen half written", async () => {
    const { repository, file } = await savedFeature();
    const writing = otherProgram("halves", file, 60);
    for (let i = 1; i <= 20; i++) await repository.save(checkpoint(Array.from({ length: i }, (_, n) => `w${n}`)));
    await writing;
    expect((await repository.load("F01")).completedWs).toHaveLength(20);
    await repository.delete("F01");
    expect(await visibleIn(repository.checkpointDir)).toEqual([]);
  });

  it("saves of one process keep their order", async () => {
    const { repository, file } = await savedFeature();
    const writing = otherProgram("halves", file, 20);
    await Promise.all(["a", "b", "c", "d"].map((id) => repository.save(checkpoint([id]))));
    await writing;
    expect((await repository.load("F01")).completedWs).toEqual(["d"]);
  });

  it("a killed program's lock is waited for, and taken once it gave no sign of life for long enough", async () => {
    const { repository, file } = await savedFeature();
    await killedHolder(file);
    const saving = repository.save(checkpoint(["a"]));
    let isSaved = false;
    void saving.then(() => {
      isSaved = true;
    });
    // The pause is longer than a save.
    for (let i = 0; i < 200; i++) await stat(`${file}.lock`);
    expect(isSaved).toBe(false);

    await utimes(`${file}.lock`, STALE, STALE);
    await saving;
    expect((await repository.load("F01")).completedWs).toEqual(["a"]);
    expect(await visibleIn(repository.checkpointDir)).toEqual(["F01.json"]);
  });
});

describe("a lock that another program takes while it is held", () => {
  afterEach(() => void vi.useRealTimers());

  it.each<[string, (lock: LockedFiles, file: string) => Promise<unknown>]>([
    ["write", (lock, file) => lock.write(file, Buffer.from("new"))],
    ["removal", (lock, file) => lock.remove(file)],
  ])("fails the %s, which changes nothing, and the other one keeps its lock", async (_what, change) => {
    const file = join(await tempFolder(), "seed.json");
    await writeFile(file, "old");
    const changing = withLockedFile(file, ".lock", async (lock) => {
      await rmdir(`${file}.lock`);
      await mkdir(`${file}.lock`);
      await change(lock, file);
    });
    await expect(changing).rejects.toThrow(StorageError);
    await expect(changing).rejects.toMatchObject({
      retryable: true,
      message: expect.stringContaining(`The lock ${file}.lock was taken or removed by another program while ${file}`),
    });
    expect(await readFile(file, "utf8")).toBe("old");
    await stat(`${file}.lock`);
  });

  it("is also noticed by proper-lockfile's timer, which doesn't end the process", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const file = join(await tempFolder(), "seed.json");
    const changing = withLockedFile(file, ".lock", async (lock) => {
      await rmdir(`${file}.lock`);
      vi.advanceTimersByTime(5_000);
      // The timer checks the lock before these.
      for (let i = 0; i < 10; i++) await stat(join(file, ".."));
      await mkdir(`${file}.lock`);
      await lock.write(file, Buffer.from("new"));
    });
    await expect(changing).rejects.toMatchObject({ cause: { code: "ECOMPROMISED" } });
  });
});
