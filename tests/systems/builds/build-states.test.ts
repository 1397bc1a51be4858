import { expect, it, onTestFinished, vi } from "vitest";
import type { BuildState } from "waymark/builds";
import { connect, openBuilds } from "./support.js";

function stateOf(buildId: string, changes: Partial<BuildState> = {}): BuildState {
  return {
    buildId,
    prdFile: "prds/shop.md",
    startTime: "2026-11-22T01:00:00.000Z",
    tasks: [{ id: "t1", status: "done" }],
    completedTasks: ["t1"],
    failedTasks: [],
    currentPhase: 2,
    logs: ["began", "compiled"],
    ...changes,
  };
}

it("replaces a build's state, and returns it", async () => {
  const { saveBuildState, getBuildState, path } = await openBuilds();
  expect(getBuildState("b")).toBeNull();
  saveBuildState(stateOf("b"));
  saveBuildState(stateOf("b", { currentPhase: 3, logs: "a text" }));

  expect(getBuildState("b")).toEqual(stateOf("b", { currentPhase: 3, logs: "a text" }));
  expect(connect(path).prepare("SELECT * FROM build_states").all()).toEqual([
    {
      build_id: "b",
      prd_file: "prds/shop.md",
      start_time: "2026-11-22T01:00:00.000Z",
      tasks: '[{"id":"t1","status":"done"}]',
      completed_tasks: '["t1"]',
      failed_tasks: "[]",
      current_phase: 3,
      logs: '"a text"',
      updated_at: expect.any(String),
    },
  ]);
});

it("lists builds, most recently saved first", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const { saveBuildState, listSavedBuilds } = await openBuilds();
  expect(listSavedBuilds()).toEqual([]);
  for (const [second, buildId] of ["b1", "b2", "b3", "b1"].entries()) {
    vi.setSystemTime(Date.UTC(2026, 10, 22, 3, 0, second));
    saveBuildState(stateOf(buildId));
  }
  expect(listSavedBuilds()).toEqual(
    [
      ["b1", "2026-11-22 03:00:03"],
      ["b3", "2026-11-22 03:00:02"],
      ["b2", "2026-11-22 03:00:01"],
    ].map(([buildId, updatedAt]) => ({
      buildId,
      prdFile: "prds/shop.md",
      startTime: "2026-11-22T01:00:00.000Z",
      updatedAt,
    })),
  );
});

it("keeps rows of other tables that refer to a build: a save replaces no row", async () => {
  const { saveBuildState, getBuildState, path } = await openBuilds();
  saveBuildState(stateOf("b"));
  const db = connect(path);
  db.exec(
    "CREATE TABLE notes (build_id TEXT REFERENCES build_states ON DELETE CASCADE); INSERT INTO notes VALUES ('b')",
  );
  saveBuildState(stateOf("b", { currentPhase: 9 }));
  expect(getBuildState("b")?.currentPhase).toBe(9);
  expect(db.prepare("SELECT count(*) FROM notes").pluck().get()).toBe(1);
});

it.each<[object, RegExp]>([
  [{ prdFile: undefined }, /prdFile must be a string/],
  [{ startTime: new Date() }, /startTime must be a string/],
  [{ completedTasks: "t1" }, /completedTasks must be an array/],
  [{ failedTasks: undefined }, /failedTasks must be an array/],
  [{ logs: undefined }, /logs are missing: pass \[\] if there are none/],
  [{ currentPhase: 0.5 }, /currentPhase/],
  [{ buildId: "" }, /buildId/],
  [{ updatedAt: "now" }, /has no "updatedAt"/],
])("refuses a state with %j, and says why", async (changes, message) => {
  const { saveBuildState, listSavedBuilds } = await openBuilds();
  expect(() => saveBuildState({ ...stateOf("b"), ...changes } as BuildState)).toThrow(message);
  expect(listSavedBuilds()).toEqual([]);
});
