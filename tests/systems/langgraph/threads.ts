import { setImmediate as nextTurn } from "node:timers/promises";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { CheckpointConflictError, CheckpointManager, encrypt, type StorageAdapter } from "waymark";
import type { DeleteThreadsQuery, ThreadsQuery, WaymarkSaver } from "waymark/langgraph";
import { checkpointsTask, copyThread, threadPrefix } from "waymark/langgraph/records";
import { collect } from "../../support/postgres.js";
import { newPlace, type Place, type StorageKind, saverOn, threadOf, writesOf } from "./storages.js";

const State = Annotation.Root({
  say: Annotation<string>,
  log: Annotation<string[]>({ reducer: (log, more) => [...log, ...more], default: () => [] }),
});
const DAY_MS = 86_400_000;
const NOW_MS = Date.UTC(2026, 10, 25);

/** Asks, fails or ends, as its input says. */
const graphOn = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(State)
    .addNode("begin", ({ say }) => ({ log: [`begun ${say}`] }))
    .addNode("end", ({ say }) => {
      if (say === "fail") throw new Error("It has failed.");
      return { log: [say === "ask" ? String(interrupt({ question: "Go on?" })) : "done"] };
    })
    .addEdge(START, "begin")
    .addEdge("begin", "end")
    .addEdge("end", END)
    .compile({ checkpointer });

/** Two nodes of one step ask. The graph is a subgraph of another one. */
const nestedOn = (checkpointer: BaseCheckpointSaver) => {
  const asking = new StateGraph(State)
    .addNode("left", () => ({ log: [String(interrupt("left?"))] }))
    .addNode("right", () => ({ log: [String(interrupt("right?"))] }))
    .addEdge(START, "left")
    .addEdge(START, "right")
    .compile();
  return new StateGraph(State)
    .addNode("first", () => ({ log: ["first"] }))
    .addNode("asking", asking)
    .addEdge(START, "first")
    .addEdge("first", "asking")
    .compile({ checkpointer });
};

async function turn(saver: BaseCheckpointSaver, thread: string, say: string) {
  const run = graphOn(saver).invoke({ say }, threadOf(thread));
  if (say === "fail") await expect(run).rejects.toThrow("It has failed.");
  else await run;
}

/** Registers the tests of finding, deleting and copying threads. */
export function registerThreads(kinds: readonly StorageKind[]): void {
  describe.each(kinds)("the threads on %s", (kind) => {
    it("are found with their status, stage, counts and questions, without reading a state", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      await turn(saver, "done", "end");
      await turn(saver, "asking", "ask");
      await turn(saver, "failed", "fail");
      await nestedOn(saver).invoke({ say: "" }, threadOf("nested"));

      const storage = place.open();
      const reads = readsOf(storage);
      const reader = saverOn({ ...place, open: () => storage });
      const threads = new Map((await reader.threads()).map((thread) => [thread.id, thread]));
      expect([...threads.keys()].sort()).toEqual(["asking", "done", "failed", "nested"]);
      expect(threads.get("done")).toMatchObject({ status: "completed", checkpoints: 4, stage: "loop", asks: [] });
      expect(threads.get("asking")).toMatchObject({ status: "paused", asks: [{ question: "Go on?" }] });
      expect(threads.get("failed")).toMatchObject({ status: "failed", asks: [] });
      const nested = threads.get("nested");
      expect(nested?.status).toBe("paused");
      expect(nested?.asks?.toSorted()).toEqual(["left?", "right?"]);
      expect(nested?.checkpoints).toBe(await countOf(place, "nested"));
      for (const [id, { bytes, writtenAt }] of threads) {
        expect(bytes, id).toBe(await bytesOf(place, id));
        expect(writtenAt, id).toBe(await lastOf(place, id));
      }
      expect(reads).toEqual([]);
    });

    it("are no longer paused or failed once a run has continued", async () => {
      const saver = saverOn(await newPlace(kind));
      await turn(saver, "t", "ask");
      await graphOn(saver).invoke(new Command({ resume: "yes" }), threadOf("t"));
      await turn(saver, "u", "fail");
      await graphOn(saver).updateState(threadOf("u"), { say: "end" });
      await graphOn(saver).invoke(null, threadOf("u"));
      expect(await saver.threads()).toMatchObject([
        { id: "u", status: "completed", asks: [] },
        { id: "t", status: "completed", asks: [] },
      ]);
    });

    it("are filtered by prefix, status and the time of the last write, most recent first", async () => {
      const place = await newPlace(kind);
      let nowMs = NOW_MS;
      const saver = saverOn(place, { clock: () => nowMs });
      const long = `team/${"x".repeat(300)}`;
      for (const [id, say] of [
        ["team/b", "ask"],
        ["team/a", "end"],
        ["team%", "end"],
        [long, "ask"],
        ["tea", "fail"],
      ] as const) {
        await turn(saver, id, say);
        nowMs += DAY_MS;
      }
      const idsOf = async (query: ThreadsQuery) => (await saver.threads(query)).map(({ id }) => id);
      expect(await idsOf({})).toEqual(["tea", long, "team%", "team/a", "team/b"]);
      expect(await idsOf({ limit: 2 })).toEqual(["tea", long]);
      expect(await idsOf({ limit: 0 })).toEqual([]);
      expect(await idsOf({ prefix: "team/" })).toEqual([long, "team/a", "team/b"]);
      expect(await idsOf({ prefix: "team%" })).toEqual(["team%"]);
      expect(await idsOf({ prefix: long })).toEqual([long]);
      expect(await idsOf({ prefix: "langgraph/" })).toEqual([]);
      expect(await idsOf({ status: "paused" })).toEqual([long, "team/b"]);
      expect(await idsOf({ status: ["failed", "paused"], limit: 2 })).toEqual(["tea", long]);
      expect(await idsOf({ idleSince: new Date(NOW_MS + 2 * DAY_MS) })).toEqual(["team/a", "team/b"]);
      expect(await idsOf({ idleSince: new Date(NOW_MS + 2 * DAY_MS + 1), prefix: "team%" })).toEqual(["team%"]);

      // An answer is also a write.
      await graphOn(saver).invoke(new Command({ resume: "yes" }), threadOf("team/b"));
      expect(await idsOf({ limit: 1 })).toEqual(["team/b"]);
    });

    it("are deleted if nobody has written to them since", async () => {
      const place = await newPlace(kind);
      let nowMs = NOW_MS;
      const saver = saverOn(place, { clock: () => nowMs });
      await turn(saver, "old", "end");
      await nestedOn(saver).invoke({ say: "" }, threadOf("old and nested"));
      await turn(saver, "old and answered", "ask");
      nowMs += DAY_MS;
      await turn(saver, "new", "end");
      await graphOn(saver).invoke(new Command({ resume: "yes" }), threadOf("old and answered"));

      const checkpoints = (await countOf(place, "old")) + (await countOf(place, "old and nested"));
      const idleSince = new Date(nowMs);
      expect(await saver.deleteThreads({ idleSince })).toEqual({ threads: 2, checkpoints, kept: [] });
      expect((await saver.threads()).map(({ id }) => id).sort()).toEqual(["new", "old and answered"]);
      const left = await collect(place.open().tasks({ prefix: threadPrefix("old"), order: "taskId" }));
      expect(left).toEqual([]);
      expect(await saver.deleteThreads({ idleSince, status: "completed" })).toMatchObject({ threads: 0 });
      expect(await saver.deleteThreads({ status: ["completed"], prefix: "ne" })).toMatchObject({ threads: 1 });
      expect(await saver.getTuple(threadOf("new"))).toBeUndefined();
    });

    it("are kept by a deletion if they are written to meanwhile, or their lease is held", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      for (const id of ["answered", "continued", "leased", "new writes", "untouched"]) await turn(saver, id, "ask");
      await using _lease = await saver.lease("leased");

      const storage = place.open();
      const deleting = saverOn({ ...place, open: () => storage });
      const other = saverOn(place);
      onceBeforeRemoval(storage, "answered", () =>
        graphOn(other).invoke(new Command({ resume: "yes" }), threadOf("answered")),
      );
      onceBeforeRemoval(storage, "continued", () =>
        graphOn(other).updateState(threadOf("continued"), { log: ["updated"] }),
      );
      onceBeforeRemoval(storage, "new writes", async () => {
        const tuple = await other.getTuple(threadOf("new writes"));
        await other.putWrites(tuple?.config ?? {}, [["log", ["more"]]], "task");
      });
      const { threads, kept } = await deleting.deleteThreads({ status: "paused" });
      expect({ threads, kept }).toEqual({ threads: 1, kept: ["answered", "continued", "leased", "new writes"] });

      const { log } = (await graphOn(other).getState(threadOf("answered"))).values;
      expect(log).toEqual(["begun ask", "yes"]);
      const { values } = await graphOn(other).getState(threadOf("continued"));
      expect(values["log"]).toEqual(["begun ask", "updated"]);
      expect((await other.threads()).map(({ id }) => id).sort()).toEqual(kept);
    });

    it("that are deleted under a run refuse its next step", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const graph = new StateGraph(State)
        .addNode("begin", async () => {
          const { threads } = await saverOn(place).deleteThreads({ status: "running" });
          return { log: [`deleted ${threads}`] };
        })
        .addEdge(START, "begin")
        .compile({ checkpointer: saver });
      const run = graph.invoke({ say: "" }, { ...threadOf("t"), durability: "sync" });
      await expect(run).rejects.toBeInstanceOf(CheckpointConflictError);
      expect(await saver.threads()).toEqual([]);
    });

    it("stay deleted even if a subgraph of the run begins after the deletion", async () => {
      const saver = saverOn(await newPlace(kind));
      const asking = new StateGraph(State)
        .addNode("ask", () => ({ log: [String(interrupt("Approve?"))] }))
        .addEdge(START, "ask")
        .compile();
      const graph = new StateGraph(State)
        .addNode("begin", async () => {
          // The run may be under way. Otherwise it would begin the thread after the deletion.
          while ((await saver.getTuple(threadOf("t"))) === undefined) await nextTurn();
          await saver.deleteThread("t");
          return { log: ["deleted"] };
        })
        .addNode("asking", asking)
        .addEdge(START, "begin")
        .addEdge("begin", "asking")
        .compile({ checkpointer: saver });
      await expect(graph.invoke({ say: "" }, threadOf("t"))).rejects.toBeInstanceOf(CheckpointConflictError);
      expect(await saver.threads()).toEqual([]);
    });

    it("are running once they are answered, even if the node that asked was cut off", async () => {
      const saver = saverOn(await newPlace(kind));
      const cutOff = new AbortController();
      const graph = new StateGraph(State)
        .addNode("ask", async () => {
          interrupt("Go on?");
          // The answer is stored while the node runs.
          while ((await saver.threads())[0]?.status === "paused") await nextTurn();
          cutOff.abort();
          return new Promise<never>(() => undefined);
        })
        .addEdge(START, "ask")
        .compile({ checkpointer: saver });
      await graph.invoke({ say: "" }, threadOf("t"));
      expect(await saver.threads()).toMatchObject([{ status: "paused", asks: ["Go on?"] }]);
      const answered = graph.invoke(new Command({ resume: "yes" }), { ...threadOf("t"), signal: cutOff.signal });
      await expect(answered).rejects.toThrow("aborted");
      expect(await saver.threads()).toMatchObject([{ status: "running", asks: [] }]);
    });

    it("are all deleted, in batches", async () => {
      const place = await newPlace(kind);
      const manager = new CheckpointManager({ storage: place.open() });
      const ids = Array.from({ length: 205 }, (_, i) => `t${i}`);
      for (const threadId of ids) {
        await manager.save(checkpointsTask({ threadId, namespace: "" }), {}, { status: "completed" });
      }
      const saver = saverOn(place);
      expect(await saver.deleteThreads({ status: "completed" })).toEqual({ threads: 205, checkpoints: 205, kept: [] });
      expect(await saver.threads()).toEqual([]);
    });

    it("are copied with everything they have, and original and copy continue separately", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      await turn(saver, "t", "end");
      await turn(saver, "t", "ask");
      const copy = `copy/${"y".repeat(300)}`;
      await saver.copyThread("t", copy);

      expect(await saver.threads({ prefix: "copy/" })).toMatchObject([
        { id: copy, status: "paused", asks: [{ question: "Go on?" }] },
      ]);
      const historyOf = async (id: string) =>
        (await collect(saver.list(threadOf(id)))).map(({ checkpoint, pendingWrites }) => ({
          checkpoint,
          pendingWrites,
        }));
      expect(await historyOf(copy)).toEqual(await historyOf("t"));
      for (const [id, answer] of [
        [copy, "from the copy"],
        ["t", "from the original"],
      ] as const) {
        const { log } = await graphOn(saverOn(place)).invoke(new Command({ resume: answer }), threadOf(id));
        expect(log).toEqual(["begun end", "done", "begun ask", answer]);
      }
      await saver.deleteThread("t");
      expect((await graphOn(saver).getState(threadOf(copy))).values["log"]).toHaveLength(4);
    });

    it("are copied with their waiting subgraphs", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      await nestedOn(saver).invoke({ say: "" }, threadOf("t"));
      await saver.copyThread("t", "u");
      const graph = nestedOn(saverOn(place));
      const { tasks } = await graph.getState(threadOf("u"));
      const answers = Object.fromEntries(
        tasks.flatMap(({ interrupts }) => interrupts.map(({ id, value }) => [id, value])),
      );
      const { log } = await graph.invoke(new Command({ resume: answers }), threadOf("u"));
      expect(log).toEqual(["first", "first", "left?", "right?"]);
      expect((await nestedOn(saver).getState(threadOf("t"))).tasks[0]?.interrupts).toHaveLength(2);
    });

    it("are copied up to a checkpoint, with a subgraph's own history up to then", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const counting = new StateGraph(State)
        .addNode("count", ({ log }) => ({ log: [`call ${log.length + 1}`] }))
        .addEdge(START, "count")
        .compile({ checkpointer: true });
      const graph = new StateGraph(State)
        .addNode("counting", async () => {
          const { log } = await counting.invoke({ say: "" });
          return { log: [String(log.at(-1))] };
        })
        .addEdge(START, "counting")
        .compile({ checkpointer: saver });
      await graph.invoke({ say: "one" }, threadOf("t"));
      const { config } = await graph.getState(threadOf("t"));
      await graph.invoke({ say: "two" }, threadOf("t"));
      await copyThread({ storage: place.open() }, "t", "u", config.configurable?.["checkpoint_id"]);
      expect((await graph.invoke({ say: "other two" }, threadOf("u")))["log"]).toEqual(["call 1", "call 2"]);
      expect((await graph.invoke({ say: "three" }, threadOf("t")))["log"]).toEqual(["call 1", "call 2", "call 3"]);
    });

    it("aren't copied up to a checkpoint that lost values by pruning", async () => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      for (const say of ["one", "two", "end"]) await turn(saver, "t", say);
      const before = await collect(saver.list(threadOf("t")));
      await saver.prune("t", { keepLast: 1 });
      const whole = new Set((await collect(saver.list(threadOf("t")))).map(({ checkpoint }) => checkpoint.id));
      const manager = new CheckpointManager({ storage: place.open() });
      const left = (await manager.list(checkpointsTask({ threadId: "t", namespace: "" }))).map(({ id }) => id);
      const lost = left.filter((id) => !whole.has(id));
      expect(before.length).toBeGreaterThan(left.length);
      expect(lost.length).toBeGreaterThan(0);
      const copied = copyThread({ storage: place.open() }, "t", "u", lost[0]);
      await expect(copied).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
      expect(await saver.threads()).toMatchObject([{ id: "t" }]);
    });

    it("are found, copied and answered if they are encrypted", async () => {
      const place = await newPlace(kind);
      const transforms = [encrypt({ keys: { one: Buffer.alloc(32, 1) }, current: "one" })];
      const saver = saverOn(place, { transforms });
      await turn(saver, "t", "ask");
      await saver.copyThread("t", "u");
      expect(await saver.threads()).toMatchObject([
        { id: "u", status: "paused", asks: [{ question: "Go on?" }] },
        { id: "t", status: "paused", asks: [{ question: "Go on?" }] },
      ]);
      const stored = await recordsOf(place, "t");
      expect(JSON.stringify(stored)).not.toContain("Go on?");
      const { log } = await graphOn(saverOn(place, { transforms })).invoke(
        new Command({ resume: "yes" }),
        threadOf("u"),
      );
      expect(log).toEqual(["begun ask", "yes"]);
    });

    it("aren't copied if a record can't be read, and nothing of the copy stays", async () => {
      const place = await newPlace(kind);
      await turn(saverOn(place), "t", "ask");
      const storage = place.open();
      const get = storage.get.bind(storage);
      let left = 2;
      storage.get = async (taskId, id) => {
        left -= 1;
        return left < 0 ? { corrupt: true, location: "there", reason: "it is damaged" } : get(taskId, id);
      };
      const copied = saverOn({ ...place, open: () => storage }).copyThread("t", "u");
      await expect(copied).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
      const taskIds = (await collect(place.open().tasks({ order: "taskId" }))).map(({ taskId }) => taskId);
      expect(taskIds.filter((taskId) => taskId?.startsWith(threadPrefix("u")))).toEqual([]);
    });

    it("aren't copied onto an existing thread, nor if there is nothing to copy", async () => {
      const saver = saverOn(await newPlace(kind));
      await turn(saver, "t", "ask");
      await turn(saver, "u", "end");
      await expect(saver.copyThread("t", "u")).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
      await expect(saver.copyThread("t", "t")).rejects.toThrow("can't be copied onto itself");
      await expect(saver.copyThread("nobody's", "v")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
      await expect(saver.copyThread("t", "")).rejects.toThrow(TypeError);
      expect(await saver.threads()).toMatchObject([{ id: "u", status: "completed" }, { id: "t" }]);
    });
  });
}

/** Registers the tests of the options. */
export function registerThreadOptions(saver: () => WaymarkSaver): void {
  it.each([
    [{ prefx: "t" }, 'ThreadsQuery has no "prefx"'],
    [{ prefix: 7 }, "ThreadsQuery.prefix must be a string"],
    [{ status: "done" }, 'not "done"'],
    [{ status: 7 }, "ThreadsQuery.status is one status"],
    [{ idleSince: "30d" }, "ThreadsQuery.idleSince must be a valid Date"],
    [{ idleSince: new Date(Number.NaN) }, "ThreadsQuery.idleSince must be a valid Date"],
    [{ limit: "2" }, "ThreadsQuery.limit must be a number"],
  ])("threads refuses the query %o", async (query, message) => {
    const found = saver().threads(query as unknown as ThreadsQuery);
    await expect(found).rejects.toBeInstanceOf(TypeError);
    await expect(found).rejects.toThrow(message);
  });

  it.each([
    [{}, "Pass deleteThreads a status or idleSince"],
    [{ prefix: "t" }, "Pass deleteThreads a status or idleSince"],
    [undefined, "DeleteThreadsQuery must be an object"],
    [{ status: "completed", limit: 2 }, 'DeleteThreadsQuery has no "limit"'],
  ])("deleteThreads refuses the query %o", async (query, message) => {
    const deleted = saver().deleteThreads(query as unknown as DeleteThreadsQuery);
    await expect(deleted).rejects.toBeInstanceOf(TypeError);
    await expect(deleted).rejects.toThrow(message);
  });
}

/** The tasks whose payloads are read from now on. */
function readsOf(storage: StorageAdapter): readonly string[] {
  const reads: string[] = [];
  const { get, read } = { get: storage.get.bind(storage), read: storage.read.bind(storage) };
  storage.get = (taskId, id) => {
    reads.push(taskId);
    return get(taskId, id);
  };
  storage.read = (query) => {
    reads.push(query.taskId);
    return read(query);
  };
  return reads;
}

/** Calls a function once, after the thread was found and before its turn to be removed comes. */
function onceBeforeRemoval(storage: StorageAdapter, threadId: string, call: () => Promise<unknown>): void {
  let isCalled = false;
  const tasks = storage.tasks.bind(storage);
  storage.tasks = async function* (query) {
    if (!isCalled && query.prefix === threadPrefix(threadId)) {
      isCalled = true;
      await call();
    }
    yield* tasks(query);
  };
}

/** The summaries of a thread's checkpoints, and the headers of its writes. */
async function recordsOf(place: Place, threadId: string) {
  const storage = place.open();
  const tasks = await collect(storage.tasks({ prefix: threadPrefix(threadId), order: "taskId" }));
  const records = await Promise.all(tasks.map(({ taskId = "" }) => collect(storage.list({ taskId, order: "oldest" }))));
  const summaries = records.flat().flatMap((record) => ("corrupt" in record ? [] : [record]));
  return [...summaries, ...(await writesOf(place, threadId))];
}

async function countOf(place: Place, threadId: string): Promise<number> {
  return (await recordsOf(place, threadId)).filter((record) => !("kind" in record)).length;
}

async function bytesOf(place: Place, threadId: string): Promise<number> {
  return (await recordsOf(place, threadId)).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

async function lastOf(place: Place, threadId: string): Promise<string | undefined> {
  return (await recordsOf(place, threadId))
    .map(({ createdAt }) => createdAt)
    .sort()
    .at(-1);
}
