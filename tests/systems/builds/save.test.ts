import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  CheckpointConflictError,
  ClosedError,
  PayloadTooLargeError,
  StateInvalidError,
  StateNotSerializableError,
} from "waymark";
import { type BuildProgress, createBuildCheckpoints, type NewCheckpoint } from "waymark/builds";
import { z } from "zod";
import { recordingLogger } from "../../support/recording-logger.js";
import { checkpoint, connect, openBuilds, rowsOf } from "./support.js";

describe("the id of a checkpoint", () => {
  it("that exists with another content is a conflict, and nothing is stored", async () => {
    const { saveCheckpoint, getLatestCheckpoint, path } = await openBuilds();
    saveCheckpoint(checkpoint("c1", { metadata: { n: 1 } }));
    for (const other of [
      checkpoint("c1", { metadata: { n: 2 } }),
      checkpoint("c1", { tasks: [], metadata: { n: 1 } }),
      checkpoint("c1"),
      { ...checkpoint("c1", { metadata: { n: 1 } }), currentPhase: 2 },
    ]) {
      expect(() => saveCheckpoint(other)).toThrow(CheckpointConflictError);
      expect(() => saveCheckpoint(other)).toThrow(/c1 exists with another content.*Nothing was stored/);
    }
    expect(() => saveCheckpoint(checkpoint("c1", { buildId: "b2", metadata: { n: 1 } }))).toThrow(
      /exists in build "b"/,
    );
    expect(rowsOf(connect(path), "b")).toHaveLength(1);
    expect(getLatestCheckpoint("b")?.metadata).toEqual({ n: 1 });
  });

  it("that exists with the same content is a repeat, and changes nothing", async () => {
    const { saveCheckpoint, getLatestCheckpoint, path } = await openBuilds();
    const first = saveCheckpoint(checkpoint("c1", { metadata: {} }));
    saveCheckpoint(checkpoint("c2"));

    expect(saveCheckpoint(checkpoint("c1"))).toEqual(first);
    expect(getLatestCheckpoint("b")?.id).toBe("c2");
    expect(rowsOf(connect(path), "b").map(({ id }) => id)).toEqual(["c1", "c2"]);
  });

  it("is made from the build and the milliseconds if none is given, and is unique within one millisecond", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_764_000_000_000 });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { saveCheckpoint, path } = await openBuilds({ retention: { keepLast: 1 } });
    const other = await openBuilds({ path });
    other.saveCheckpoint(checkpoint("b-1764000000002", { buildId: "b2" }));
    const ids = [1, 2, 3, 4].map((n) => saveCheckpoint("b", { tasks: [n], currentPhase: 1 }).id);

    expect(ids).toEqual(["b-1764000000000", "b-1764000000001", "b-1764000000003", "b-1764000000004"]);
  });
});

describe("a saved value", () => {
  it("may be changed right after the save, and comes back as a separate value", async () => {
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    const tasks = [{ id: "t1", notes: ["a"] }];
    saveCheckpoint({ id: "c1", buildId: "b", tasks, currentPhase: 1 });
    tasks[0]?.notes.push("later");
    getLatestCheckpoint("b")?.tasks.push("mine");

    expect(getLatestCheckpoint("b")?.tasks).toEqual([{ id: "t1", notes: ["a"] }]);
  });

  it("may be a loaded checkpoint, under another id", async () => {
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    const first = saveCheckpoint(checkpoint("c1"));
    const loaded = getLatestCheckpoint("b")!;
    const second = saveCheckpoint({ ...loaded, id: "c2" });

    expect(second.timestamp >= first.timestamp).toBe(true);
    expect(getLatestCheckpoint("b")).toEqual({ ...loaded, id: "c2", timestamp: second.timestamp });
  });

  it("keeps strange texts, keys and numbers", async () => {
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    const buildId = "b'; DROP TABLE checkpoints; --\0\n日本 𝒳";
    const tasks = [JSON.parse('{"__proto__":{"a":1},"$waymark":"Date","":"\\u0000\\ud800","n":1e308,"deep":[[[[]]]]}')];
    saveCheckpoint({ id: "\0", buildId, tasks, currentPhase: -3 });

    expect(getLatestCheckpoint(buildId)).toMatchObject({ id: "\0", buildId, tasks, currentPhase: -3 });
    expect(Object.keys(getLatestCheckpoint(buildId)?.tasks[0] ?? {})).toEqual([
      "__proto__",
      "$waymark",
      "",
      "n",
      "deep",
    ]);
  });

  it.each<[string, { tasks?: unknown[]; metadata?: object }, string]>([
    ["undefined in a list", { tasks: [{}, undefined] }, "$.tasks[1]"],
    ["a function", { tasks: [{ run() {} }] }, "$.tasks[0].run"],
    ["NaN", { tasks: [Number.NaN] }, "$.tasks[0]"],
    ["a Map in the metadata", { metadata: { byId: new Map() } }, "$.metadata.byId"],
    ["metadata of a class", { metadata: new Map() }, "$.metadata"],
  ])("is never changed silently: %s is refused with its path", async (_what, changes, path) => {
    const { saveCheckpoint, getLatestCheckpoint, saveBuildState, listSavedBuilds } = await openBuilds();
    const save = () => saveCheckpoint(checkpoint("c1", changes));
    expect(save).toThrow(StateNotSerializableError);
    expect(save).toThrow(expect.objectContaining({ path }));
    expect(save).toThrow(/Nothing was stored/);
    expect(getLatestCheckpoint("b")).toBeNull();

    const state = { buildId: "b", prdFile: "p", startTime: "s", completedTasks: [], failedTasks: [], currentPhase: 1 };
    const logs = changes.metadata ?? [];
    expect(() => saveBuildState({ ...state, tasks: changes.tasks ?? [], logs })).toThrow(StateNotSerializableError);
    expect(listSavedBuilds()).toEqual([]);
  });

  it("leaves out the properties that are undefined, as JSON.stringify does", async () => {
    const { saveCheckpoint, getLatestCheckpoint, saveBuildState, getBuildState, path } = await openBuilds();
    const tasks = [{ id: "t1", error: undefined, retries: { left: 2, at: undefined } }];
    const saved = { id: "c1", buildId: "b", tasks, currentPhase: 1, metadata: { prdFile: undefined } };
    const { timestamp } = saveCheckpoint(saved);

    expect(rowsOf(connect(path), "b")).toMatchObject([{ tasks: JSON.stringify(tasks), metadata: "{}" }]);
    expect(getLatestCheckpoint("b")?.tasks).toStrictEqual([{ id: "t1", retries: { left: 2 } }]);
    expect(saveCheckpoint(saved).timestamp).toBe(timestamp);

    const state = { buildId: "b", prdFile: "p", startTime: "s", completedTasks: [], failedTasks: [], currentPhase: 1 };
    saveBuildState({ ...state, tasks, logs: { last: undefined } });
    expect(getBuildState("b")).toStrictEqual({ ...state, tasks: [{ id: "t1", retries: { left: 2 } }], logs: {} });
  });

  it("has no cycle, and no more bytes than allowed", async () => {
    const { saveCheckpoint } = await openBuilds({ maxPayloadBytes: 100 });
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;

    expect(() => saveCheckpoint(checkpoint("c1", { tasks: [cycle] }))).toThrow(/\$\.tasks\[0\]\.self is a cycle/);
    expect(() => saveCheckpoint(checkpoint("c1", { tasks: ["x".repeat(97)] }))).toThrow(PayloadTooLargeError);
    saveCheckpoint(checkpoint("c1", { tasks: ["x".repeat(96)] }));
  });

  it.each<[string, object, RegExp]>([
    ["no tasks", { id: "c1", buildId: "b", currentPhase: 1 }, /tasks must be an array/],
    ["tasks that aren't a list", { ...checkpoint("c1"), tasks: "[]" }, /tasks must be an array, not string/],
    ["no phase", { id: "c1", buildId: "b", tasks: [] }, /currentPhase must be a number/],
    ["half a phase", { ...checkpoint("c1"), currentPhase: 1.5 }, /currentPhase must be a whole number/],
    ["metadata that is a list", { ...checkpoint("c1"), metadata: [] }, /metadata must be an object/],
    ["no id", { buildId: "b", tasks: [], currentPhase: 1 }, /checkpoint's id must be a string/],
    ["no build", { id: "c1", tasks: [], currentPhase: 1 }, /buildId must be a string/],
    ["an empty build", { ...checkpoint("c1"), buildId: "" }, /buildId must not be empty/],
    ["a list", [], /checkpoint's id/],
  ])("is refused with %s, by name", async (_what, wrong, message) => {
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    const save = () => saveCheckpoint(wrong as NewCheckpoint);
    expect(save).toThrow(message);
    expect(getLatestCheckpoint("b")).toBeNull();
  });

  it("is saved without keys that have no column, and one warning reports it", async () => {
    const { saveCheckpoint, getLatestCheckpoint, lines } = await openBuilds();
    saveCheckpoint({ ...checkpoint("c1"), files: ["a.ts"], metdata: {} } as NewCheckpoint);
    saveCheckpoint({ ...checkpoint("c2"), files: ["a.ts"] } as NewCheckpoint);
    expect(getLatestCheckpoint("b")).not.toHaveProperty("files");
    expect(lines).toMatchObject([
      { level: "warn", message: "Checkpoint fields without a column aren't stored: files, metdata" },
    ]);
  });

  it("accepts null as metadata, and dates in tasks, as the spec's own program does", async () => {
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    const at = new Date("2026-11-23T00:00:00.000Z");
    saveCheckpoint({ ...checkpoint("c1", { tasks: [{ at, steps: [at] }] }), metadata: null as never });
    const { tasks, metadata } = getLatestCheckpoint("b") ?? {};
    expect({ tasks, metadata }).toEqual({ tasks: [{ at: at.toISOString(), steps: [at.toISOString()] }], metadata: {} });
    expect(() => saveCheckpoint(checkpoint("c2", { tasks: [new Date(Number.NaN)] }))).toThrow(/a Date/);
  });

  it("belongs to the build that it is saved for", async () => {
    const { saveCheckpoint } = await openBuilds();
    const progress = { buildId: "b2", tasks: [], currentPhase: 1 };
    expect(() => saveCheckpoint("b", progress)).toThrow(/belongs to build "b2", but it was given for "b"/);
    expect(() => saveCheckpoint("b", undefined as unknown as BuildProgress)).toThrow(/must be an object/);
    expect(() => saveCheckpoint("b" as unknown as NewCheckpoint)).toThrow(/takes a checkpoint, or a build's id/);
  });
});

describe("a schema of tasks", () => {
  const date = z.codec(z.iso.datetime(), z.date(), { decode: (t) => new Date(t), encode: (d) => d.toISOString() });
  const Task = z.object({ id: z.string(), startedAt: date });

  async function openTyped() {
    const { path } = await openBuilds();
    const builds = createBuildCheckpoints({ path, taskSchema: Task, logger: recordingLogger() });
    onTestFinished(() => builds.close());
    return { ...builds, path };
  }

  it("encodes them on save and decodes them on load", async () => {
    const { saveCheckpoint, getLatestCheckpoint, saveBuildState, getBuildState, path } = await openTyped();
    const tasks = [{ id: "t1", startedAt: new Date("2026-11-22T01:02:03.000Z") }];
    saveCheckpoint({ id: "c1", buildId: "b", tasks, currentPhase: 1 });
    const state = { buildId: "b", prdFile: "p", startTime: "s", completedTasks: [], failedTasks: [], logs: [] };
    saveBuildState({ ...state, tasks, currentPhase: 1 });

    expect(getLatestCheckpoint("b")?.tasks).toEqual(tasks);
    expect(getBuildState("b")?.tasks).toEqual(tasks);
    expect(rowsOf(connect(path), "b")[0]?.tasks).toBe('[{"id":"t1","startedAt":"2026-11-22T01:02:03.000Z"}]');
  });

  it("refuses an unknown task, on save and on load, and reports which one", async () => {
    const { saveCheckpoint, getLatestCheckpoint, path } = await openTyped();
    const wrong = [{ id: "t1", startedAt: new Date() }, { id: 2 }] as unknown as { id: string; startedAt: Date }[];
    const save = () => saveCheckpoint({ id: "c1", buildId: "b", tasks: wrong, currentPhase: 1 });
    expect(save).toThrow(StateInvalidError);
    expect(save).toThrow(/Checkpoint c1 was not saved, tasks\[1\] is invalid: \$\.id/);

    (await openBuilds({ path })).saveCheckpoint(checkpoint("c2"));
    expect(() => getLatestCheckpoint("b")).toThrow(StateInvalidError);
    expect(() => getLatestCheckpoint("b")).toThrow(/Checkpoint c2 of build "b" can't be loaded, tasks\[0\]/);
  });
});

describe("close", () => {
  it("can be called twice, and by `using`; every later call is a ClosedError", async () => {
    const builds = await openBuilds();
    builds.saveCheckpoint(checkpoint("c1"));
    builds.close();
    builds[Symbol.dispose]();
    const state = { buildId: "b", prdFile: "p", startTime: "s", tasks: [], completedTasks: [], failedTasks: [] };
    for (const call of [
      () => builds.saveCheckpoint(checkpoint("c2")),
      () => builds.saveCheckpoint("b", { tasks: [], currentPhase: 1 }),
      () => builds.getLatestCheckpoint("b"),
      () => builds.startAutoSave("b", () => undefined),
      () => builds.cleanupOldCheckpoints("b"),
      () => builds.cleanupOldCheckpoints(),
      () => builds.saveBuildState({ ...state, currentPhase: 1, logs: [] }),
      () => builds.getBuildState("b"),
      () => builds.listSavedBuilds(),
      () => builds.removeBuild("b"),
    ]) {
      expect(call).toThrow(ClosedError);
    }
  });
});
