import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointConflictError, CheckpointManager, ClosedError, UnsupportedOperationError } from "waymark";
import { type OneshotCheckpoint, OneshotCheckpointSchema } from "waymark/oneshot";
import { FeatureFileAdapter } from "../../../systems/oneshot/feature-file-adapter.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

async function managerOnFeatures() {
  const folder = await tempFolder();
  const storage = new FeatureFileAdapter({ path: folder });
  let nowMs = Date.UTC(2026, 1, 5);
  const clock = () => {
    nowMs += 1000;
    return nowMs;
  };
  const logger = recordingLogger();
  const manager = new CheckpointManager({ storage, schema: OneshotCheckpointSchema, clock, logger });
  onTestFinished(() => manager.close());
  return { folder, storage, manager };
}

function checkpoint(featureId: string, more: Partial<OneshotCheckpoint> = {}): OneshotCheckpoint {
  const times = { startTime: new Date(0), lastUpdate: new Date(0) };
  return { featureId, agentId: "x", status: "running", completedWs: [], currentWs: "", ...times, ...more };
}

describe("features' files under a CheckpointManager", () => {
  it("list the features, and those that are incomplete", async () => {
    const { folder, manager } = await managerOnFeatures();
    await manager.save("F02", checkpoint("F02", { status: "paused" }), { status: "paused" });
    await manager.save("F01", checkpoint("F01"));
    await manager.save("F03", checkpoint("F03", { status: "completed" }), { status: "completed" });
    await writeFile(join(folder, "F04.json"), "{");

    const ids = (tasks: readonly { taskId: string }[]) => tasks.map(({ taskId }) => taskId);
    expect(ids(await manager.tasks())).toEqual(["F01", "F02", "F03"]);
    expect(ids(await manager.tasks({ after: "F01", limit: 1 }))).toEqual(["F02"]);
    expect(ids(await manager.tasks({ prefix: "F03" }))).toEqual(["F03"]);
    expect(ids(await manager.findIncomplete())).toEqual(["F01", "F02"]);
  });

  it("keep one checkpoint, the newest, under a sequence that goes on", async () => {
    const { manager } = await managerOnFeatures();
    const first = await manager.save("F01", checkpoint("F01"));
    const second = await manager.save("F01", checkpoint("F01", { currentWs: "a" }));

    expect(await manager.list("F01")).toEqual([second]);
    expect(second.sequence).toBe(2);
    expect((await manager.restore("F01", second.id)).state.currentWs).toBe("a");
    await expect(manager.restore("F01", first.id)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    expect(await manager.list("F01", { beforeSequence: 2 })).toEqual([]);
  });

  it("are written only on top of what is expected", async () => {
    const { manager } = await managerOnFeatures();
    await manager.save("F01", checkpoint("F01"), { expectedSequence: 0 });

    const late = manager.save("F01", checkpoint("F01"), { expectedSequence: 0 });
    await expect(late).rejects.toBeInstanceOf(CheckpointConflictError);
    expect(await manager.save("F01", checkpoint("F01"), { expectedSequence: 1 })).toMatchObject({ sequence: 2 });
  });

  it("answer the same checkpoint again with what it has", async () => {
    const { storage, manager } = await managerOnFeatures();
    await manager.save("F01", checkpoint("F01"));
    const found = [];
    for await (const record of storage.read({ taskId: "F01", order: "newest" })) found.push(record);
    const [record] = found;
    if (record === undefined || "corrupt" in record) throw new Error("There is no record");

    expect(await storage.append(record)).toBe(1);
    const other = { ...record.payload, sha256: "0".repeat(64) };
    await expect(storage.append({ ...record, payload: other })).rejects.toBeInstanceOf(CheckpointConflictError);
    const bytes = { ...record.payload, encoding: "json+gzip" };
    await expect(storage.append({ ...record, payload: bytes })).rejects.toBeInstanceOf(UnsupportedOperationError);
  });

  it("are removed by their checkpoint's id, or whole", async () => {
    const { storage, manager } = await managerOnFeatures();
    const { id } = await manager.save("F01", checkpoint("F01"));

    expect(await manager.remove("F01", "another")).toBe(false);
    await expect(storage.remove("F01", "all", { expectedSequence: 2 })).rejects.toBeInstanceOf(CheckpointConflictError);
    expect(await manager.remove("F01", id)).toBe(true);
    expect(await manager.removeTask("F01")).toBe(0);
    await expect(storage.remove("F01", "all", { expectedSequence: 1 })).rejects.toBeInstanceOf(CheckpointConflictError);
  });

  it("of which one is damaged are not removed by id", async () => {
    const { folder, storage } = await managerOnFeatures();
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "F01.json"), "{");

    expect(await storage.remove("F01", ["x"])).toBe(0);
    expect(await storage.remove("F01", "all")).toBe(1);
  });

  it("have their status in their state, so it isn't changed beside it", async () => {
    const { manager } = await managerOnFeatures();
    const { id } = await manager.save("F01", checkpoint("F01"));

    await expect(manager.setStatus("F01", id, "paused")).rejects.toBeInstanceOf(UnsupportedOperationError);
  });

  it("are closed with it", async () => {
    const { storage, manager } = await managerOnFeatures();
    await manager.close();

    await expect(storage.get("F01", "x")).rejects.toBeInstanceOf(ClosedError);
    await expect(storage.features()).rejects.toBeInstanceOf(ClosedError);
  });
});
