import type { StorageAdapter } from "../../src/contract/adapter.js";
import type { CheckpointDraft, CheckpointStatus } from "../../src/contract/checkpoint.js";
import type { ClaimedTask, DueQuery, TaskQueue } from "../../src/contract/task-queue.js";
import { NEVER, transientMetadata } from "../../src/contract/transient.js";
import { same } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft } from "../drafts.js";
import { appendAll, requireLeases, untilFree } from "../steps.js";

/** A time longer than any case takes. */
const LONG_MS = 600_000;
const SHORT_MS = 200;

/** The cases of adapters with a `queue`. */
export const dueCases: readonly ConformanceCase[] = [
  {
    name: "due.only-due",
    promise: "returns the tasks with the prefix that are due by `dueAt` and have no holder",
    about: "queue",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      same(await next(adapter), undefined, "claimNext of an empty store MUST return undefined");
      same(await requireQueue(adapter).count(QUERY), NOTHING, "count of an empty store MUST be 0");
      await appendAll(adapter, [
        draft("q/plain", "c1"),
        draft("q/child", "c1", {
          status: "paused",
          metadata: { waymark: { run: true, parent: { taskId: "q/parent", turn: 1 }, until: at(1) } },
        }),
        ofRun("q/completed", "c1", { status: "completed" }),
        ofRun("q/failed", "c1", { status: "failed" }),
        ofRun("q/later", "c1", { status: "paused", dueAt: at(31) }),
        ofRun("q/never", "c1", { status: "paused", dueAt: NEVER }),
        ofRun("other/due", "c1", { status: "paused", dueAt: at(1) }),
        ofRun("q", "c1", { status: "paused" }),
        ofRun("q/held", "c1", { status: "running" }),
        ofRun("q/due", "c1", { status: "paused", dueAt: at(29) }),
        ofRun("q/now", "c1", { status: "paused", dueAt: at(30) }),
        ofRun("q/enqueued", "c1", { status: "paused" }),
        ofRun("q/orphaned", "c1", { status: "running" }),
      ]);
      await requireLeases(adapter).claim("q/held", "somebody", LONG_MS);
      adapter = await store.carryOn(adapter);
      const due = ["q/due", "q/enqueued", "q/now", "q/orphaned"];
      same(
        (await requireQueue(adapter).count(QUERY)).tasks,
        due.length,
        "count MUST count the due tasks of the prefix",
      );
      const given = await allDue(adapter);
      same(given.map(({ taskId }) => taskId).toSorted(), due, "claimNext MUST return each due task of the prefix once");
      for (const { taskId, token } of given) {
        same(token, 1, "claimNext MUST return the token of its claim");
        const held = await requireLeases(adapter).current(taskId);
        same([held?.holder, held?.token], ["worker", 1], "claimNext MUST claim the task for its caller");
      }
      await requireLeases(adapter).release("q/due", 1);
      same(await next(adapter), { taskId: "q/due", token: 2 }, "a task that is still due MUST be returned again");
    },
  },
  {
    name: "due.changes",
    promise: "decides by the newest checkpoint that a task has now",
    about: "queue",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const is = async (due: boolean, obligation: string) => {
        adapter = await store.carryOn(adapter);
        same((await requireQueue(adapter).count(QUERY)).tasks, due ? 1 : 0, obligation);
        const claimed = await next(adapter);
        same(claimed?.taskId, due ? "q/t" : undefined, obligation);
        if (claimed !== undefined) await requireLeases(adapter).release(claimed.taskId, claimed.token);
      };
      await adapter.append(ofRun("q/t", "c1", { status: "paused", dueAt: NEVER }));
      await is(false, "a paused task MUST NOT be due before its time");
      await adapter.setStatus("q/t", "c1", { status: "running" });
      await is(true, "a task that waited MUST be due once it is running");
      await adapter.setStatus("q/t", "c1", { status: "failed", error: { message: "no" } });
      await is(false, "a failed task MUST NOT be due");
      await adapter.setStatus("q/t", "c1", { status: "paused" });
      await is(false, "a task that is paused again MUST wait for its time again");
      await adapter.append(ofRun("q/t", "c2", { status: "paused", dueAt: at(5) }));
      await is(true, "the newest checkpoint MUST decide whether a task is due");
      await adapter.append(draft("q/t", "c3"));
      await is(false, "a task whose newest checkpoint has no `dueAt` MUST NOT be due");
      await adapter.remove("q/t", ["c3"]);
      await is(true, "if the newest checkpoint is removed, the one before it MUST decide");
      await adapter.remove("q/t", ["c2"]);
      await is(false, "if the newest checkpoint is removed, the one before it MUST decide");
      await adapter.append(ofRun("q/t", "c4", { status: "running" }), {}, { replaces: "c1" });
      await is(true, "a running task without a holder MUST be due");
      await adapter.remove("q/t", "all");
      await is(false, "a removed task MUST NOT be due");
    },
  },
  {
    name: "due.order",
    promise: "returns the paused tasks in the order of their times",
    about: "queue",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const times = [17, 3, 11, 29, 2, 23, 5];
      await appendAll(
        adapter,
        times.map((second) => ofRun(`q/${second}`, "c1", { status: "paused", dueAt: at(second) })),
      );
      adapter = await store.carryOn(adapter);
      same(
        await requireQueue(adapter).count(QUERY),
        { tasks: times.length, oldestDueAt: at(2) },
        "count MUST return the earliest time",
      );
      const order = times.toSorted((a, b) => a - b).map((second) => `q/${second}`);
      same(
        (await allDue(adapter)).map(({ taskId }) => taskId),
        order,
        "claimNext MUST return the task first that is due first",
      );
      same(await requireQueue(adapter).count(QUERY), NOTHING, "count MUST leave out held tasks");
    },
  },
  {
    name: "due.limit",
    promise: "returns no more tasks at once than `limit`",
    about: "queue",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const taskIds = Array.from({ length: 7 }, (_, n) => `q/${n}`);
      await appendAll(
        adapter,
        taskIds.map((taskId) => ofRun(taskId, "c1", { status: "paused" })),
      );
      // The workers of three tasks have died.
      const died = taskIds.slice(0, 3);
      for (const taskId of died) await requireLeases(adapter).claim(taskId, "worker", SHORT_MS);
      for (const taskId of died) await untilFree(requireLeases(adapter), taskId);
      adapter = await store.carryOn(adapter);
      const given: string[] = [];
      for (;;) {
        const tasks = await requireQueue(adapter).claimNext(QUERY, "worker", LONG_MS, 2);
        if (tasks.length === 0) break;
        same(tasks.length <= 2, true, "claimNext MUST return at most `limit` tasks");
        for (const { taskId, token } of tasks) {
          same(
            (await requireLeases(adapter).current(taskId))?.token,
            token,
            "claimNext MUST claim each task that it returns",
          );
          given.push(taskId);
        }
      }
      same(given.toSorted(), taskIds, "claimNext MUST return each due task once");
    },
  },
  {
    name: "due.except",
    promise: "leaves out the excepted tasks, even those whose runner has died, and returns them to other queries",
    about: "queue",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const taskIds = ["q/a", "q/b", 'q/it\'s "q"', "q/died", "q/died-too"];
      await appendAll(
        adapter,
        taskIds.map((taskId) => ofRun(taskId, "c1", { status: "paused" })),
      );
      const died = taskIds.slice(3);
      for (const taskId of died) await requireLeases(adapter).claim(taskId, "worker", SHORT_MS);
      for (const taskId of died) await untilFree(requireLeases(adapter), taskId);
      adapter = await store.carryOn(adapter);
      const query = { ...QUERY, except: ["q/a", 'q/it\'s "q"', "q/died", "q/unknown"] };
      const obligation = "claimNext and count MUST leave out the excepted tasks";
      same((await requireQueue(adapter).count(query)).tasks, 2, obligation);
      const given: string[] = [];
      for (;;) {
        const tasks = await requireQueue(adapter).claimNext(query, "worker", LONG_MS, 5);
        if (tasks.length === 0) break;
        given.push(...tasks.map(({ taskId }) => taskId));
      }
      same(given.toSorted(), ["q/b", "q/died-too"], obligation);
      same(
        (await allDue(adapter)).map(({ taskId }) => taskId).toSorted(),
        ["q/a", "q/died", 'q/it\'s "q"'],
        "a query that doesn't except the tasks MUST return them",
      );
    },
  },
  {
    name: "due.one-holder",
    promise: "returns each due task to only one of several concurrent callers",
    about: "queue",
    async run(store) {
      const adapter = await store.open();
      await appendAll(
        adapter,
        Array.from({ length: 10 }, (_, n) => ofRun(`q/${n}`, "c1", { status: "paused" })),
      );
      const claims = await Promise.all(
        Array.from({ length: 5 }, (_, n) => requireQueue(adapter).claimNext(QUERY, `worker-${n}`, LONG_MS, 3)),
      );
      const given = [...claims.flat(), ...(await allDue(adapter))];
      same(
        given.map(({ taskId }) => taskId).toSorted(),
        Array.from({ length: 10 }, (_, n) => `q/${n}`),
        "each due task MUST be returned once",
      );
    },
  },
  {
    name: "due.many-processes",
    promise: "returns each due task to only one of many processes",
    about: "queue",
    needs: "multiProcess",
    async run(store) {
      const adapter = await store.open();
      await appendAll(
        adapter,
        Array.from({ length: 24 }, (_, n) => ofRun(`q/${n}`, "c1", { status: "paused" })),
      );
      const others = await Promise.all(Array.from({ length: 4 }, () => store.elsewhere()));
      const claims = await Promise.all(others.map((other, n) => allDue(other, `worker-${n}`)));
      const given = claims.flat().map(({ taskId }) => taskId);
      same(
        given.toSorted(),
        Array.from({ length: 24 }, (_, n) => `q/${n}`).toSorted(),
        "each due task MUST be returned once",
      );
      for (const [n, tasks] of claims.entries()) {
        for (const { taskId } of tasks) {
          same(
            (await requireLeases(adapter).current(taskId))?.holder,
            `worker-${n}`,
            "the caller MUST hold the task it got",
          );
        }
      }
    },
  },
  {
    name: "due.unreleased",
    promise: "returns a waiting task before its time if its last lease expired without a release",
    about: "queue",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      for (const taskId of ["q/died", "q/released", "q/completed"]) {
        const { token } = await requireLeases(adapter).claim(taskId, "worker", LONG_MS);
        const status = taskId === "q/completed" ? "completed" : "paused";
        await adapter.append(ofRun(taskId, "c1", { status, dueAt: NEVER }), { fencingToken: token });
        if (taskId === "q/released") await requireLeases(adapter).release(taskId, token);
        else await requireLeases(adapter).renew(taskId, token, SHORT_MS);
      }
      for (const taskId of ["q/died", "q/completed"]) await untilFree(requireLeases(adapter), taskId);
      adapter = await store.carryOn(adapter);
      const obligation = "only the task whose lease expired without a release MUST be due";
      same((await requireQueue(adapter).count(QUERY)).tasks, 1, obligation);
      same(await next(adapter), { taskId: "q/died", token: 2 }, obligation);
      await requireLeases(adapter).release("q/died", 2);
      same(await next(adapter), undefined, "after a release, the task MUST wait for its time");
    },
  },
];

const QUERY: DueQuery = { prefix: "q/", dueBy: at(30) };
const NOTHING = { tasks: 0, oldestDueAt: undefined };

function at(second: number): string {
  return new Date(Date.UTC(2026, 0, 2, 3, 4, second)).toISOString();
}

/** Makes a checkpoint of a run that workers may continue. */
function ofRun(
  taskId: string,
  id: string,
  { status, dueAt = at(1) }: { readonly status: CheckpointStatus; readonly dueAt?: string },
): CheckpointDraft {
  return draft(taskId, id, {
    createdAt: at(1),
    status,
    dueAt,
    metadata: transientMetadata(undefined),
    ...(status === "failed" && { error: { message: "no" } }),
  });
}

async function next(adapter: StorageAdapter, holder = "worker"): Promise<ClaimedTask | undefined> {
  const [claimed] = await requireQueue(adapter).claimNext(QUERY, holder, LONG_MS, 1);
  return claimed;
}

async function allDue(adapter: StorageAdapter, holder = "worker"): Promise<ClaimedTask[]> {
  const given: ClaimedTask[] = [];
  for (;;) {
    const claimed = await next(adapter, holder);
    if (claimed === undefined) return given;
    given.push(claimed);
  }
}

function requireQueue({ queue }: StorageAdapter): TaskQueue {
  if (queue) return queue;
  throw new Error("The adapter has no queue.");
}
