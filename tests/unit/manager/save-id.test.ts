import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { CheckpointManager, encrypt, gzip, type SaveOptions, type StorageAdapter, type Transform } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";

const KEY = randomBytes(32);
const TRANSFORMS: Record<string, readonly Transform[]> = {
  plain: [],
  compressed: [gzip()],
  encrypted: [gzip(), encrypt({ keys: { k: KEY }, current: "k" })],
};

describe.each(Object.entries(TRANSFORMS))("save with an id, %s", (_name, transforms) => {
  const newManager = (storage: StorageAdapter = new MemoryAdapter()) => new CheckpointManager({ storage, transforms });

  it("returns the stored checkpoint when it is retried, and stores nothing", async () => {
    const storage = new MemoryAdapter();
    const manager = newManager(storage);
    const options = { id: "step-1", stage: "s", label: "l", metadata: { a: 1, b: [2] } };
    const first = await manager.save("t", { n: 1, at: new Date(5) }, options);
    expect(first.id).toBe("step-1");
    await manager.save("t", { n: 2 });
    await manager.setStatus("t", "step-1", "paused");

    // Another process saves later with its own expectation, because the answer to the first try was lost.
    const again = await newManager(storage).save("t", { n: 1, at: new Date(5) }, { ...options, expectedSequence: 0 });
    expect(again).toEqual({ ...first, status: "paused" });
    expect((await manager.list("t")).map(({ sequence }) => sequence)).toEqual([2, 1]);
  });

  it.each<[string, unknown, SaveOptions]>([
    ["state", { n: 2 }, {}],
    ["metadata", { n: 1 }, { metadata: { a: 2 } }],
    ["stage", { n: 1 }, { stage: "other" }],
    ["label", { n: 1 }, { label: "other" }],
    ["parentId", { n: 1 }, { parentId: "other" }],
  ])("refuses the id with another %s, and stores nothing", async (field, state, change) => {
    const manager = newManager();
    const options = { id: "step-1", stage: "s", label: "l", parentId: "p", metadata: { a: 1 } };
    const first = await manager.save("t", { n: 1 }, options);
    await expect(manager.save("t", state, { ...options, ...change })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
      message: expect.stringMatching(new RegExp(`exists already, with another ${field}.*Nothing was stored`)),
    });
    expect(await manager.list("t")).toEqual([first]);
    expect((await manager.latest("t"))?.state).toEqual({ n: 1 });
  });

  it("takes the same id in another task, and again once its checkpoint was removed", async () => {
    const manager = newManager();
    await manager.save("t", 1, { id: "a" });
    expect((await manager.save("u", 2, { id: "a" })).sequence).toBe(1);
    await manager.remove("t", "a");
    expect((await manager.save("t", 3, { id: "a" })).sequence).toBe(2);
  });
});

it("a save refuses an id that is empty or isn't text", async () => {
  const manager = new CheckpointManager({ storage: new MemoryAdapter() });
  await expect(manager.save("t", 1, { id: "" })).rejects.toThrow(/SaveOptions\.id must not be empty/);
  await expect(manager.save("t", 1, { id: 5 as unknown as string })).rejects.toThrow(
    /SaveOptions\.id must be a string/,
  );
});
