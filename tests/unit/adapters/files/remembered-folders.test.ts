import { readdirSync, rmSync, statSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { collect, draft, idsOf } from "./drafts.js";
import { newJsonStore } from "./stores.js";

/** The number of times that the folder of task `t` was listed. */
const listed = vi.hoisted(() => ({ times: 0 }));
/** While true, `build` also finds the folder `Build`, as on a case-insensitive disk. */
const disk = vi.hoisted(() => ({ foldsCase: false }));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const folded = (value: unknown) =>
    disk.foldsCase && typeof value === "string" ? value.replace(/\/build(?=\/|$)/, "/Build") : value;
  const calls = Object.entries(real).flatMap(([name, call]) =>
    typeof call === "function" && /^[a-z]/.test(name)
      ? [[name, (...args: unknown[]) => Reflect.apply(call, real, args.map(folded))]]
      : [],
  );
  const folding: typeof import("node:fs") = { ...real, ...Object.fromEntries(calls) };
  const list = (path: string, ...options: []) => {
    if (String(path).endsWith("/t")) listed.times += 1;
    return folding.readdirSync(path, ...options);
  };
  return { ...folding, readdirSync: list, default: real };
});

afterEach(() => {
  listed.times = 0;
  disk.foldsCase = false;
});

const NEWEST = { taskId: "t", order: "newest" } as const;

describe("a json-file adapter that remembers a folder's content", () => {
  it("lists the folder once for any number of its own saves and reads", async () => {
    const { adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    listed.times = 0;
    for (const id of ["a2", "a3", "a4"]) {
      await adapter.append(draft("t", id));
      expect(await idsOf(adapter.list({ ...NEWEST, limit: 1 }))).toEqual([id]);
      expect(await adapter.get("t", "a1")).toMatchObject({ id: "a1" });
      await adapter.setStatus("t", id, { status: "paused" });
    }
    expect(listed.times).toBe(0);
  });

  it("lists it once while leases of the task are claimed, renewed and released", async () => {
    const { adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    listed.times = 0;
    for (let round = 1; round <= 3; round++) {
      const { token } = await adapter.leases.claim("t", "us", 60_000);
      await adapter.append(draft("t", `b${round}`), { fencingToken: token });
      await adapter.leases.renew("t", token, 60_000);
      expect(await idsOf(adapter.list({ ...NEWEST, limit: 1 }))).toEqual([`b${round}`]);
      await adapter.leases.release("t", token);
    }
    expect(listed.times).toBe(0);
  });

  it("sees another adapter's saves and removals, even in the same tick of the clock", async () => {
    const { root, adapter, open } = await newJsonStore();
    const folder = join(root, "t");
    const other = open();
    for (const id of ["a1", "a2"]) await adapter.append(draft("t", id));
    const { mtime } = statSync(folder);
    await other.append(draft("t", "b3"));
    await other.append(draft("t", "b4"));
    await other.remove("t", ["b3"]);
    utimesSync(folder, mtime, mtime);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["b4", "a2", "a1"]);
    expect(await adapter.append(draft("t", "a5"))).toBe(5);
    utimesSync(folder, mtime, mtime);
    expect(await other.append(draft("t", "b6"))).toBe(6);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["b6", "a5", "b4", "a2", "a1"]);
  });

  it("numbers the saves of one process by two paths to one folder", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "first"));
    symlinkSync(root, `${root}-link`);
    onTestFinished(() => unlinkSync(`${root}-link`));
    const other = new JsonFileAdapter({ path: `${root}-link` });
    const sequences = new Set<number>();
    for (let n = 0; n < 100; n++) {
      const both = [adapter.append(draft("t", `a${n}`)), other.append(draft("t", `b${n}`))];
      for (const sequence of await Promise.all(both)) sequences.add(sequence);
    }
    expect(sequences.size).toBe(200);
    await other.close();
  });

  it("refuses a task whose name differs only in case, on a case-insensitive disk", async () => {
    disk.foldsCase = true;
    const { adapter } = await newJsonStore();
    await adapter.append(draft("Build", "a1"));
    for (const call of [
      () => adapter.get("build", "a1"),
      () => collect(adapter.list({ taskId: "build", order: "newest" })),
      () => collect(adapter.read({ taskId: "build", order: "newest" })),
      () => adapter.append(draft("build", "b1")),
      () => adapter.setStatus("build", "a1", { status: "paused" }),
      () => adapter.remove("build", ["a1"]),
      () => adapter.remove("build", "all"),
    ]) {
      await expect(call()).rejects.toMatchObject({
        code: "STORAGE_FAILED",
        message: expect.stringContaining('belongs to task "Build", but is in another task\'s folder'),
      });
      expect(await adapter.append(draft("Build", "a1"))).toBe(1);
    }
    expect(await idsOf(adapter.list({ taskId: "Build", order: "newest" }))).toEqual(["a1"]);
  });

  it("sees changes made by hand", async () => {
    const { root, adapter } = await newJsonStore();
    for (const id of ["a1", "a2"]) await adapter.append(draft("t", id));
    rmSync(join(root, "t", "000000000002-a2.json"));
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a1"]);
    writeFileSync(join(root, "t", "000000000007-x.json"), "");
    expect(await adapter.append(draft("t", "a3"))).toBe(8);
  });

  it("doesn't trust a folder's time if it is too new to reveal the next change", async () => {
    const { root, open, adapter } = await newJsonStore();
    const reader = open();
    await adapter.append(draft("t", "a1"));
    expect(await idsOf(reader.list(NEWEST))).toEqual(["a1"]);
    const { mtime } = statSync(join(root, "t"));
    await adapter.append(draft("t", "a2"));
    utimesSync(join(root, "t"), mtime, mtime);
    expect(await idsOf(reader.list(NEWEST))).toEqual(["a2", "a1"]);
  });

  it("reads the folder again if another process removed the task and it exists again", async () => {
    const { adapter, open } = await newJsonStore();
    for (const id of ["a1", "a2"]) await adapter.append(draft("t", id));
    await open().remove("t", "all");
    expect(await collect(adapter.list(NEWEST))).toEqual([]);
    expect(await adapter.append(draft("t", "b1"))).toBe(1);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["b1"]);
  });

  it("continues correctly after a refused save", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    await expect(adapter.append(draft("t", "a1", { body: "7" }))).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
    });
    expect(await adapter.append(draft("t", "a2"))).toBe(2);
    expect(readdirSync(join(root, "t")).filter((name) => name.endsWith(".json"))).toHaveLength(2);
  });
});
