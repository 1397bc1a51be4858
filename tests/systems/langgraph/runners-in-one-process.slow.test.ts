import { Annotation, Command, DeltaChannel, interrupt, START, StateGraph } from "@langchain/langgraph";
import { type BaseCheckpointSaver, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { CheckpointConflictError } from "waymark";
import type { WaymarkSaver } from "waymark/langgraph";
import { deferred } from "../../support/deferred.js";
import { collect } from "../../support/postgres.js";
import { withMembers } from "../../support/with-members.js";
import { newPlace, saverOn, threadOf } from "./storages.js";

const State = Annotation.Root({
  by: Annotation<string>,
  log: Annotation<string[]>({ reducer: (log, more) => [...log, ...more], default: () => [] }),
  delta: () => new DeltaChannel<string[], string[]>((log, more) => [...log, ...more.flat()]),
});

/** Three nodes, each of which notes the runner. */
const compiled = (
  checkpointer: BaseCheckpointSaver,
  before: (node: string, by: string) => Promise<void> | void = () => {},
) => {
  const node =
    (name: string) =>
    async ({ by }: typeof State.State) => {
      await before(name, by);
      return { log: [`${name} by ${by}`], delta: [`${name} by ${by}`] };
    };
  return new StateGraph(State)
    .addNode("one", node("one"))
    .addNode("two", node("two"))
    .addNode("three", node("three"))
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", "three")
    .compile({ checkpointer });
};
const logOf = (by: string) => ["one", "two", "three"].map((node) => `${node} by ${by}`);

describe.each(["memory", "sqlite"] as const)("on %s", (kind) => {
  describe("of two runs that continue from one checkpoint, the second is refused", () => {
    const cases = ["one saver", "two savers"].flatMap((on) =>
      (["async", "sync", "exit"] as const).map((durability) => ({ on, durability })),
    );

    it.each(cases)("on $on, with durability $durability", async ({ on, durability }) => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const other = on === "one saver" ? saver : saverOn(place);
      await compiled(saver).invoke({ by: "nobody" }, threadOf("t"));

      const [hasRead, isDone] = [deferred(), deferred()];
      const late = compiled(holdingBack(other, hasRead.resolve, isDone.promise));
      const second = late.invoke({ by: "second" }, { ...threadOf("t"), durability });
      const refused = expectRefused(second);
      await hasRead.promise;
      const first = await compiled(saver).invoke({ by: "first" }, { ...threadOf("t"), durability });
      // With "exit", the second run's writes to the DeltaChannel were stored before the refused step.
      const channels = durability === "exit" ? ["by", "log"] : ["by", "log", "delta"];
      const storedStates = async () =>
        (await statesOn(saverOn(place))).map((state) => ({ ...state, values: pick(state.values, channels) }));
      const stored = await storedStates();
      isDone.resolve();

      await refused;
      expect(first.log).toEqual([...logOf("nobody"), ...logOf("first")]);
      expect(await storedStates()).toEqual(stored);
      const { values } = await compiled(other).getState(threadOf("t"));
      expect(pick(values, channels)).toEqual(pick(first, channels));
    });

    it("when both answer a person's question", async () => {
      const place = await newPlace(kind);
      const asking = (checkpointer: BaseCheckpointSaver) =>
        new StateGraph(State)
          .addNode("ask", () => ({ by: interrupt("who?") }))
          .addNode("note", ({ by }) => ({ log: [by] }))
          .addEdge(START, "ask")
          .addEdge("ask", "note")
          .compile({ checkpointer });
      await asking(saverOn(place)).invoke({ by: "nobody" }, threadOf("t"));
      const [hasRead, isDone] = [deferred(), deferred()];
      const late = asking(holdingBack(saverOn(place), hasRead.resolve, isDone.promise));
      const refused = expectRefused(late.invoke(new Command({ resume: "second" }), threadOf("t")));
      await hasRead.promise;
      const first = await asking(saverOn(place)).invoke(new Command({ resume: "first" }), threadOf("t"));
      isDone.resolve();
      await refused;
      expect(first).toEqual({ by: "first", log: ["first"], delta: [] });
      expect((await asking(saverOn(place)).getState(threadOf("t"))).values).toEqual(first);
    });

    it.each(cases)("when both begin the thread, on $on, with durability $durability", async ({ on, durability }) => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const other = on === "one saver" ? saver : saverOn(place);
      const [hasRead, isDone] = [deferred(), deferred()];
      const late = compiled(holdingBack(other, hasRead.resolve, isDone.promise));
      const refused = expectRefused(late.invoke({ by: "second" }, { ...threadOf("t"), durability }));
      await hasRead.promise;
      const first = await compiled(saver).invoke({ by: "first" }, { ...threadOf("t"), durability });
      isDone.resolve();
      await refused;
      expect(first.log).toEqual(logOf("first"));
      for (const reader of [saver, saverOn(place)]) {
        const { values } = await compiled(reader).getState(threadOf("t"));
        expect({ by: values.by, log: values.log }).toEqual({ by: "first", log: first.log });
      }
    });

    it.each(cases)("when both begin it at once, on $on, with durability $durability", async ({ on, durability }) => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const runs = ["a", "b"].map((by) =>
        compiled(on === "one saver" ? saver : saverOn(place)).invoke({ by }, { ...threadOf("t"), durability }),
      );
      const results = await Promise.allSettled(runs);
      expect(results.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      const [done] = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
      const [error] = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
      expect(error).toBeInstanceOf(CheckpointConflictError);
      const { values } = await compiled(saverOn(place)).getState(threadOf("t"));
      expect({ by: values.by, log: values.log }).toEqual({ by: done?.by, log: done?.log });
    });

    const deletions = ["its saver", "another saver"].flatMap((by) =>
      [true, false].map((exclusive) => ({ by, exclusive })),
    );

    it.each(deletions)("when $by deletes the thread under a run, that run; exclusive: $exclusive", async (options) => {
      const place = await newPlace(kind);
      const saver = saverOn(place, { exclusive: options.exclusive });
      await compiled(saver).invoke({ by: "nobody" }, threadOf("t"));
      const deleter = options.by === "its saver" ? saver : saverOn(place);
      const deleting = compiled(saver, (node) => (node === "two" ? deleter.deleteThread("t") : undefined));
      await expectRefused(deleting.invoke({ by: "somebody" }, threadOf("t")));
      expect(await collect(saver.list(threadOf("t")))).toEqual([]);
      // The run then begins another conversation.
      expect((await compiled(saver).invoke({ by: "next" }, threadOf("t"))).log).toEqual(logOf("next"));
    });

    it.each(["one saver", "two savers"])("on a busy server, after its saver forgot it; on %s", async (on) => {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const other = on === "one saver" ? saver : saverOn(place);
      await compiled(saver).invoke({ by: "nobody" }, threadOf("t"));
      const [hasBegun, isDone] = [deferred(), deferred()];
      const late = compiled(saver, async (node) => {
        if (node !== "two") return;
        hasBegun.resolve();
        await isDone.promise;
      });
      const refused = expectRefused(late.invoke({ by: "second" }, { ...threadOf("t"), durability: "sync" }));
      await hasBegun.promise;
      await compiled(other).invoke({ by: "first" }, threadOf("t"));
      await putMuch(saver);
      isDone.resolve();
      await refused;
      expect((await compiled(saverOn(place)).getState(threadOf("t"))).values.by).toBe("first");
    });
  });

  it("a run that no other run has overtaken continues after its saver has forgotten its checkpoint", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place);
    const { log, delta } = await compiled(saver, () => putMuch(saver)).invoke({ by: "a" }, threadOf("t"));
    expect(log).toEqual(logOf("a"));
    expect((await compiled(saverOn(place)).getState(threadOf("t"))).values).toEqual({ by: "a", log, delta });
  });

  it("a run is refused if the thread's state is updated meanwhile, and the update stays", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place);
    const update = async (node: string) => {
      if (node === "two") await compiled(saver).updateState(threadOf("t"), { by: "a person" });
    };
    // Otherwise node two may run before the checkpoint after node one is stored, and the update is based on an older one.
    const durable = { ...threadOf("t"), durability: "sync" } as const;
    await expectRefused(compiled(saver, update).invoke({ by: "somebody" }, durable));
    const { values, next } = await compiled(saverOn(place)).getState(threadOf("t"));
    expect({ by: values.by, log: values.log, next }).toEqual({
      by: "a person",
      log: ["one by somebody"],
      next: ["two"],
    });
  });

  it("with exclusive: false both continue, and the last one wins", async () => {
    const place = await newPlace(kind);
    const options = { exclusive: false };
    await compiled(saverOn(place)).invoke({ by: "nobody" }, threadOf("t"));
    const [hasRead, isDone] = [deferred(), deferred()];
    const late = compiled(holdingBack(saverOn(place, options), hasRead.resolve, isDone.promise));
    const second = late.invoke({ by: "second" }, threadOf("t"));
    await hasRead.promise;
    const first = await compiled(saverOn(place, options)).invoke({ by: "first" }, threadOf("t"));
    isDone.resolve();

    expect((await second).log).toEqual([...logOf("nobody"), ...logOf("second")]);
    const states = await statesOn(saverOn(place));
    expect(states.map(({ values }) => values)).toContainEqual(first);
    expect(states[0]?.values).toEqual(await second);
  });

  it("turns alternate between two savers", async () => {
    const place = await newPlace(kind);
    const graphs = [compiled(saverOn(place)), compiled(saverOn(place))];
    const turns = ["a", "b", "c", "d", "e", "f"];
    for (const [i, by] of turns.entries()) await graphs[i % 2]?.invoke({ by }, threadOf("t"));
    const { values } = (await graphs[0]?.getState(threadOf("t"))) ?? {};
    const log = turns.flatMap(logOf);
    expect(values).toEqual({ by: "f", log, delta: log });
  });

  it("nothing that another saver has pruned is read from memory, even if its clock is behind", async () => {
    const place = await newPlace(kind);
    const [saver, other] = [saverOn(place), saverOn(place, { retention: { keepLast: 1 } })];
    const checkpointOf = (id: string) => ({ ...emptyCheckpoint(), id });
    const metadata = { source: "loop", step: 0, parents: {} } as const;
    await saver.put(threadOf("t"), checkpointOf("id-2"), metadata, {});
    await other.put((await other.getTuple(threadOf("t")))?.config ?? {}, checkpointOf("id-1"), metadata, {});
    expect((await saver.getTuple(threadOf("t")))?.checkpoint.id).toBe("id-1");
  });

  it("reading the state while a run is under way changes nothing", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place);
    const reader = compiled(saver);
    let isOver = false;
    let readings = 0;
    // The reader reads all the time, even in each node.
    const read = async () => {
      const { config } = await reader.getState(threadOf("t"));
      await reader.getState(config);
      await collect(reader.getStateHistory(threadOf("t"), { limit: 3 }));
      readings += 1;
    };
    const reading = (async () => {
      while (!isOver) await read();
    })();
    const turns = ["a", "b", "c", "d"];
    for (const by of turns) await compiled(saver, read).invoke({ by }, threadOf("t"));
    isOver = true;
    await reading;
    expect(readings).toBeGreaterThan(12);
    const log = turns.flatMap(logOf);
    expect((await compiled(saverOn(place)).getState(threadOf("t"))).values).toEqual({ by: "d", log, delta: log });
    expect(await collect(saver.list(threadOf("t")))).toHaveLength(5 * turns.length);
  });

  describe.each(["the same saver", "a new saver"])("time travel on %s", (by) => {
    async function travel() {
      const place = await newPlace(kind);
      const saver = saverOn(place);
      const ended = await compiled(saver).invoke({ by: "first" }, threadOf("t"));
      const states = await statesOn(saver);
      const beforeTwo = states.find(({ next }) => next[0] === "two");
      if (beforeTwo === undefined) throw new Error("There is no checkpoint before two.");
      const graph = compiled(by === "a new saver" ? saverOn(place) : saver);
      return { place, graph, ended, states, beforeTwo: beforeTwo.config };
    }

    it("continues from an old checkpoint", async () => {
      const { place, graph, ended, states, beforeTwo } = await travel();
      expect(await graph.invoke(null, beforeTwo)).toEqual(ended);
      expect((await statesOn(saverOn(place))).slice(-states.length)).toEqual(states);
    });

    it.each(["it", "it and another one"])("calls a subgraph again; %s made the turns", async (makers) => {
      const place = await newPlace(kind);
      const inner = new StateGraph(State)
        .addNode("inner", ({ by }) => ({ log: [`inner by ${by}`] }))
        .addEdge(START, "inner");
      const calling = (checkpointer: BaseCheckpointSaver) =>
        new StateGraph(State)
          .addNode("nested", inner.compile())
          .addNode("own", inner.compile({ checkpointer: true }))
          .addEdge(START, "nested")
          .addEdge("nested", "own")
          .compile({ checkpointer });
      const saver = saverOn(place);
      const ends = new Map<unknown, unknown>();
      for (const turn of ["first", "second"]) {
        const maker = makers === "it" || turn === "first" ? saver : saverOn(place);
        ends.set(turn, await calling(maker).invoke({ by: turn }, threadOf("t")));
      }
      const states = await collect(calling(saver).getStateHistory(threadOf("t")));
      const before = states.filter(({ next }) => next[0] === "own" || next[0] === "nested");
      expect(before).toHaveLength(4);
      for (const { config, values } of before) {
        const graph = calling(by === "a new saver" ? saverOn(place) : saver);
        expect(await graph.invoke(null, config)).toEqual(ends.get(values.by));
      }
    });

    it("with another state", async () => {
      const { place, graph, states, beforeTwo } = await travel();
      const updated = await graph.updateState(beforeTwo, { by: "traveller" });
      const { log, delta } = await graph.invoke(null, updated);
      expect(log).toEqual(["one by first", "two by traveller", "three by traveller"]);
      expect(delta).toEqual(log);
      expect((await graph.getState(threadOf("t"))).values).toEqual({ by: "traveller", log, delta });
      expect((await statesOn(saverOn(place))).slice(-states.length)).toEqual(states);
    });

    it("with another input", async () => {
      const { place, graph, states, beforeTwo } = await travel();
      const { log, delta } = await graph.invoke({ by: "traveller" }, beforeTwo);
      expect(log).toEqual(["one by first", ...logOf("traveller")]);
      expect(delta).toEqual(log);
      expect((await graph.getState(threadOf("t"))).values).toEqual({ by: "traveller", log, delta });
      expect((await statesOn(saverOn(place))).slice(-states.length)).toEqual(states);
      // The thread continues from there, on any saver.
      const { log: next } = await compiled(saverOn(place)).invoke({ by: "next" }, threadOf("t"));
      expect(next).toEqual([...log, ...logOf("next")]);
    });
  });
});

/** More threads than a saver remembers. */
async function putMuch(saver: WaymarkSaver): Promise<void> {
  const values = { text: "x".repeat(1_000_000) };
  for (let i = 0; i < 20; i++) {
    const checkpoint = { ...emptyCheckpoint(), channel_values: values, channel_versions: { text: 1 } };
    await saver.put(threadOf(`other ${i}`), checkpoint, { source: "loop", step: 0, parents: {} }, { text: 1 });
  }
}

async function expectRefused(run: Promise<unknown>): Promise<void> {
  const error = await run.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CheckpointConflictError);
  expect(String(error)).toContain("Another run, or an updateState, has continued this thread since");
}

/** A saver whose run is held back after it has read the thread. */
function holdingBack(saver: WaymarkSaver, hasRead: () => void, until: Promise<void>): WaymarkSaver {
  const getTuple: WaymarkSaver["getTuple"] = async (config) => {
    const tuple = await saver.getTuple(config);
    hasRead();
    await until;
    return tuple;
  };
  return withMembers(saver, { getTuple });
}

function pick(values: Readonly<Record<string, unknown>>, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(keys.map((key) => [key, values[key]]));
}

/** The thread's history as a list of logs. */
async function statesOn(saver: WaymarkSaver) {
  const states = await collect(compiled(saver).getStateHistory(threadOf("t")));
  return states.map(({ config, values, next }) => ({ config, values, next }));
}
