import { describe, expect, it, onTestFinished, vi } from "vitest";
import { draft, idsOf } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

/** Steps of another process. Each is done right before the next matching call, in this order. */
const meanwhile = vi.hoisted(() => ({ steps: [] as { call: string; path: RegExp; step: () => void }[] }));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const spied = <Args extends readonly unknown[], Result>(call: string, run: (...args: Args) => Result) => {
    return (...args: Args): Result => {
      const [next] = meanwhile.steps;
      if (next?.call === call && next.path.test(String(args[0]))) meanwhile.steps.shift()?.step();
      return run(...args);
    };
  };
  const fs = {
    ...real,
    openSync: spied("open", real.openSync),
    readdirSync: spied("readdir", real.readdirSync),
    unlinkSync: spied("unlink", real.unlinkSync),
  };
  return { ...fs, default: fs };
});

const { cpSync, renameSync, rmSync, unlinkSync } = await vi.importActual<typeof import("node:fs")>("node:fs");

type Store = Awaited<ReturnType<typeof newJsonStore | typeof newTaskStore>>;
type Call = (adapter: Store["adapter"]) => Promise<unknown>;

/** Calls, with their results if the task has the checkpoint `a1` and if there is no task. */
const CALLS: [string, Call, unknown, unknown][] = [
  ["removeTask", (adapter) => adapter.remove("t", "all"), 1, 0],
  ["remove", (adapter) => adapter.remove("t", ["a1"]), 1, 0],
  ["setStatus", (adapter) => adapter.setStatus("t", "a1", { status: "completed" }), true, false],
  ["a save", (adapter) => adapter.append(draft("t", "a2")), 2, 1],
  ["a repeated save", (adapter) => adapter.append(draft("t", "a1")), 1, 1],
];
const IN_LOCK = /[.]lock./;

/** Makes a task with the checkpoint `a1`, and the actions that another process may take on it. */
async function sharedTask(make: () => Promise<Store>) {
  const { root, adapter } = await make();
  await adapter.append(draft("t", "a1"));
  const [folder, copy] = [`${root}/t`, `${root}/../copy`];
  cpSync(folder, copy, { recursive: true });
  onTestFinished(() => expect(meanwhile.steps).toEqual([]));
  return {
    adapter,
    remove: () => rmSync(folder, { recursive: true }),
    removeLock: () => rmSync(`${folder}/.lock`, { recursive: true }),
    beginAgain: () => cpSync(copy, folder, { recursive: true }),
  };
}

describe.each<[string, () => Promise<Store>]>([
  ["json-file", newJsonStore],
  ["task-file", newTaskStore],
])("%s, beside another process", (_kind, make) => {
  it.each(CALLS)("%s takes the lock of a task that is removed and begun again", async (_name, call, result) => {
    const { adapter, remove, beginAgain } = await sharedTask(make);
    meanwhile.steps = [
      { call: "open", path: IN_LOCK, step: remove },
      // The lock's folder couldn't be made, so the claim is cleaned up.
      { call: "unlink", path: IN_LOCK, step: beginAgain },
    ];
    expect(await call(adapter)).toBe(result);
  });

  it.each(CALLS)("%s takes a lock whose folder is removed twice", async (_name, call, result) => {
    const { adapter, removeLock } = await sharedTask(make);
    meanwhile.steps = [
      { call: "open", path: IN_LOCK, step: removeLock },
      { call: "open", path: IN_LOCK, step: removeLock },
    ];
    expect(await call(adapter)).toBe(result);
  });

  it.each(CALLS)("%s takes a lock that is stolen at the same moment", async (_name, call, result) => {
    const { adapter, removeLock } = await sharedTask(make);
    meanwhile.steps = [{ call: "readdir", path: /[.]lock$/, step: removeLock }];
    expect(await call(adapter)).toBe(result);
  });

  it.each(CALLS)("%s takes the lock of a task that is gone", async (_name, call, _result, none) => {
    const { adapter, remove } = await sharedTask(make);
    meanwhile.steps = [{ call: "open", path: IN_LOCK, step: remove }];
    expect(await call(adapter)).toBe(none);
  });

  it.each<[string, Call, unknown]>([
    ["removeTask", (adapter) => adapter.remove("t", "all"), 0],
    ["a repeated save", (adapter) => adapter.append(draft("t", "a1")), 1],
  ])("%s starts over if a person deletes the folder before its last sync", async (_name, call, result) => {
    const { adapter, remove } = await sharedTask(make);
    meanwhile.steps = [{ call: "open", path: /store.t$/, step: remove }];
    expect(await call(adapter)).toBe(result);
  });

  it("a save succeeds even if the task is removed right after its commit", async () => {
    const { root, adapter, open } = await make();
    await adapter.append(draft("t", "a1"));
    onTestFinished(() => expect(meanwhile.steps).toEqual([]));
    // The folder is opened for its sync.
    meanwhile.steps = [{ call: "open", path: /store.t$/, step: () => rmSync(`${root}/t`, { recursive: true }) }];
    expect(await adapter.append(draft("t", "a2"))).toBe(2);
    expect(await adapter.append(draft("t", "b1"))).toBe(1);
    expect(await open().get("t", "b1")).toMatchObject({ sequence: 1 });
  });
});

const NEWEST = { taskId: "t", order: "newest", limit: 1 } as const;

/** A task with checkpoint `a1`. When `a1` is about to be read, another process saves `a2` and removes `a1`. */
async function storeThatMovesOn() {
  const { root, adapter } = await newJsonStore();
  await adapter.append(draft("t", "a1"));
  await adapter.append(draft("t", "a2"));
  const [first, second] = [1, 2].map((n) => `${root}/t/${String(n).padStart(12, "0")}-a${n}.json`) as [string, string];
  renameSync(second, `${root}/aside`);
  onTestFinished(() => expect(meanwhile.steps).toEqual([]));
  const step = () => {
    renameSync(`${root}/aside`, second);
    unlinkSync(first);
  };
  meanwhile.steps = [{ call: "open", path: /-a1[.]json$/, step }];
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
