import { afterEach, describe, expect, it, vi } from "vitest";
import { CheckpointError, type StorageAdapter, StorageError } from "waymark";
import { arm, faults } from "../../../support/failing-fs.js";
import { collect, draft, idsOf, isWhole } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const OLDEST = { taskId: "t", order: "oldest" } as const;

vi.mock("node:fs", async (original) => {
  const { failingFs } = await import("../../../support/failing-fs.js");
  return failingFs(await original());
});

afterEach(() => arm(0));

const stores = { "json-file": newJsonStore, "task-file": newTaskStore };

const writes: Record<string, (adapter: StorageAdapter) => Promise<unknown>> = {
  "a first save": (adapter) => adapter.append(draft("new", "b1")),
  "a save": (adapter) => adapter.append(draft("t", "a3")),
  "a repeated save": (adapter) => adapter.append(draft("t", "a2")),
  "a change of status": (adapter) => adapter.setStatus("t", "a2", { status: "paused" }),
  "a removal of the newest": (adapter) => adapter.remove("t", ["a2"]),
  "a removal of the task": (adapter) => adapter.remove("t", "all"),
};

describe.each(Object.entries(stores))("%s, if a call of the file system fails", (_kind, make) => {
  it.each(Object.entries(writes))("in %s, harms no saved checkpoint, and reports it", async (what, write) => {
    for (let failing = 1; ; failing++) {
      const { adapter, open } = await make({ lockTimeoutMs: 0 });
      for (const id of ["a1", "a2"]) await adapter.append(draft("t", id));
      await adapter.append(draft("other", "x"));

      arm(failing);
      const outcome = await write(adapter).then(
        () => undefined,
        (error: unknown) => error,
      );
      const { calls, names } = faults;
      arm(0);

      const where = `call ${failing}, ${names[failing - 1]}`;
      if (outcome !== undefined) {
        expect(outcome, where).toBeInstanceOf(StorageError);
        expect((outcome as Error).message, where).toContain("earlier checkpoints are intact");
      }
      const stored = await collect(open().read(OLDEST));
      expect(
        stored.filter((record) => !("seal" in record && isWhole(record))),
        where,
      ).toEqual([]);
      if (!what.includes("removal")) {
        expect(stored.map(({ id }) => id).slice(0, 2), where).toEqual(["a1", "a2"]);
      }
      expect(await idsOf(open().list({ taskId: "other", order: "oldest" })), where).toEqual(["x"]);

      // The lock is free again, and the failed call can be repeated.
      await write(adapter);
      expect(await open().append(draft("t", "after")), where).toBeGreaterThan(0);
      if (calls < failing) return;
    }
  });

  it.each([
    ["get", (adapter: StorageAdapter) => adapter.get("t", "a2")],
    ["read", (adapter: StorageAdapter) => collect(adapter.read(OLDEST))],
    ["list", (adapter: StorageAdapter) => collect(adapter.list(OLDEST))],
    ["tasks", (adapter: StorageAdapter) => collect(adapter.tasks({ order: "recent" }))],
  ])("in %s, throws the error, and never returns too few checkpoints", async (_what, read) => {
    const { adapter } = await make();
    for (const id of ["a1", "a2"]) await adapter.append(draft("t", id));
    const whole = await read(adapter);
    for (let failing = 1; ; failing++) {
      arm(failing);
      const found = await read(adapter).catch((error: unknown) => error);
      const { calls } = faults;
      arm(0);
      if (found instanceof Error) expect(found).toBeInstanceOf(StorageError);
      else expect(found).toEqual(whole);
      if (calls < failing) return;
    }
  });

  it("reports that the disk is full, and saves once there is space again", async () => {
    const { adapter } = await make();
    await adapter.append(draft("t", "a1"));
    arm(1, "ENOSPC");
    const error = await adapter.append(draft("t", "a2")).catch((thrown: unknown) => thrown);
    arm(0);
    expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: true, cause: { code: "ENOSPC" } });
    expect((error as Error).message).toContain("The disk is full");
    expect(await adapter.append(draft("t", "a2"))).toBe(2);
  });

  it("syncs the folder again if the sync of a removal failed, even if nothing is left to remove", async () => {
    const { adapter } = await make();
    for (const id of ["a0", "a1", "a2", "a3"]) await adapter.append(draft("t", id));
    await adapter.remove("t", ["a0"]);
    arm(-1);
    await adapter.remove("t", ["a1"]);
    // The last sync is for the folder.
    arm(faults.names.lastIndexOf("fsync") + 1);
    await expect(adapter.remove("t", ["a2"])).rejects.toBeInstanceOf(StorageError);
    arm(-1);
    expect(await adapter.remove("t", ["a2"])).toBe(0);
    expect(faults.names).toContain("fsync");
  });

  it("syncs the folder again if the sync of a save failed", async () => {
    const { adapter } = await make();
    await adapter.append(draft("t", "a1"));
    arm(-1);
    await adapter.append(draft("t", "a2"));
    const lastSync = faults.names.lastIndexOf("fsync") + 1;
    arm(lastSync);
    const again = draft("t", "a3");
    await expect(adapter.append(again)).rejects.toBeInstanceOf(CheckpointError);
    arm(-1);
    expect(await adapter.append(again)).toBe(3);
    expect(faults.names.filter((name) => name === "fsync").length).toBeGreaterThanOrEqual(1);
  });
});
