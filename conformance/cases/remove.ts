import { refused, same, sameAsAppended } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts } from "../drafts.js";
import { appendAll, appendAtOnce, collect, expectStored, listIds, listSequences, sinceRemoval } from "../steps.js";

/** The cases of `remove` and `removePrefix`. */
export const removeCases: readonly ConformanceCase[] = [
  {
    name: "remove.ids",
    promise: "removes the checkpoints with these ids, ignores unknown ids, and returns how many it removed",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      await appendAll(adapter, [...drafts("t", 5), ...drafts("u", 2)]);
      const counts = [
        await adapter.remove("t", []),
        await adapter.remove("t", ["nowhere"]),
        await adapter.remove("nowhere", ["c1"]),
        await adapter.remove("t", ["c2", "nowhere", "c4", "c2"]),
        await adapter.remove("t", ["c2", "c4"]),
        // Passes more ids than an SQL statement may have parameters.
        await adapter.remove("t", [...Array.from({ length: 40_000 }, (_, number) => `nowhere-${number}`), "c5"]),
      ];
      same(counts, [0, 0, 0, 2, 0, 1], "remove MUST return how many checkpoints it removed");
      adapter = await store.carryOn(adapter);
      for (const id of ["c2", "c4", "c5"])
        same(await adapter.get("t", id), undefined, "removed checkpoints MUST be gone");
      const left = { list: ["c1", "c3"], read: ["c1", "c3"] };
      same(
        await listIds(adapter.list({ taskId: "t", order: "oldest" })),
        left.list,
        "remove MUST leave all other checkpoints",
      );
      same(
        await listIds(adapter.read({ taskId: "t", order: "oldest" })),
        left.read,
        "remove MUST leave all other checkpoints",
      );
      same(
        await listIds(adapter.list({ taskId: "u", order: "oldest" })),
        ["c1", "c2"],
        "remove MUST leave other tasks",
      );
      same(await adapter.append(draft("nowhere", "c1")), 1, "remove MUST NOT create a task");
    },
  },
  {
    name: "remove.independent",
    promise: "never harms another checkpoint, even one that shares data with the removed one",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      // The payloads differ only at their end, and each checkpoint is the next one's parent, so a store might keep only
      // the differences.
      const common = "the same in all of them ".repeat(200);
      for (const [round, order] of [
        ["c1", "c2", "c3", "c4", "c5"],
        ["c6", "c4", "c5", "c2", "c1"],
      ].entries()) {
        const taskId = `t${round}`;
        const chain = [1, 2, 3, 4, 5, 6].map((number) =>
          draft(taskId, `c${number}`, {
            body: JSON.stringify({ common, number }),
            ...(number === 1 ? {} : { parentId: `c${number - 1}` }),
          }),
        );
        let left = await appendAll(adapter, chain);
        for (const id of order) {
          same(await adapter.remove(taskId, [id]), 1, "remove MUST return how many checkpoints it removed");
          left = left.filter((one) => one.id !== id);
          adapter = await store.carryOn(adapter);
          for (const one of left) {
            sameAsAppended(await adapter.get(taskId, one.id), one, `get, after ${id} was removed,`);
          }
        }
      }
    },
  },
  {
    name: "remove.prefix",
    promise: "removes every task whose id begins with the prefix, and no other",
    about: "removePrefix",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const gone = ["ten/", "ten/a", "ten/b/c", "ten/\u{1f600}", "ten/\uff5e"];
      const kept = ["ten", "Ten/a", "often/a", "tenant", "ten0", "te%/a", "ten\uffff"];
      await appendAll(
        adapter,
        gone.flatMap((taskId) => drafts(taskId, 2)),
      );
      const left = await appendAll(
        adapter,
        kept.map((taskId) => draft(taskId, "c1")),
      );
      same(
        await adapter.removePrefix?.("ten/"),
        2 * gone.length,
        "removePrefix MUST return how many checkpoints it removed",
      );
      same(await adapter.removePrefix?.("ten/"), 0, "removePrefix MUST return 0 if no task has the prefix");
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, left);
      same(await adapter.append(draft("ten/a", "c9")), 1, "removePrefix MUST end the numbering, so that 1 comes next");
    },
  },
  {
    name: "remove.prefix-expected",
    promise: "removes all tasks with a prefix if they are as the caller expects, and otherwise none",
    about: "removePrefix",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      await appendAll(adapter, [...drafts("t/a", 2), ...drafts("t/b", 1), ...drafts("u", 1)]);
      const a = { taskId: "t/a", newestSequence: 2 };
      const b = { taskId: "t/b", newestSequence: 1 };
      const wrong = [[], [a], [b], [a, { ...b, newestSequence: 2 }], [a, b, { taskId: "t/c", newestSequence: 1 }]];
      for (const expected of wrong) {
        await refused(
          "CHECKPOINT_CONFLICT",
          Promise.resolve(adapter.removePrefix?.("t/", expected)),
          `removePrefix MUST refuse tasks that aren't as expected: ${JSON.stringify(expected)}`,
        );
      }
      adapter = await store.carryOn(adapter);
      const taskIds = (await collect(adapter.tasks({ order: "taskId" }))).map(({ taskId }) => taskId);
      same(taskIds, ["t/a", "t/b", "u"], "a refused removePrefix MUST remove nothing");
      same(await adapter.removePrefix?.("t/", [b, a]), 3, "removePrefix MUST remove tasks that are as expected");
      same(
        await adapter.removePrefix?.("t/", []),
        0,
        "removePrefix MUST accept an empty expectation if no task has the prefix",
      );
    },
  },
  {
    name: "remove.all",
    promise: 'removes the whole task for "all", ends its numbering, and keeps tasks with similar names',
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const names = ["tas", "task-2", "task/sub", "task.", "TASK", "task "];
      await appendAll(adapter, drafts("task", 3));
      const neighbours = await appendAll(
        adapter,
        names.map((taskId) => draft(taskId, "c1")),
      );
      same(await adapter.remove("task", "all"), 3, "remove MUST return how many checkpoints it removed");
      same(await adapter.remove("task", "all"), 0, "remove of a removed task MUST return 0");
      same(await adapter.remove("nowhere", "all"), 0, "remove of an unknown task MUST return 0");
      adapter = await store.carryOn(adapter);

      await expectStored(adapter, neighbours);
      same(await adapter.get("task", "c1"), undefined, 'remove "all" MUST remove every checkpoint of the task');
      same(
        await listIds(adapter.list({ taskId: "task", order: "newest" })),
        [],
        'remove "all" MUST leave nothing to list',
      );
      same(
        await listIds(adapter.read({ taskId: "task", order: "newest" })),
        [],
        'remove "all" MUST leave nothing to read',
      );
      const anew = draft("task", "c1", { body: JSON.stringify("another state") });
      const sequence = await adapter.append(anew, { expectedSequence: 0 });
      same(sequence, 1, 'remove "all" MUST end the numbering, so that 1 comes next');
      await expectStored(adapter, [...neighbours, { ...anew, sequence }]);
    },
  },
  {
    name: "remove.all-as-id",
    promise: 'given the list ["all"], removes only the checkpoint with the id "all", not the whole task',
    async run(store) {
      const adapter = await store.open();
      await appendAll(adapter, [draft("t", "c1"), draft("t", "all"), draft("t", "c3")]);
      same(
        await adapter.remove("t", ["all"]),
        1,
        'remove of ["all"] MUST remove only the checkpoint with the id "all"',
      );
      same(
        await listIds(adapter.list({ taskId: "t", order: "oldest" })),
        ["c1", "c3"],
        "all other checkpoints MUST stay",
      );
    },
  },
  {
    name: "remove.condition",
    promise: "removes nothing if the newest checkpoint isn't the expected one",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const [first = 0, newest = 0, removed = 0] = listSequences(await appendAll(adapter, drafts("t", 3)));
      await adapter.remove("t", ["c3"]);
      adapter = await store.carryOn(adapter);
      for (const expectedSequence of [0, first, removed]) {
        for (const ids of [["c1"], "all"] as const) {
          await refused(
            "CHECKPOINT_CONFLICT",
            adapter.remove("t", ids, { expectedSequence }),
            `remove MUST refuse expectedSequence ${expectedSequence} if the task's newest checkpoint has ${newest}`,
          );
        }
      }
      const ids = await listIds(adapter.list({ taskId: "t", order: "oldest" }));
      same(ids, ["c1", "c2"], "a refused remove MUST remove nothing");
      const condition = { expectedSequence: newest };
      same(await adapter.remove("t", ["c1"], condition), 1, "remove MUST work if the condition holds");
      same(await adapter.remove("t", "all", condition), 1, "remove MUST work if the condition holds");
    },
  },
  {
    name: "remove.stays-removed",
    promise: "removes for good, so that a concurrent change of status doesn't bring a checkpoint back",
    async run(store) {
      const adapter = await store.open();
      for (let round = 0; round < 6; round++) {
        const id = `c${round}`;
        await adapter.append(draft("t", id));
        const calls = [
          () => adapter.setStatus("t", id, { status: "paused" }),
          () => adapter.remove("t", [id]),
          () => adapter.setStatus("t", id, { status: "failed" }),
        ];
        const [, removed] = await Promise.all((round % 2 === 0 ? calls : calls.toReversed()).map((call) => call()));
        same(removed, 1, "remove MUST return how many checkpoints it removed");
        same(
          await adapter.get("t", id),
          undefined,
          "a removed checkpoint MUST stay removed, even if setStatus is called at the same time",
        );
      }
      same(await listIds(adapter.list({ taskId: "t", order: "oldest" })), [], "a removed checkpoint MUST stay removed");
    },
  },
  {
    name: "remove.while-appending",
    promise: "keeps checkpoints that are appended after the task's removal, even if both calls are made at once",
    async run(store) {
      const adapter = await store.open();
      for (let round = 1; round <= 4; round++) {
        await appendAll(adapter, drafts("t", 2));
        const [before, , after] = await Promise.all([
          appendAtOnce(adapter, [draft("t", "before")]),
          adapter.remove("t", "all"),
          appendAtOnce(adapter, [draft("t", "after-1"), draft("t", "after-2")]),
        ]);
        await expectStored(adapter, sinceRemoval([...before, ...after]));
        await adapter.remove("t", "all");
      }
    },
  },
  {
    name: "remove.concurrent",
    promise: "counts each checkpoint once if several calls remove it at the same time",
    async run(store) {
      const adapter = await store.open();
      await appendAll(adapter, drafts("t", 8));
      const counts = await Promise.all([
        adapter.remove("t", ["c1", "c2", "c3", "c4"]),
        adapter.remove("t", ["c3", "c4", "c5"]),
        adapter.remove("t", ["c1", "c2", "c3", "c4", "c5"]),
      ]);
      const sum = counts.reduce((total, count) => total + count, 0);
      same(sum, 5, "concurrent removals MUST count each checkpoint once, so five in all");
      same(
        await listIds(adapter.list({ taskId: "t", order: "oldest" })),
        ["c6", "c7", "c8"],
        "all other checkpoints MUST stay",
      );
    },
  },
];
