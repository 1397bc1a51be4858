import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { withLock } from "../../../../systems/locked-folder.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, draft, idsOf } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const stores = { "json-file": newJsonStore, "task-file": newTaskStore };
const NEWEST = { taskId: "t", order: "newest" } as const;
const refused = (path: string) => ({
  code: "STORAGE_FAILED",
  message: expect.stringContaining(`${path} is a symbolic link, which Waymark doesn't follow inside the store`),
});

/** Makes another program's folder with files named like Waymark's. Also returns its content. */
async function otherFolder() {
  const elsewhere = await tempFolder();
  mkdirSync(join(elsewhere, "theirs.files"));
  writeFileSync(join(elsewhere, "theirs.files", "precious"), "");
  writeFileSync(join(elsewhere, "1@host+0123456789abcdef-0"), "");
  const then = new Date(0);
  utimesSync(join(elsewhere, "1@host+0123456789abcdef-0"), then, then);
  return { elsewhere, held: () => readdirSync(elsewhere, { recursive: true }).toSorted() };
}

describe.each(Object.keys(stores) as (keyof typeof stores)[])("a link that was planted in a %s store", (kind) => {
  const repaired = { dryRun: false, leftoversOlderThanMs: 0 };

  it("is refused in the place of a task's lock, and its target is unchanged", async () => {
    const { root, adapter, open } = await stores[kind]();
    const { elsewhere, held } = await otherFolder();
    const before = held();
    await adapter.append(draft("t", "a1"));
    const lock = join(root, "t", ".lock");
    rmSync(lock, { recursive: true });
    symlinkSync(elsewhere, lock);
    for (const call of [
      () => adapter.append(draft("t", "a2")),
      () => open().append(draft("t", "a2")),
      () => open().setStatus("t", "a1", { status: "paused" }),
      () => open().remove("t", ["a1"]),
      () => open().remove("t", "all"),
      () => open().leases.claim("t", "us", 1_000),
    ]) {
      await expect(call()).rejects.toMatchObject(refused(lock));
    }
    const [checked, finding] = await collect(adapter.maintenance.verify({ quick: false }));
    expect(checked).toMatchObject({ kind: "checked", taskId: "t" });
    expect(finding).toMatchObject({ kind: "refused", taskId: "t", reason: refused(lock).message });
    const steps = await collect(adapter.maintenance.repair(repaired));
    expect(steps.map(({ action, finding }) => `${action} ${finding.kind}`)).toEqual(["left refused"]);
    expect(held()).toEqual(before);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a1"]);
  });

  it("is refused in the place of a task's folder, even after this process has saved there", async () => {
    const { root, adapter } = await stores[kind]();
    const { elsewhere, held } = await otherFolder();
    const before = held();
    await adapter.append(draft("t", "a1"));
    rmSync(join(root, "t"), { recursive: true });
    symlinkSync(elsewhere, join(root, "t"));
    await expect(adapter.append(draft("t", "a2"))).rejects.toMatchObject(refused(join(root, "t")));
    expect(held()).toEqual(before);
  });

  it.each([".quarantine", join(".quarantine", "t")])("is refused as %s, and the damage stays", async (name) => {
    const { root, adapter } = await stores[kind]();
    const elsewhere = await tempFolder();
    for (const id of ["a1", "a2"]) await adapter.append(draft("t", id));
    const [file = ""] = readdirSync(join(root, "t")).filter((entry) => entry.endsWith(".json"));
    const path = join(root, "t", file);
    writeFileSync(path, readFileSync(path, "utf8").replace('{"of":"a1"}', '{"of":"b1"}'));
    if (name !== ".quarantine") mkdirSync(join(root, ".quarantine"));
    symlinkSync(elsewhere, join(root, name));
    const damaged = readFileSync(path, "utf8");
    for (const dryRun of [true, false]) {
      const repairing = collect(adapter.maintenance.repair({ ...repaired, dryRun }));
      await expect(repairing).rejects.toMatchObject(refused(join(root, name)));
    }
    expect(readFileSync(path, "utf8")).toBe(damaged);
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  it("is refused as the file of a task's lease", async () => {
    const { root, adapter } = await stores[kind]();
    const elsewhere = join(await tempFolder(), "theirs.json");
    writeFileSync(elsewhere, '{"holder":"them","token":7,"renewedAtMs":0,"expiresAtMs":0}');
    await adapter.append(draft("t", "a1"));
    symlinkSync(elsewhere, join(root, "t", ".lease.json"));
    const claiming = adapter.leases.claim("t", "us", 1_000);
    await expect(claiming).rejects.toThrow("it is a symbolic link, which Waymark doesn't follow");
    expect(readFileSync(elsewhere, "utf8")).toContain("them");
  });
});

it("a link in the place of a system's lock is refused too", async () => {
  const folder = await tempFolder();
  const { elsewhere, held } = await otherFolder();
  const before = held();
  symlinkSync(elsewhere, join(folder, ".lock"));
  const writing = withLock(folder, ".lock", (lock) => lock.write(join(folder, "x"), new Uint8Array()));
  await expect(writing).rejects.toMatchObject(refused(join(folder, ".lock")));
  expect(held()).toEqual(before);
});
