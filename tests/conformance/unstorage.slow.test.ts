import { describe, expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { type CheckpointDraft, isCorrupt } from "waymark/adapter";
import {
  type ConformanceHarness,
  conformanceCases,
  registerConformance,
  runConformanceCase,
} from "waymark/conformance";
import type { KeyValueStorage } from "../../examples/custom-adapter/records.js";
import { UnstorageAdapter } from "../../examples/custom-adapter/unstorage-adapter.js";
import { tempFolder } from "../support/temp-folder.js";

/** Tests an adapter outside Waymark: examples/custom-adapter over unstorage's driver for folders. */
const harness: ConformanceHarness = {
  name: "unstorage",
  module: new URL("../../examples/custom-adapter/conformance-store.js", import.meta.url),
  capabilities: { durable: false, multiProcess: false },
  offers: ["log"],
  newLocation: tempFolder,
};

registerConformance({ describe, it }, harness);

// The adapter declares no capabilities, so the suite skips some cases. But this driver keeps its data without kills.
// The adapter must therefore also pass the cases about reopening and damage.
describe("unstorage in folders keeps more than it declares", () => {
  for (const one of conformanceCases) {
    if (one.replayed && one.about === undefined) {
      it(`${one.name}, reopened: ${one.promise}`, () => runConformanceCase(one, harness, "reopened"));
    }
    if (one.name.startsWith("corrupt.")) it(`${one.name}: ${one.promise}`, () => runConformanceCase(one, harness));
  }
});

describe("unstorage, if the driver fails", () => {
  const calls: Record<string, (adapter: StorageAdapter) => Promise<unknown>> = {
    append: (adapter) => adapter.append(draft("c3")),
    setStatus: (adapter) => adapter.setStatus("t", "c2", { status: "completed" }),
    remove: (adapter) => adapter.remove("t", ["c1", "c2"]),
    'remove of "all"': (adapter) => adapter.remove("t", "all"),
  };
  for (const [name, call] of Object.entries(calls)) {
    it(`${name} changes all or nothing, whichever of its writes fails, and can be called again`, async () => {
      const before = await stateAfter(async () => undefined);
      const after = await stateAfter(call);
      for (let failing = 1; ; failing++) {
        const { storage, adapter } = await twoCheckpoints();
        storage.writesUntilFailure = failing;
        const outcome = await call(adapter).then(
          () => undefined,
          (error: unknown) => error,
        );
        if (outcome === undefined) {
          expect(failing).toBeGreaterThan(1);
          return;
        }
        storage.writesUntilFailure = Number.POSITIVE_INFINITY;
        expect(outcome).toMatchObject({ code: "STORAGE_FAILED", cause: { message: "The disk is full." } });
        expect([before, after]).toContainEqual(await stateOf(adapter));
        await call(adapter);
        expect(await stateOf(adapter)).toEqual(after);
      }
    });
  }
});

describe("unstorage, with a task's index damaged", () => {
  for (const [damage, index] of Object.entries({
    "cut short": 'waymark-1 {"taskId":"t","lastSequence":2,"hea',
    "that of another program": '{"some":"json"}',
    "of another shape": 'waymark-1 {"taskId":"t","lastSequence":2,"headers":{}}',
    "that of another task": 'waymark-1 {"taskId":"u","lastSequence":0,"headers":[]}',
    emptied: "",
  })) {
    it(`(${damage}) reports it, writes nothing over it, and removes the task as a whole`, async () => {
      const { storage, adapter } = await twoCheckpoints();
      await adapter.append({ ...draft("c1"), taskId: "beside" });
      storage.values.set("waymark:tasks:x74", index);
      const corrupt = { corrupt: true, taskId: "t", location: "waymark:tasks:x74" };

      expect(await adapter.get("t", "c1")).toMatchObject(corrupt);
      expect(await collect(adapter.list({ taskId: "t", order: "newest" }))).toMatchObject([corrupt]);
      expect(await collect(adapter.read({ taskId: "t", order: "newest" }))).toMatchObject([corrupt]);
      expect(await collect(adapter.tasks({ order: "recent" }))).toMatchObject([corrupt, { taskId: "beside" }]);
      expect(await collect(adapter.tasks({ order: "taskId", prefix: "b" }))).toMatchObject([{ taskId: "beside" }]);
      const writes = await Promise.allSettled([
        adapter.append(draft("c3")),
        adapter.setStatus("t", "c1", { status: "paused" }),
        adapter.remove("t", ["c1"]),
        adapter.remove("t", "all", { expectedSequence: 2 }),
      ]);
      const refused = { status: "rejected", reason: { code: "CHECKPOINT_CORRUPT" } };
      expect(writes).toMatchObject([refused, refused, refused, refused]);
      expect(storage.values.get("waymark:tasks:x74")).toBe(index);

      expect(await adapter.remove("t", "all")).toBe(2);
      expect(await adapter.append(draft("anew"))).toBe(1);
    });
  }
});

/** A storage for the adapter, on a disk that can be full. */
class FailingStorage implements KeyValueStorage {
  readonly values = new Map<string, string>();
  writesUntilFailure = Number.POSITIVE_INFINITY;

  async getItem(key: string): Promise<string | null> {
    return this.values.get(key) ?? null;
  }

  async setItem(key: string, value: string): Promise<void> {
    this.#beforeWrite();
    this.values.set(key, value);
  }

  async removeItem(key: string): Promise<void> {
    this.#beforeWrite();
    this.values.delete(key);
  }

  async getKeys(base: string): Promise<string[]> {
    return [...this.values.keys()].filter((key) => key.startsWith(`${base}:`));
  }

  #beforeWrite(): void {
    this.writesUntilFailure -= 1;
    if (this.writesUntilFailure === 0) throw new Error("The disk is full.");
  }
}

async function twoCheckpoints(): Promise<{ storage: FailingStorage; adapter: StorageAdapter }> {
  const storage = new FailingStorage();
  const adapter = new UnstorageAdapter({ storage });
  await adapter.append(draft("c1"));
  await adapter.append(draft("c2"));
  return { storage, adapter };
}

async function stateAfter(call: (adapter: StorageAdapter) => Promise<unknown>): Promise<unknown> {
  const { adapter } = await twoCheckpoints();
  await call(adapter);
  return stateOf(adapter);
}

/** Reads everything of the task that a caller can see. */
async function stateOf(adapter: StorageAdapter): Promise<unknown> {
  const query = { taskId: "t", order: "oldest" } as const;
  const read = await collect(adapter.read(query));
  expect(read.filter(isCorrupt)).toEqual([]);
  return { read, list: await collect(adapter.list(query)), tasks: await collect(adapter.tasks({ order: "taskId" })) };
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

function draft(id: string): CheckpointDraft {
  const body = JSON.stringify({ id });
  return {
    taskId: "t",
    id,
    createdAt: "2026-11-21T00:00:00.000Z",
    status: "running",
    stateVersion: 1,
    sizeBytes: body.length,
    payload: { encoding: "json", body, sha256: id },
  };
}
