import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { BuildProgress } from "waymark/builds";
import { checkpoint, connect, openBuilds, rowsOf } from "./support.js";

const AUTO_SAVER = fileURLToPath(new URL("../../fixtures/builds/auto-save-and-go.mjs", import.meta.url));
const START_MS = Date.UTC(2026, 10, 22);

describe("an auto-save", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "Date"], now: START_MS });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("accepts another interval, and makes ids from the build's id and the milliseconds", async () => {
    const { startAutoSave, getLatestCheckpoint } = await openBuilds();
    startAutoSave("b", () => ({ tasks: [], currentPhase: 1, metadata: { prdFile: "prd.md" } }), 1000);
    vi.advanceTimersByTime(1000);
    expect(getLatestCheckpoint("b")).toMatchObject({ id: `b-${START_MS + 1000}`, metadata: { prdFile: "prd.md" } });
  });

  it("doesn't save a state that hasn't changed since the last save of any kind", async () => {
    const { startAutoSave, saveCheckpoint, path } = await openBuilds();
    const state = { tasks: [{ id: "t1", done: false }], currentPhase: 1 };
    const count = () => rowsOf(connect(path), "b").length;
    saveCheckpoint({ id: "c1", buildId: "b", ...state });
    startAutoSave("b", () => state, 10);
    vi.advanceTimersByTime(30);
    expect(count()).toBe(1);
    state.tasks = [{ id: "t1", done: true }];
    vi.advanceTimersByTime(30);
    expect(count()).toBe(2);
    (await openBuilds({ path })).saveCheckpoint(checkpoint("elsewhere"));
    vi.advanceTimersByTime(30);
    expect(count()).toBe(4);
    connect(path).exec("DELETE FROM checkpoints");
    vi.advanceTimersByTime(30);
    expect(count()).toBe(1);
  });

  it("runs side by side for two builds, and twice for one", async () => {
    const { startAutoSave, path } = await openBuilds();
    let n = 0;
    const stops = ["b", "b", "b2"].map((buildId) =>
      startAutoSave(buildId, () => ({ tasks: [++n], currentPhase: 1 }), 10),
    );
    vi.advanceTimersByTime(10);
    expect([rowsOf(connect(path), "b").length, rowsOf(connect(path), "b2").length]).toEqual([2, 1]);
    stops[0]?.();
    stops[0]?.();
    vi.advanceTimersByTime(10);
    expect([rowsOf(connect(path), "b").length, rowsOf(connect(path), "b2").length]).toEqual([3, 2]);
  });

  it("waits when there is no state yet", async () => {
    const { startAutoSave, getLatestCheckpoint, lines } = await openBuilds();
    startAutoSave("b", () => undefined, 10);
    vi.advanceTimersByTime(50);
    expect(getLatestCheckpoint("b")).toBeNull();
    expect(lines).toEqual([]);
  });

  it.each<[string, () => BuildProgress, unknown]>([
    [
      "getState throws",
      () => {
        throw new Error("no state");
      },
      expect.objectContaining({ message: "no state" }),
    ],
    [
      "the state can't be saved",
      () => ({ tasks: [1n], currentPhase: 1 }),
      expect.objectContaining({ path: "$.tasks[0]" }),
    ],
    ["it is of another build", () => ({ buildId: "b2", tasks: [], currentPhase: 1 }), expect.any(TypeError)],
    ["it is a promise", (() => Promise.resolve({ tasks: [], currentPhase: 1 })) as never, expect.any(TypeError)],
  ])("logs an error and continues if %s", async (_when, wrong, error) => {
    const { startAutoSave, getLatestCheckpoint, lines } = await openBuilds();
    let getState = wrong;
    startAutoSave("b", () => getState(), 10);
    vi.advanceTimersByTime(10);
    expect(lines).toEqual([
      { level: "error", message: 'Auto-save of build "b" failed; it is tried again', details: { buildId: "b", error } },
    ]);
    getState = () => ({ tasks: [], currentPhase: 2 });
    vi.advanceTimersByTime(10);
    expect(getLatestCheckpoint("b")?.currentPhase).toBe(2);
  });

  it("refuses an async function when it is started", async () => {
    const { startAutoSave } = await openBuilds();
    const getState = (async () => ({ tasks: [], currentPhase: 1 })) as never;
    expect(() => startAutoSave("b", getState, 10)).toThrow(/this one is async/);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("ends with close, even if close is called within it", async () => {
    const { startAutoSave, close, lines } = await openBuilds();
    let calls = 0;
    startAutoSave(
      "b",
      () => {
        calls += 1;
        close();
        return { tasks: [], currentPhase: 1 };
      },
      10,
    );
    vi.advanceTimersByTime(50);
    expect(calls).toBe(1);
    expect(lines).toMatchObject([{ level: "error", details: { error: { code: "CLOSED" } } }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("keeps the last 50, as other saves do", async () => {
    const { startAutoSave, path } = await openBuilds();
    let n = 0;
    startAutoSave("b", () => ({ tasks: [++n], currentPhase: 1 }), 10);
    vi.advanceTimersByTime(600);
    expect(rowsOf(connect(path), "b").map(({ tasks }) => tasks)).toEqual(
      Array.from({ length: 50 }, (_, i) => `[${i + 11}]`),
    );
  });

  it.each([
    [0, RangeError],
    [1.5, RangeError],
    [2 ** 31, RangeError],
    ["30s", TypeError],
  ])("refuses an interval of %j", async (intervalMs, type) => {
    const { startAutoSave } = await openBuilds();
    expect(() => startAutoSave("b", () => undefined, intervalMs as number)).toThrow(type);
  });

  it("needs a build and a function", async () => {
    const { startAutoSave } = await openBuilds();
    expect(() => startAutoSave("", () => undefined)).toThrow(/buildId/);
    expect(() => startAutoSave("b", {} as never)).toThrow(/needs a function/);
  });
});

it("doesn't keep its process alive, and has saved when the process ends", async () => {
  const { path, getLatestCheckpoint } = await openBuilds();
  const child = spawn(process.execPath, [AUTO_SAVER, path], { stdio: ["ignore", "ignore", "inherit"] });
  expect(await once(child, "exit")).toEqual([0, null]);
  expect(getLatestCheckpoint("b")).toMatchObject({ tasks: ["auto"] });
});
