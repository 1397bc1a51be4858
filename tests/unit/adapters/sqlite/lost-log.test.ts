import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { draft } from "../../../../conformance/drafts.js";
import { record } from "../../../../conformance/records.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, listed, newStore, openAdapter, spyingDriver } from "./support.js";

const fixture = (name: string) => fileURLToPath(new URL(`../../../fixtures/${name}`, import.meta.url));

/** Deletes the log and its shared memory. */
function removeLog(path: string): void {
  for (const end of ["-wal", "-shm"]) rmSync(`${path}${end}`);
}

/** Returns the records that a new process finds if this process is killed now. */
async function afterKill(path: string): Promise<string[]> {
  const copy = join(await tempFolder(), "copy.db");
  for (const end of ["", "-wal"]) if (existsSync(`${path}${end}`)) cpSync(`${path}${end}`, `${copy}${end}`);
  const adapter = openAdapter({ path: copy });
  const findings = await collect(adapter.maintenance.verify({ quick: false }));
  expect(findings.filter(({ kind }) => kind !== "checked")).toEqual([]);
  return listed(adapter);
}

/** Starts a process that saves x-1, x-2 … until it is killed. Resolves after its first save. */
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

/** Copies better-sqlite3 to another path, so that it counts as another library in a process. */
async function otherLibrary(): Promise<
  new (
    path: string,
  ) => { prepare(sql: string): { get(): unknown }; close(): void }
> {
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
  return createRequire(join(packages, "here.js"))("better-sqlite3");
}

const DELETED = {
  code: "STORAGE_FAILED",
  retryable: true,
  message: expect.stringMatching(/was deleted or replaced.*verify/),
};

describe("a change after the log was deleted", () => {
  const changes = {
    append: (adapter) => adapter.append(draft("t", "c2")),
    appendRecords: (adapter) => adapter.log.append("t", [record("r")]),
    setStatus: (adapter) => adapter.setStatus("t", "c1", { status: "paused" }),
    replacePayload: (adapter) => {
      const [{ payload }, before] = [draft("t", "c1", { body: '"other"' }), draft("t", "c1").payload];
      return adapter.replacePayload("t", "c1", payload, before.sha256);
    },
    remove: (adapter) => adapter.remove("t", ["c1"]),
    removePrefix: (adapter) => adapter.removePrefix("t"),
    lease: (adapter) => adapter.leases.claim("t", "holder", 60_000),
  } satisfies Record<string, (adapter: ReturnType<typeof openAdapter>) => Promise<unknown>>;
  it.each(Object.entries(changes))(
    "isn't acknowledged, and the next one survives a kill: %s",
    async (_name, change) => {
      const { adapter, path } = await newStore();
      await adapter.append(draft("t", "c1"));
      removeLog(path);
      await expect(change(adapter)).rejects.toMatchObject(DELETED);
      await adapter.append(draft("u", "next"));
      expect(await afterKill(path)).toEqual(await listed(adapter));
      expect(await collect(adapter.read({ taskId: "u", order: "newest" }))).toHaveLength(1);
    },
  );

  it("isn't acknowledged if the log is deleted in the middle of it", async () => {
    const moments: string[] = [];
    const running = (sql: string) => {
      if (sql !== "COMMIT" || moments.shift() !== "now") return;
      removeLog(path);
    };
    const { adapter, path } = await newStore({ driver: spyingDriver({ running }) });
    await adapter.append(draft("t", "c1"));
    moments.push("now");
    await expect(adapter.append(draft("t", "c2"))).rejects.toMatchObject(DELETED);
  });

  it("isn't acknowledged if another SQLite library of the process has closed the database", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    const database = new (await otherLibrary())(path);
    database.prepare("SELECT count(*) FROM waymark_tasks").get();
    database.close();
    await expect(adapter.append(draft("t", "c2"))).rejects.toMatchObject(DELETED);
    await adapter.append(draft("t", "c3"));
    expect((await afterKill(path))[0]).toBe("c3");
  });

  it("closes every connection of the process to it", async () => {
    const { adapter, path } = await newStore();
    const other = openAdapter({ path });
    await adapter.append(draft("t", "c1"));
    await other.append(draft("t", "c2"));
    removeLog(path);
    await expect(other.append(draft("t", "c3"))).rejects.toMatchObject(DELETED);
    await adapter.append(draft("t", "c4"));
    await other.append(draft("t", "c5"));
    expect((await afterKill(path)).slice(0, 2)).toEqual(["c5", "c4"]);
  });
});

describe("a database that is removed or replaced", () => {
  it("isn't written to, and the next save creates it again", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`);
    await expect(adapter.append(draft("t", "c2"))).rejects.toMatchObject(DELETED);
    expect(await adapter.append(draft("t", "c2"))).toBe(1);
    expect(await afterKill(path)).toEqual(["c2"]);
  });

  it("leaves the log of the one in its place alone", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    const { adapter: other, path: otherPath } = await newStore();
    await other.append(draft("t", "other"));
    await other.close();
    removeLog(path);
    renameSync(otherPath, path);
    const writer = await otherWriter(path);
    await expect(adapter.append(draft("t", "c2"))).rejects.toMatchObject(DELETED);
    await killed(writer);
    const found = await listed(openAdapter({ path }));
    expect(found.at(-1)).toBe("other");
    expect(found.length).toBeGreaterThan(1);
    expect(await adapter.append(draft("t", "c3"))).toBe(found.length + 1);
  });
});

it("a moved database has all its saves", async () => {
  const { adapter, path, folder } = await newStore();
  await adapter.append(draft("t", "c1"));
  await adapter.close();
  renameSync(path, join(folder, "moved.db"));
  expect(await listed(openAdapter({ path: join(folder, "moved.db") }))).toEqual(["c1"]);
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
