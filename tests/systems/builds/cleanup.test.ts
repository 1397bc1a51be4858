import { existsSync } from "node:fs";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { checkpoint, connect, openBuilds, rowsOf } from "./support.js";

/** Checkpoints 1 to 6 of builds b and b2, and a function that lists the remaining ones. */
async function twoBuilds(options: Parameters<typeof openBuilds>[0] = {}) {
  const builds = await openBuilds(options);
  for (let n = 1; n <= 6; n++) {
    builds.saveCheckpoint(checkpoint(`b-${n}`));
    builds.saveCheckpoint(checkpoint(`b2-${n}`, { buildId: "b2" }));
  }
  const numbers = (buildId: string) => rowsOf(connect(builds.path), buildId).map(({ id }) => id.split("-")[1]);
  return { ...builds, numbers };
}

describe("cleanupOldCheckpoints", () => {
  it("with a build keeps its last 50", async () => {
    const { cleanupOldCheckpoints, saveCheckpoint, numbers, path } = await twoBuilds({ retention: { keepLast: 100 } });
    for (let n = 7; n <= 55; n++) saveCheckpoint(checkpoint(`b-${n}`));
    expect(cleanupOldCheckpoints("b")).toBe(0);
    expect((await openBuilds({ path })).cleanupOldCheckpoints("b")).toBe(5);
    expect(numbers("b")).toHaveLength(50);
    expect(numbers("b")[0]).toBe("6");
    expect(numbers("b2")).toHaveLength(6);
  });

  it("with a build and a number keeps that many of its last ones", async () => {
    const { cleanupOldCheckpoints, numbers } = await twoBuilds();
    expect(cleanupOldCheckpoints("b", 2)).toBe(4);
    expect(numbers("b")).toEqual(["5", "6"]);
    expect(numbers("b2")).toHaveLength(6);
    expect(cleanupOldCheckpoints("unknown", 2)).toBe(0);
  });

  it("with only a number keeps that many of the last ones of every build", async () => {
    const { cleanupOldCheckpoints, numbers } = await twoBuilds();
    expect(cleanupOldCheckpoints(1)).toBe(10);
    expect([numbers("b"), numbers("b2")]).toEqual([["6"], ["6"]]);
  });

  it("without arguments keeps the last N of every build, as configured", async () => {
    const { path } = await twoBuilds();
    const { cleanupOldCheckpoints } = await openBuilds({ path, retention: { keepLast: 4 } });
    expect(cleanupOldCheckpoints()).toBe(4);
    expect(cleanupOldCheckpoints(undefined)).toBe(0);
  });

  it.each([
    [["b", 0], RangeError],
    [["b", -1], RangeError],
    [["b", "10"], TypeError],
    [[0], RangeError],
    [[null], TypeError],
    [["", 3], RangeError],
    [[undefined, 3], TypeError],
    [[10, 10], TypeError],
  ])("refuses %j, and removes nothing", async (args, type) => {
    const { cleanupOldCheckpoints, numbers } = await twoBuilds();
    expect(() => Reflect.apply(cleanupOldCheckpoints, undefined, args)).toThrow(type);
    expect(numbers("b")).toHaveLength(6);
  });

  it("of a missing database removes nothing, and creates none", async () => {
    const { cleanupOldCheckpoints } = await openBuilds();
    expect([cleanupOldCheckpoints(), cleanupOldCheckpoints("b"), cleanupOldCheckpoints(3)]).toEqual([0, 0, 0]);
  });
});

describe("removeBuild", () => {
  it("removes the checkpoints and the state of that build, and of no other", async () => {
    const { removeBuild, numbers, getLatestCheckpoint, saveBuildState, listSavedBuilds } = await twoBuilds();
    const state = { prdFile: "p", startTime: "s", tasks: [], completedTasks: [], failedTasks: [], currentPhase: 1 };
    for (const buildId of ["b", "b2"]) saveBuildState({ ...state, buildId, logs: [] });

    expect(removeBuild("b")).toBe(true);
    expect(getLatestCheckpoint("b")).toBeNull();
    expect(listSavedBuilds().map(({ buildId }) => buildId)).toEqual(["b2"]);
    expect(numbers("b2")).toHaveLength(6);
    expect(removeBuild("b")).toBe(false);
    expect(() => removeBuild("")).toThrow(RangeError);
  });

  it("creates no database", async () => {
    const { removeBuild, path } = await openBuilds();
    expect(removeBuild("b")).toBe(false);
    expect(existsSync(path)).toBe(false);
  });
});

describe("the retention", () => {
  it("may be any policy of the core, applied to the checkpoints' timestamps and phases", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { saveCheckpoint, path } = await openBuilds({ retention: { keepDaily: 3, keepStages: ["phase-7"] } });
    for (let hour = 0; hour < 120; hour += 6) {
      vi.setSystemTime(Date.UTC(2026, 10, 1, hour));
      saveCheckpoint({ id: `c${hour}`, buildId: "b", tasks: [], currentPhase: hour === 12 ? 7 : 1 });
    }
    expect(rowsOf(connect(path), "b").map(({ id }) => id)).toEqual(["c12", "c66", "c90", "c114"]);
  });

  it("by age or size never removes the newest checkpoint", async () => {
    const { saveCheckpoint, path } = await openBuilds({ retention: { maxBytes: 0 } });
    for (const id of ["c1", "c2", "c3"]) saveCheckpoint(checkpoint(id));
    expect(rowsOf(connect(path), "b").map(({ id }) => id)).toEqual(["c3"]);
  });
});
