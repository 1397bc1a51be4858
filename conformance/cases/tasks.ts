import type { StorageAdapter, StoredTask, TaskQuery } from "../../src/contract/adapter.js";
import {
  type CheckpointStatus,
  type CheckpointSummary,
  compareTaskIds,
  toSummary,
} from "../../src/contract/checkpoint.js";
import { intact, same, show } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts, fullDraft } from "../drafts.js";
import { appendAll, appendAtOnce, collect } from "../steps.js";

/** The cases of `tasks`. */
export const tasksCases: readonly ConformanceCase[] = [
  {
    name: "tasks.newest",
    promise: "returns each task's current count and newest checkpoint",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      let lastSequence = 0;
      const expectTask = async (count: number, newest: CheckpointSummary, after: string) => {
        lastSequence = Math.max(lastSequence, newest.sequence);
        adapter = await store.carryOn(adapter);
        const tasks = (await collect(adapter.tasks({ order: "taskId" }))).map((task) => ({
          ...task,
          dueAt: undefined,
        }));
        same(
          tasks,
          [{ taskId: "t", count, lastSequence, newest, dueAt: undefined }],
          `tasks MUST yield the task's count and its newest checkpoint's summary ${after}`,
        );
      };

      same(await collect(adapter.tasks({ order: "taskId" })), [], "tasks MUST yield nothing if nothing is stored");
      const [first, second] = [draft("t", "c1"), fullDraft("t", "c2")];
      const one = toSummary({ ...first, sequence: await adapter.append(first) });
      await expectTask(1, one, "after the first append");
      const two = toSummary({ ...second, sequence: await adapter.append(second) });
      await expectTask(2, two, "after another append");
      await adapter.setStatus("t", "c2", { status: "paused" });
      const { error: _dropped, ...rest } = two;
      await expectTask(2, { ...rest, status: "paused" }, "after the newest checkpoint's status changed");
      await adapter.remove("t", ["c2"]);
      await expectTask(1, one, "after the newest checkpoint was removed");
    },
  },
  {
    name: "tasks.emptied",
    promise: "doesn't list a task without checkpoints",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      await appendAll(adapter, [...drafts("emptied", 2), draft("removed", "c1"), draft("kept", "c1")]);
      await adapter.remove("emptied", ["c1", "c2"]);
      await adapter.remove("removed", "all");
      adapter = await store.carryOn(adapter);
      for (const order of ["taskId", "recent"] as const) {
        const listed = await taskIds(adapter, { order });
        same(listed, ["kept"], "tasks MUST yield the tasks that have a checkpoint, and no others");
      }
      await adapter.append(draft("emptied", "c3"));
      same(await taskIds(adapter, { order: "taskId" }), ["emptied", "kept"], "a new append MUST bring the task back");
    },
  },
  {
    name: "tasks.order",
    promise: "orders tasks by id in code points, or by the newest checkpoint's time and then by id",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      // U+FF5E sorts before U+1F600, although its UTF-16 unit is above the surrogate pair's.
      const ordered = ["A", "B", "Z", "a", "a ", "a-b", "a/b", "aa", "b", "é", "～", "😀", "😀a", "😁"];
      const shuffled = ordered.toSorted((a, b) => (reversed(a) < reversed(b) ? -1 : 1));
      for (const taskId of shuffled) await adapter.append(draft(taskId, "c1"));
      adapter = await store.carryOn(adapter);
      same(await taskIds(adapter, { order: "taskId" }), ordered, "tasks MUST be in the code point order of their ids");
      same(
        await taskIds(adapter, { order: "recent" }),
        ordered,
        "tasks with newest checkpoints of the same time MUST be in the code point order of their ids",
      );

      const at = (second: number) => `2026-02-01T00:00:0${second}.000Z`;
      await adapter.append(draft("b", "c2", { createdAt: at(3) }));
      await adapter.append(draft("é", "c2", { createdAt: at(9) }));
      await adapter.append(draft("B", "c2", { createdAt: at(3) }));
      // The newest checkpoint of the task 😀 has the highest sequence, although the clock was behind when it was saved.
      await adapter.append(draft("😀", "c2", { createdAt: at(8) }));
      await adapter.append(draft("😀", "c3", { createdAt: at(1) }));
      adapter = await store.carryOn(adapter);
      const recent = ["é", "B", "b", "😀"];
      same(
        await taskIds(adapter, { order: "recent" }),
        [...recent, ...ordered.filter((taskId) => !recent.includes(taskId))],
        "tasks MUST be ordered by their newest checkpoint's createdAt, latest first, then by taskId",
      );
      same(await taskIds(adapter, { order: "recent", limit: 2 }), recent.slice(0, 2), "limit MUST cut after ordering");
    },
  },
  {
    name: "tasks.filters",
    promise:
      "returns the tasks that match every part of the query, up to its limit, and treats no character of a prefix as a wildcard",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = await populate(adapter);
      adapter = await store.carryOn(adapter);
      for (const query of taskQueries()) {
        const expected = expectedTasks(all, query).map(({ taskId }) => taskId);
        same(await taskIds(adapter, query), expected, `tasks(${show(query)}) MUST yield the tasks that match`);
      }
    },
  },
  {
    name: "tasks.pages",
    promise: "returns pages by `after` and `limit`, without gaps or overlaps",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = await populate(adapter);
      adapter = await store.carryOn(adapter);
      const pages: string[] = [];
      let after: string | undefined;
      for (;;) {
        const page = await taskIds(adapter, { order: "taskId", limit: 4, after });
        if (page.length === 0) break;
        pages.push(...page);
        after = page.at(-1);
      }
      const expected = expectedTasks(all, { order: "taskId" }).map(({ taskId }) => taskId);
      same(pages, expected, "pages by after and limit MUST contain each task once");
    },
  },
  {
    name: "tasks.many",
    promise: "returns hundreds of tasks correctly",
    async run(store) {
      const adapter = await store.open();
      // Makes more tasks than an adapter fetches at once. Every hundredth task is completed, and the oldest tasks have
      // the last ids.
      const many = Array.from({ length: 300 }, (_, index) =>
        draft(`task-${String(index).padStart(3, "0")}`, "c1", {
          createdAt: new Date(Date.UTC(2026, 0, 1) - index * 1000).toISOString(),
          status: index % 100 === 99 ? "completed" : "running",
        }),
      );
      const appended = await appendAtOnce(adapter, many);
      const all = appended.map((one) => ({
        taskId: one.taskId,
        count: 1,
        lastSequence: one.sequence,
        newest: toSummary(one),
      }));
      for (const order of ["taskId", "recent"] as const) {
        for (const query of [{ order }, { order, limit: 290 }, { order, status: ["completed" as const] }]) {
          const expected = expectedTasks(all, query).map(({ taskId }) => taskId);
          same(await taskIds(adapter, query), expected, `tasks(${show(query)}) MUST yield the tasks that match`);
        }
      }
    },
  },
  {
    name: "tasks.while-writing",
    promise: "keeps iterating while tasks are written and removed, and leaves the store usable after an early break",
    async run(store) {
      const adapter = await store.open();
      for (const taskId of ["a", "b", "c", "d", "e", "f"]) await appendAll(adapter, drafts(taskId, 2));
      const given: string[] = [];
      for await (const item of adapter.tasks({ order: "taskId" })) {
        given.push(intact(item, "tasks MUST yield no corrupt record because of a concurrent write").taskId);
        if (given.length === 2) {
          await adapter.remove("a", "all");
          await adapter.remove("d", "all");
          await adapter.remove("e", ["c2"]);
          await adapter.append(draft("f", "c3"));
          await adapter.append(draft("new", "c1"));
        }
      }
      const found = given.filter((taskId) => taskId !== "d" && taskId !== "new");
      same(found, ["a", "b", "c", "e", "f"], "tasks MUST yield every task that existed all along, once and in order");

      for await (const item of adapter.tasks({ order: "recent" })) {
        intact(item, "tasks MUST yield no corrupt record");
        break;
      }
      await adapter.append(draft("after", "c1"));
      same(
        await taskIds(adapter, { order: "taskId" }),
        ["after", "b", "c", "e", "f", "new"],
        "tasks MUST start from the beginning after an iteration was broken off",
      );
    },
  },
];

type FilledTask = StoredTask & Required<Pick<StoredTask, "newest">>;

async function taskIds(adapter: StorageAdapter, query: TaskQuery): Promise<string[]> {
  const tasks = await collect(adapter.tasks(query));
  return tasks.map((task) => intact(task, "tasks MUST yield no corrupt record if nothing is damaged").taskId);
}

/** Makes tasks whose names contain wildcards. Their newest checkpoints have different statuses and times. */
async function populate(adapter: StorageAdapter): Promise<readonly FilledTask[]> {
  const names = [
    "a",
    "a%b",
    "a*c",
    "a?d",
    "a[e]",
    "a_b",
    "ab",
    "aXb",
    "A",
    "A%b",
    "b",
    "build/1",
    "build/10",
    "build/2",
  ];
  const statuses: CheckpointStatus[] = ["running", "completed", "paused", "failed"];
  const all: FilledTask[] = [];
  for (const [index, taskId] of [...names, "～", "😀", "😀/x"].entries()) {
    await adapter.append(draft(taskId, "c1", { status: statuses[(index + 1) % statuses.length] ?? "running" }));
    const second = draft(taskId, "c2", {
      status: statuses[index % statuses.length] ?? "running",
      createdAt: `2026-01-0${(index % 5) + 1}T00:00:00.000Z`,
    });
    const sequence = await adapter.append(second);
    all.push({ taskId, count: 2, lastSequence: sequence, newest: toSummary({ ...second, sequence }) });
  }
  return all;
}

/** Computes the tasks that the query must return, in the simplest way. */
function expectedTasks(
  all: readonly FilledTask[],
  { prefix = "", after, status, order, limit }: TaskQuery,
): FilledTask[] {
  return all
    .filter(
      ({ taskId, newest }) =>
        taskId.startsWith(prefix) &&
        (after === undefined || compareTaskIds(taskId, after) > 0) &&
        (status === undefined || status.includes(newest.status)),
    )
    .sort((a, b) => compareTaskIds(a.taskId, b.taskId))
    .sort((a, b) => (order === "recent" ? Date.parse(b.newest.createdAt) - Date.parse(a.newest.createdAt) : 0))
    .slice(0, limit);
}

function* taskQueries(): Iterable<TaskQuery> {
  for (const prefix of [undefined, "a", "a%", "a_", "a*", "a?", "a[", "build/1", "😀", "nowhere"]) {
    for (const status of [undefined, ["running"], ["failed", "paused"]] as const) {
      for (const limit of [undefined, 2]) {
        yield { order: "recent", prefix, status, limit };
        for (const after of [undefined, "a_", "build", "～"]) yield { order: "taskId", prefix, status, limit, after };
      }
    }
  }
}

function reversed(text: string): string {
  return [...text].reverse().join("");
}
