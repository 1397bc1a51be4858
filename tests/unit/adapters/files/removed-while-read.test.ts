import { describe, expect, it, onTestFinished, vi } from "vitest";
import { draft, idsOf } from "./drafts.js";
import { newJsonStore } from "./stores.js";

/** Called once, right before a file of the given id is opened. */
const meanwhile = vi.hoisted(() => ({ id: "", call: () => {} }));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const openSync: typeof real.openSync = (path, ...options) => {
    if (meanwhile.id !== "" && String(path).endsWith(`-${meanwhile.id}.json`)) {
      meanwhile.id = "";
      meanwhile.call();
    }
    return real.openSync(path, ...options);
  };
  return { ...real, openSync, default: { ...real, openSync } };
});

const NEWEST = { taskId: "t", order: "newest", limit: 1 } as const;

/** A task with checkpoint `a1`. When `a1` is about to be read, another process saves `a2` and removes `a1`. */
async function storeThatMovesOn() {
  const { root, adapter } = await newJsonStore();
  const { renameSync, unlinkSync } = await vi.importActual<typeof import("node:fs")>("node:fs");
  await adapter.append(draft("t", "a1"));
  await adapter.append(draft("t", "a2"));
  const [first, second] = [1, 2].map((n) => `${root}/t/${String(n).padStart(12, "0")}-a${n}.json`) as [string, string];
  renameSync(second, `${root}/aside`);
  onTestFinished(() => expect(meanwhile.id).toBe(""));
  Object.assign(meanwhile, {
    id: "a1",
    call: () => {
      renameSync(`${root}/aside`, second);
      unlinkSync(first);
    },
  });
  return adapter;
}

describe("a checkpoint that a newer one replaces while it is read", () => {
  it("doesn't hide the newer one from a list", async () => {
    const adapter = await storeThatMovesOn();
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a2"]);
  });

  it("doesn't hide the newer one from a read", async () => {
    const adapter = await storeThatMovesOn();
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["a2"]);
  });

  it("doesn't hide its task", async () => {
    const adapter = await storeThatMovesOn();
    const found: unknown[] = [];
    for await (const task of adapter.tasks({ order: "taskId" })) found.push(task);
    expect(found).toEqual([expect.objectContaining({ taskId: "t", newest: expect.objectContaining({ id: "a2" }) })]);
  });
});
