import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { draft } from "../../../conformance/drafts.js";
import { tempFolder } from "../../support/temp-folder.js";
import { collect, listed, newStore, openAdapter, spyingDriver } from "./sqlite-support.js";

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/${name}`, import.meta.url));

/** Deletes the log, and the shared memory beside it. */
function removeLog(path: string): void {
  for (const end of ["-wal", "-shm"]) rmSync(`${path}${end}`);
}

/** The same while the process that uses both files is stopped, so that no call of its own comes in between. */
async function removeLogOf(writer: ChildProcess, path: string): Promise<void> {
  writer.kill("SIGSTOP");
  while (!/^State:\s+T/m.test(readFileSync(`/proc/${writer.pid}/status`, "utf8"))) await nextTurn();
  removeLog(path);
  writer.kill("SIGCONT");
}

/** The records that a fresh process finds if this one is killed now. */
async function afterKill(path: string): Promise<string[]> {
  const copy = join(await tempFolder(), "copy.db");
  for (const end of ["", "-wal"]) if (existsSync(`${path}${end}`)) cpSync(`${path}${end}`, `${copy}${end}`);
  const adapter = openAdapter({ path: copy });
  const findings = await collect(adapter.maintenance.verify({ quick: false }));
  expect(findings.filter(({ kind }) => kind !== "checked")).toEqual([]);
  return listed(adapter);
}

/** A process that saves x-1, x-2 … until it is killed. Resolves once it has saved. */
async function otherWriter(path: string): Promise<ChildProcess> {
  const writer = spawn(process.execPath, [fixture("sqlite-append-until-killed.mjs"), path, "x"]);
  onTestFinished(() => void writer.kill("SIGKILL"));
  await once(writer.stdout, "data");
  return writer;
}

async function killed(writer: ChildProcess): Promise<void> {
  writer.kill("SIGKILL");
  await once(writer, "exit");
}

/** better-sqlite3 at another path, which counts as another library in a process. Returns a file that resolves to it. */
async function otherLibrary(): Promise<string> {
  const packages = join(await tempFolder(), "node_modules");
  const installed = join(createRequire(import.meta.url).resolve("better-sqlite3/package.json"), "..", "..");
  for (const name of [
    "better-sqlite3/package.json",
    "better-sqlite3/lib",
    "better-sqlite3/build/Release",
    "bindings",
    "file-uri-to-path",
  ]) {
    mkdirSync(join(packages, name, ".."), { recursive: true });
    cpSync(join(installed, name), join(packages, name), { recursive: true });
  }
  return join(packages, "here.js");
}

describe("a save that is acknowledged after the log is gone", () => {
  it.each(["-wal,-shm", "-wal", "library"])("survives SIGKILL, with all earlier ones: %s", async (how) => {
    const path = join(await tempFolder(), "checkpoints.db");
    const child = spawn(process.execPath, [fixture("sqlite-lose-log.mjs"), path, how, await otherLibrary()], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const acknowledged = await collect(createInterface({ input: child.stdout }));
    if (child.signalCode === null) await once(child, "exit");
    expect(child.signalCode).toBe("SIGKILL");
    expect(acknowledged).toHaveLength(12);
    const adapter = openAdapter({ path });
    expect(await listed(adapter)).toEqual(acknowledged.reverse());
    const findings = await collect(adapter.maintenance.verify({ quick: false }));
    expect(findings.filter(({ kind }) => kind !== "checked")).toEqual([]);
  });

  it("is in the database if the log is deleted in the middle of the save", async () => {
    const moments: string[] = [];
    const running = (sql: string) => {
      if (sql !== "COMMIT" || moments.shift() !== "now") return;
      removeLog(path);
    };
    const { adapter, path } = await newStore({ driver: spyingDriver({ running }) });
    await adapter.append(draft("t", "c1"));
    moments.push("now");
    await adapter.append(draft("t", "c2"));
    expect(await afterKill(path)).toEqual(["c2", "c1"]);
  });

  const changes = {
    append: (adapter) => adapter.append(draft("t", "c2")),
    setStatus: (adapter) => adapter.setStatus("t", "c1", { status: "paused" }),
    replacePayload: (adapter) => {
      const [{ payload }, before] = [draft("t", "c1", { body: '"other"' }), draft("t", "c1").payload];
      return adapter.replacePayload("t", "c1", payload, before.sha256);
    },
    remove: (adapter) => adapter.remove("t", ["c1"]),
    removePrefix: (adapter) => adapter.removePrefix("t"),
    lease: (adapter) => adapter.leases.claim("t", "holder", 60_000),
  } satisfies Record<string, (adapter: ReturnType<typeof openAdapter>) => Promise<unknown>>;
  it.each(Object.entries(changes))("survives for each kind of change: %s", async (_name, change) => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c0"));
    await adapter.append(draft("t", "c1"));
    removeLog(path);
    await change(adapter);
    const [found, lease] = [
      await collect(adapter.read({ taskId: "t", order: "newest" })),
      await adapter.leases.current("t"),
    ];
    await afterKill(path);
    const copy = join(await tempFolder(), "copy.db");
    for (const end of ["", "-wal"]) cpSync(`${path}${end}`, `${copy}${end}`);
    const fresh = openAdapter({ path: copy });
    expect(await collect(fresh.read({ taskId: "t", order: "newest" }))).toEqual(found);
    expect((await fresh.leases.current("t"))?.token).toBe(lease?.token);
  });

  it("survives if another adapter of the process has the same database open", async () => {
    const { adapter, path } = await newStore();
    const other = openAdapter({ path });
    await adapter.append(draft("t", "c1"));
    await other.append(draft("t", "c2"));
    removeLog(path);
    const late = openAdapter({ path });
    expect(await listed(late)).toEqual(["c2", "c1"]);
    await other.append(draft("t", "c3"));
    await adapter.append(draft("t", "c4"));
    expect(await afterKill(path)).toEqual(["c4", "c3", "c2", "c1"]);
    const writer = await otherWriter(path);
    await adapter.append(draft("t", "c5"));
    await killed(writer);
    expect((await listed(other)).filter((id) => id.startsWith("c"))).toEqual(["c5", "c4", "c3", "c2", "c1"]);
  });
});

const noProc = process.platform === "linux" ? undefined : "only Linux shows in /proc whether a process has stopped";

describe.skipIf(noProc !== undefined)(
  `another process that begins a new log${noProc ? ` (skipped: ${noProc})` : ""}`,
  () => {
    it("causes a typed error, then keeps its saves and all earlier ones", async () => {
      const { adapter, path } = await newStore();
      await adapter.append(draft("t", "c1"));
      const writer = await otherWriter(path);
      await removeLogOf(writer, path);
      // The process finds that its log is gone, copies it, and begins another one.
      while (!existsSync(`${path}-wal`) || statSync(`${path}-wal`).size === 0) await once(writer.stdout!, "data");
      await once(writer.stdout!, "data");
      await killed(writer);
      await expect(listed(adapter)).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
      const ids = await listed(adapter);
      expect(ids.at(-1)).toBe("c1");
      expect(ids[0]).toMatch(/^x-/);
      await adapter.append(draft("t", "c2"));
      expect(await afterKill(path)).toEqual(["c2", ...ids]);
    });

    it("without the old one causes a typed error that says what may be lost, and the next call works", async () => {
      const { adapter, path } = await newStore();
      await adapter.append(draft("t", "c1"));
      removeLog(path);
      await otherWriter(path);
      await expect(listed(adapter)).rejects.toMatchObject({
        code: "STORAGE_FAILED",
        message: expect.stringMatching(/-wal was removed or replaced.*new log.*may be lost.*waymark verify/),
      });
      expect(await listed(adapter)).not.toContain("c1");
    });
  },
);

describe("a database that is removed or replaced", () => {
  it("is created again by the very next save", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`);
    expect(await adapter.append(draft("t", "c2"))).toBe(1);
    expect(await afterKill(path)).toEqual(["c2"]);
    rmSync(path);
    expect(await adapter.append(draft("t", "c3"))).toBe(1);
    expect(await afterKill(path)).toEqual(["c3"]);
  });

  it("gets changes of its own checkpoints, not of the former database's", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    const { adapter: other, path: otherPath } = await newStore();
    await other.append(draft("t", "other"));
    await other.close();
    renameSync(otherPath, path);
    expect(await adapter.setStatus("t", "c1", { status: "paused" })).toBe(false);
    expect(await adapter.append(draft("t", "c2"))).toBe(2);
    expect(await afterKill(path)).toEqual(["c2", "other"]);
  });
});

it("the log of a burst is truncated once it is copied", async () => {
  const { adapter, path } = await newStore({ durability: "normal" });
  const body = JSON.stringify("x".repeat(9_000_000));
  await adapter.append(draft("t", "large", { body }));
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(8_900_000);
  for (let number = 1; number <= 4; number++) await adapter.append(draft("t", `c${number}`));
  expect(statSync(`${path}-wal`).size).toBeLessThan(5_000_000);
});

it("a moved database has all its saves", async () => {
  const { adapter, path, folder } = await newStore();
  await adapter.append(draft("t", "c1"));
  renameSync(path, join(folder, "moved.db"));
  expect(await adapter.append(draft("t", "c2"))).toBe(1);
  expect(await listed(openAdapter({ path: join(folder, "moved.db") }))).toContain("c1");
  expect(await afterKill(path)).toEqual(["c2"]);
});

it("a database that is opened through a link has its log beside the link's target", async () => {
  const { adapter, path, folder } = await newStore();
  await adapter.append(draft("t", "c1"));
  symlinkSync(path, join(folder, "link.db"));
  let opened = 0;
  const linked = openAdapter({
    path: join(folder, "link.db"),
    driver: spyingDriver({ opening: () => void opened++ }),
  });
  await linked.append(draft("t", "c2"));
  expect(await listed(linked)).toEqual(["c2", "c1"]);
  expect(opened).toBe(1);
});
