import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";

const ONE_OR_MANY = "takes a task's id, or { prefix: \"a/\" } with a prefix that isn't empty. Nothing was changed.";
const PRUNED =
  "takes a task's id, { prefix: \"a/\" } with a prefix that isn't empty, or { all: true }. Nothing was changed.";

// The functions take `never`, because the compiler refuses these forms.
const CALLS: readonly [
  name: string,
  (manager: CheckpointManager, tasks: never) => Promise<unknown>,
  message: string,
][] = [
  ["removeTask", (manager, tasks) => manager.removeTask(tasks), `removeTask ${ONE_OR_MANY}`],
  ["cancel", (manager, tasks) => manager.cancel(tasks, "not needed"), `cancel ${ONE_OR_MANY}`],
  ["retry", (manager, tasks) => manager.retry(tasks), `retry ${ONE_OR_MANY}`],
  ["retention.prune", (manager, tasks) => manager.retention.prune(tasks, { maxBytes: 0 }), `retention.prune ${PRUNED}`],
];

describe.each(CALLS)("%s", (_name, call, message) => {
  it("takes a task's id, or a prefix of several", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    const taskIds = ["a/1", "a/2", "a/3", "b"];
    for (const taskId of taskIds) for (const n of [1, 2]) await manager.save(taskId, n, { status: "failed" });
    const before = await manager.tasks();
    const unchanged = async () => {
      const now = await manager.tasks();
      return before.filter((task) => now.some((other) => isDeepStrictEqual(other, task))).map(({ taskId }) => taskId);
    };
    await call(manager, "a/1" as never);
    expect(await unchanged()).toEqual(["a/2", "a/3", "b"]);
    await call(manager, { prefix: "a/" } as never);
    expect(await unchanged()).toEqual(["b"]);
  });

  it.each([
    undefined,
    null,
    7,
    ["a/1"],
    {},
    { taskId: "a/1" },
    { prefix: "" },
    { prefix: 7 },
    { prefix: undefined },
    { prefx: "a/" },
    { prefix: "a/", taskId: "a/1" },
    { prefix: "a/", all: true },
    { all: false },
    { all: undefined },
    { all: 1 },
  ])("refuses %j, and shows the right forms", async (tasks) => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    for (const taskId of ["a/1", "a/2"]) for (const n of [1, 2]) await manager.save(taskId, n, { status: "failed" });
    const before = await manager.tasks();
    await expect(call(manager, tasks as never)).rejects.toThrow(new TypeError(message));
    expect(await manager.tasks()).toEqual(before);
  });
});

it("queue takes a prefix alone, and shows its form", async () => {
  const manager = new CheckpointManager({ storage: new MemoryAdapter() });
  for (const query of ["a/", undefined, {}, { prefix: "" }, { taskId: "a/1" }]) {
    await expect(manager.queue(query as never)).rejects.toThrow(
      new TypeError('queue takes { prefix: "a/" } with a prefix that isn\'t empty. Nothing was changed.'),
    );
  }
});
