// Short programs like users' programs. They must get the same thread on MemorySaver and on WaymarkSaver.
import type { BaseMessage } from "@langchain/core/messages";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  DeltaChannel,
  entrypoint,
  getPreviousState,
  getStore,
  InMemoryStore,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { collect } from "../../support/postgres.js";
import { threadOf } from "./storages.js";

/** Returns a checkpointer for the same threads each time, as another process would have it. */
export type Open = () => BaseCheckpointSaver;
/** Returns everything that its user sees. */
export type Program = (open: Open) => Promise<unknown>;

const list = { reducer: (log: string[], more: string[]) => [...log, ...more], default: () => [] as string[] };
export const Log = Annotation.Root({ log: Annotation<string[]>(list) });
export const thread = threadOf("t");

/** A thread as the program shows it: its state and its history. */
interface Readable {
  getState(config: typeof thread, options?: { subgraphs?: boolean }): Promise<object>;
  getStateHistory(config: typeof thread): AsyncIterable<object>;
}

export async function seen(graph: Readable): Promise<unknown> {
  const state = await graph.getState(thread, { subgraphs: true });
  return { state, history: await collect(graph.getStateHistory(thread)) };
}

/** Replaces ids by numbers in the order of their appearance, and leaves out times, so that two runs give the same. */
export function comparable(found: unknown): unknown {
  const ids = new Map<string, string>();
  const numbered = (id: string) => {
    if (!ids.has(id)) ids.set(id, `<id ${ids.size}>`);
    return ids.get(id) ?? "";
  };
  const text = JSON.stringify(found, (key, value) =>
    key === "createdAt" || key === "timestamp" || key === "ts" ? "" : value,
  );
  return JSON.parse(text.replace(/[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b/g, numbered));
}

export const PROGRAMS: Readonly<Record<string, Program>> = {
  async "a subgraph that asks"(open) {
    const inner = new StateGraph(Log)
      .addNode("draft", () => ({ log: ["draft"] }))
      .addNode("ask", () => ({ log: [`asked: ${interrupt("send it?")}`] }))
      .addEdge(START, "draft")
      .addEdge("draft", "ask")
      .compile();
    const graph = () =>
      new StateGraph(Log)
        .addNode("inner", inner)
        .addNode("after", () => ({ log: ["after"] }))
        .addEdge(START, "inner")
        .addEdge("inner", "after")
        .compile({ checkpointer: open() });
    const first = await graph().invoke({ log: ["input"] }, thread);
    const waiting = await seen(graph());
    const updates = await collect(
      await graph().stream(new Command({ resume: "yes" }), { ...thread, subgraphs: true, streamMode: "updates" }),
    );
    return [first, waiting, updates, await seen(graph())];
  },

  async "a subgraph with a checkpointer of its own"(open) {
    const inner = new StateGraph(Log)
      .addNode("count", ({ log }) => ({ log: [`${log.length} of the subgraph`] }))
      .addEdge(START, "count")
      .compile({ checkpointer: true });
    const graph = () =>
      new StateGraph(Annotation.Root({ turn: Annotation<number>, log: Annotation<string[]> }))
        .addNode("inner", async ({ turn }, config) => inner.invoke({ log: [`turn ${turn}`] }, config))
        .addEdge(START, "inner")
        .compile({ checkpointer: open() });
    const results = [];
    for (const turn of [1, 2, 3]) results.push(await graph().invoke({ turn }, thread));
    return [results, await seen(graph())];
  },

  async "Send: a worker for each part, and a summary"(open) {
    const State = Annotation.Root({ ...Log.spec, parts: Annotation<string[]> });
    const graph = () =>
      new StateGraph(State)
        .addNode("plan", () => ({ parts: ["a", "b", "c"] }))
        .addNode("worker", ({ part }: { part: string }) => ({ log: [part.toUpperCase()] }))
        .addNode("sum", ({ log }) => ({ log: [log.join("+")] }))
        .addEdge(START, "plan")
        .addConditionalEdges("plan", ({ parts }) => parts.map((part) => new Send("worker", { part })), ["worker"])
        .addEdge("worker", "sum")
        .compile({ checkpointer: open() });
    return [
      await collect(await graph().stream({ log: [] }, { ...thread, streamMode: "updates" })),
      await seen(graph()),
    ];
  },

  async "several interrupts, side by side and one after another in a node"(open) {
    const graph = () =>
      new StateGraph(Log)
        .addNode("one", () => ({ log: [`${interrupt("name?")} ${interrupt("place?")}`] }))
        .addNode("other", () => ({ log: [`${interrupt({ question: "when?" })}`] }))
        .addNode("end", () => ({ log: ["end"] }))
        .addEdge(START, "one")
        .addEdge(START, "other")
        .addEdge(["one", "other"], "end")
        .compile({ checkpointer: open() });
    const shown = [await graph().invoke({ log: [] }, thread), await seen(graph())];
    for (let answer = 1; answer <= 2; answer++) {
      const { tasks } = await graph().getState(thread);
      const asked = tasks.flatMap(({ interrupts }) => interrupts.map(({ id = "" }) => [id, `answer ${answer}`]));
      shown.push(await graph().invoke(new Command({ resume: Object.fromEntries(asked) }), thread), await seen(graph()));
    }
    return shown;
  },

  async "entrypoint and task, with the last run's result"(open) {
    const runs: string[] = [];
    const double = task("double", async (n: number) => {
      runs.push(`double ${n}`);
      return 2 * n;
    });
    const flow = () =>
      entrypoint({ name: "flow", checkpointer: open() }, async (n: number) => {
        const before = getPreviousState<number>() ?? 0;
        const [a, b] = await Promise.all([double(n), double(n + 1)]);
        const more = interrupt<string, number>(`add to ${a} and ${b}?`);
        return entrypoint.final({ value: a + b + more + before, save: a + b });
      });
    const results = [];
    for (const n of [1, 10]) {
      results.push(await flow().invoke(n, thread), await flow().getState(thread));
      results.push(await flow().invoke(new Command({ resume: 100 }), thread));
    }
    return [results, runs, await seen(flow())];
  },

  async "a node that fails, and the run that continues"(open) {
    let isDown = true;
    const runs: string[] = [];
    const graph = () =>
      new StateGraph(Log)
        .addNode("steady", () => {
          runs.push("steady");
          return { log: ["steady"] };
        })
        .addNode("shaky", () => {
          runs.push("shaky");
          if (isDown) throw new RangeError("The tool is down.");
          return { log: ["shaky"] };
        })
        .addNode("end", () => ({ log: ["end"] }))
        .addEdge(START, "steady")
        .addEdge(START, "shaky")
        .addEdge(["steady", "shaky"], "end")
        .compile({ checkpointer: open() });
    const failed = await graph().invoke({ log: [] }, thread).catch(String);
    const between = await seen(graph());
    isDown = false;
    return [failed, between, await graph().invoke(null, thread), runs, await seen(graph())];
  },

  async "a node that is tried again"(open) {
    let tries = 0;
    const graph = () =>
      new StateGraph(Log)
        .addNode(
          "shaky",
          () => {
            tries += 1;
            if (tries < 3) throw new Error("not yet");
            return { log: [`at try ${tries}`] };
          },
          { retryPolicy: { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false } },
        )
        .addEdge(START, "shaky")
        .compile({ checkpointer: open() });
    return [await graph().invoke({ log: [] }, thread), await seen(graph())];
  },

  async "branches side by side, with a join and a deferred node"(open) {
    const graph = () =>
      new StateGraph(Log)
        .addNode("a", () => ({ log: ["a"] }))
        .addNode("b", () => ({ log: ["b"] }))
        .addNode("b2", () => ({ log: ["b2"] }))
        .addNode("join", ({ log }) => ({ log: [`joined ${log}`] }))
        .addNode("last", () => ({ log: ["last"] }), { defer: true })
        .addEdge(START, "a")
        .addEdge(START, "b")
        .addEdge("b", "b2")
        .addEdge(["a", "b2"], "join")
        .addEdge("a", "last")
        .addEdge("join", "last")
        .compile({ checkpointer: open() });
    return [await collect(await graph().stream({ log: [] }, { ...thread, streamMode: "values" })), await seen(graph())];
  },

  async "breakpoints that are set when the graph is compiled, and when it is run"(open) {
    const graph = () =>
      new StateGraph(Log)
        .addNode("a", () => ({ log: ["a"] }))
        .addNode("b", () => ({ log: ["b"] }))
        .addNode("c", () => ({ log: ["c"] }))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .addEdge("b", "c")
        .compile({ checkpointer: open(), interruptBefore: ["b"] });
    const shown = [await graph().invoke({ log: [] }, thread), await seen(graph())];
    await graph().updateState(thread, { log: ["by hand"] });
    shown.push(await graph().invoke(null, { ...thread, interruptAfter: ["b"] }), await seen(graph()));
    return [...shown, await graph().invoke(null, thread), await seen(graph())];
  },

  async "time travel: a replay, an update of the past, and a fork"(open) {
    const graph = () =>
      new StateGraph(Log)
        .addNode("a", ({ log }) => ({ log: [`a${log.length}`] }))
        .addNode("b", ({ log }) => ({ log: [`b${log.length}`] }))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: open() });
    const shown: unknown[] = [];
    for (const turn of ["first", "second"]) shown.push(await graph().invoke({ log: [turn] }, thread));
    const past = (await collect(graph().getStateHistory(thread))).filter(({ next }) => next.includes("b"));
    shown.push(past);
    const old = past.at(-1)?.config ?? {};
    shown.push(await graph().invoke(null, old), await seen(graph()));
    const updated = await graph().updateState(old, { log: ["changed"] }, "a");
    shown.push(await graph().invoke(null, updated), await seen(graph()));
    const forked = await graph().updateState(old, null, "__copy__");
    return [...shown, await graph().invoke(null, forked), await seen(graph())];
  },

  async "DeltaChannel: a list that stores only its changes"(open) {
    const State = Annotation.Root({
      delta: () =>
        new DeltaChannel<string[], string[]>((log, more) => [...log, ...more.flat()], { snapshotFrequency: 3 }),
    });
    const graph = () =>
      new StateGraph(State)
        .addNode("a", () => ({ delta: ["a"] }))
        .addNode("b", () => ({ delta: ["b"] }))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: open() });
    const results = [];
    for (const turn of ["1", "2", "3", "4"]) results.push(await graph().invoke({ delta: [turn] }, thread));
    return [results, await seen(graph())];
  },

  async "a store beside the checkpointer"(open) {
    const store = new InMemoryStore();
    const graph = () =>
      new StateGraph(MessagesAnnotation)
        .addNode("model", async ({ messages }: { messages: BaseMessage[] }) => {
          const memories = await getStore()?.search(["ann"]);
          await getStore()?.put(["ann"], `${messages.length}`, { text: messages.at(-1)?.text });
          return { messages: [new AIMessage(`I remember ${memories?.length} things.`)] };
        })
        .addEdge(START, "model")
        .compile({ checkpointer: open(), store });
    const results = [];
    for (const text of ["I like tea.", "And cake."]) {
      results.push(await graph().invoke({ messages: [new HumanMessage(text)] }, thread));
    }
    return [results, (await store.search(["ann"])).map(({ key, value }) => [key, value]), await seen(graph())];
  },
};

const MODES = ["values", "updates", "custom", "debug", "checkpoints", "tasks"] as const;

/** A graph for streaming and for each durability. */
const talking = (open: Open) =>
  new StateGraph(Log)
    .addNode("a", (_state, { writer }) => {
      writer?.({ progress: 50 });
      return { log: ["a"] };
    })
    .addNode("b", () => ({ log: ["b"] }))
    .addNode("c", () => ({ log: [`c: ${interrupt("go on?")}`] }))
    .addEdge(START, "a")
    .addEdge(START, "b")
    .addEdge(["a", "b"], "c")
    .compile({ checkpointer: open() });

export const STREAMS: Readonly<Record<string, Program>> = Object.fromEntries([
  ...MODES.map((mode): [string, Program] => [
    `streamMode "${mode}"`,
    async (open) => {
      const options = { ...thread, streamMode: mode };
      const asked = await collect(await talking(open).stream({ log: [] }, options));
      return [asked, await collect(await talking(open).stream(new Command({ resume: "yes" }), options))];
    },
  ]),
  [
    "all stream modes at once",
    async (open) => collect(await talking(open).stream({ log: [] }, { ...thread, streamMode: [...MODES] })),
  ],
  ...(["sync", "async", "exit"] as const).map((durability): [string, Program] => [
    `durability "${durability}"`,
    async (open) => {
      const asked = await talking(open).invoke({ log: ["input"] }, { ...thread, durability });
      const waiting = await seen(talking(open));
      const answered = await talking(open).invoke(new Command({ resume: "yes" }), { ...thread, durability });
      return [asked, waiting, answered, await seen(talking(open))];
    },
  ]),
]);
