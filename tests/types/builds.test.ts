import { expectTypeOf, it } from "vitest";
import { type BuildCheckpoints, type Checkpoint, createBuildCheckpoints } from "waymark/builds";
import { z } from "zod";

const Task = z.object({
  id: z.string(),
  startedAt: z.codec(z.iso.datetime(), z.date(), { decode: (t) => new Date(t), encode: (d) => d.toISOString() }),
});
type Task = { id: string; startedAt: Date };

it("infers tasks from the schema, on save and on load, so that they fit the program's own", () => {
  const { getLatestCheckpoint } = createBuildCheckpoints({ path: "b.db", taskSchema: Task });
  expectTypeOf(getLatestCheckpoint).returns.toEqualTypeOf<Checkpoint<Task> | null>();
  void ((prd: { tasks: Task[] }) => {
    prd.tasks = getLatestCheckpoint("b")?.tasks ?? prd.tasks;
  });
  const { saveCheckpoint } = createBuildCheckpoints({ path: "b.db", taskSchema: Task });
  // @ts-expect-error A task has an id.
  void (() => saveCheckpoint({ id: "c1", buildId: "b", currentPhase: 1, tasks: [{ startedAt: new Date() }] }));
});

it("knows nothing of tasks without a schema", () => {
  const builds = createBuildCheckpoints({ path: "b.db" });
  expectTypeOf(builds).toEqualTypeOf<BuildCheckpoints>();
  expectTypeOf(builds.getLatestCheckpoint).returns.toEqualTypeOf<Checkpoint | null>();
});

it("accepts the state's function as the spec types it", () => {
  const { startAutoSave } = createBuildCheckpoints({ path: "b.db" });
  const getState = (): Omit<Checkpoint, "id" | "timestamp"> => ({
    buildId: "b",
    tasks: [],
    currentPhase: 1,
    metadata: {},
  });
  expectTypeOf(startAutoSave).toBeCallableWith("b", getState);
});

it("makes a misspelled option or part a compile error", () => {
  // @ts-expect-error It is `retention`.
  void (() => createBuildCheckpoints({ path: "b.db", retenton: { keepLast: 1 } }));
  const { saveCheckpoint } = createBuildCheckpoints({ path: "b.db" });
  // @ts-expect-error It is `metadata`.
  void (() => saveCheckpoint({ id: "c1", buildId: "b", currentPhase: 1, tasks: [], metdata: {} }));
});
