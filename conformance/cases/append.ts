import { ascending, intact, same } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts } from "../drafts.js";
import { appendAll, appendAtOnce, collect, expectStored, listIds, listSequences } from "../steps.js";

/**
 * The cases of `append` about numbering and order. See append-ids.ts for ids, append-conditions.ts for conditions, and
 * kills.ts and processes.ts for several processes.
 */
export const appendCases: readonly ConformanceCase[] = [
  {
    name: "append.sequence",
    promise: "assigns a task's checkpoints ascending sequences, from 1",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const before = await appendAll(adapter, drafts("t", 4));
      adapter = await store.carryOn(adapter);
      const after = await appendAll(adapter, [draft("t", "c5")]);

      const sequences = listSequences([...before, ...after]);
      same(sequences[0], 1, "append MUST assign the sequence 1 to a new task's first checkpoint");
      ascending(sequences, "append MUST assign ascending sequences");
      const listed = await collect(adapter.list({ taskId: "t", order: "oldest" }));
      same(
        listed.map(({ sequence }) => sequence),
        sequences,
        "list MUST yield the sequences that append returned",
      );
    },
  },
  {
    name: "append.tasks-apart",
    promise: "numbers each task separately",
    async run(store) {
      const adapter = await store.open();
      const own = await appendAll(adapter, drafts("t", 3));
      same(await adapter.append(draft("u", "c1")), 1, "another task's numbering MUST begin at 1");
      same(
        await listIds(adapter.list({ taskId: "u", order: "oldest" })),
        ["c1"],
        "a task MUST contain only its own checkpoints",
      );
      const next = await adapter.append(draft("t", "c4"));
      ascending([...listSequences(own), next], "a task's numbering MUST continue, regardless of other tasks");
    },
  },
  {
    name: "append.never-reuses",
    promise: "never uses a sequence twice while the task exists, even after its newest checkpoint was removed",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const given = listSequences(await appendAll(adapter, drafts("t", 3)));
      // The checkpoints are removed in several calls, so that the highest sequence is already gone when another one is
      // removed.
      for (const removed of [[["c3"]], [["next-0", "c2"]], [["next-1"], ["c1"]], [["next-2"], ["nobody"]]]) {
        for (const ids of removed) await adapter.remove("t", ids);
        adapter = await store.carryOn(adapter);
        for (const task of await collect(adapter.tasks({ order: "taskId" }))) {
          const { lastSequence } = intact(task, "a removed checkpoint isn't damage");
          same(lastSequence, given.at(-1), "tasks MUST yield the last sequence, even if its checkpoint was removed");
        }
        given.push(await adapter.append(draft("t", `next-${given.length - 3}`)));
        ascending(given, "a removed checkpoint's sequence MUST never be used again while the task exists");
      }
    },
  },
  {
    name: "append.call-order",
    promise: "assigns ascending sequences to concurrent appends of one task, in call order",
    async run(store) {
      const adapter = await store.open();
      // Large checkpoints take longest to write. Without a queue, small checkpoints would overtake them.
      const many = Array.from({ length: 24 }, (_, index) =>
        draft("t", `c${index}`, { body: JSON.stringify(`${index}`.repeat(index % 3 === 0 ? 100_000 : 1)) }),
      );
      const appended = await appendAtOnce(adapter, many);
      const obligation = "appends of one task through one instance MUST take sequences in call order";
      ascending(listSequences(appended), obligation);
      const ids = await listIds(adapter.list({ taskId: "t", order: "oldest" }));
      same(
        ids,
        many.map(({ id }) => id),
        obligation,
      );
    },
  },
  {
    name: "append.concurrent",
    promise: "accepts concurrent calls for many tasks, even if they are the first calls",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const many = Array.from({ length: 60 }, (_, index) => draft(`task-${index % 12}`, `c${index}`));
      const appended = await appendAtOnce(adapter, many);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
    },
  },
  {
    name: "append.clock-is-not-order",
    promise: "orders checkpoints by sequence, even if the clock went backwards",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const times = ["2030-01-01T00:00:00.000Z", "2029-01-01T00:00:00.000Z", "2029-01-01T00:00:00.000Z"];
      const backwards = times.map((createdAt, index) => draft("t", `c${index + 1}`, { createdAt }));
      const sequences = listSequences(await appendAll(adapter, backwards));
      adapter = await store.carryOn(adapter);

      const obligation = "a task's checkpoints MUST be ordered by sequence, regardless of createdAt";
      same(await listIds(adapter.list({ taskId: "t", order: "newest" })), ["c3", "c2", "c1"], obligation);
      same(await listIds(adapter.list({ taskId: "t", order: "oldest" })), ["c1", "c2", "c3"], obligation);
      same(await listIds(adapter.read({ taskId: "t", order: "newest" })), ["c3", "c2", "c1"], obligation);
      const [task] = await collect(adapter.tasks({ order: "recent" }));
      same(
        intact(task, "tasks MUST yield the task").newest?.id,
        "c3",
        `${obligation}, so the newest one has the highest sequence`,
      );
      const next = await adapter.append(draft("t", "c4"), { expectedSequence: sequences.at(-1) });
      ascending([...sequences, next], `${obligation}, so a condition MUST compare with the highest sequence`);
    },
  },
];
