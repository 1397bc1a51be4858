import { Annotation, Command, DeltaChannel, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { type BaseCheckpointSaver, emptyCheckpoint, INTERRUPT, uuid6 } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { CheckpointConflictError } from "waymark";
import type { WaymarkSaver } from "waymark/langgraph";
import { deferred } from "../../support/deferred.js";
import { collect } from "../../support/postgres.js";
import { newPlace, saverOn, threadOf } from "./storages.js";

/** A channel whose value shows the order of its writes: rebuilt from the writes of the thread's checkpoints, or not. */
const list = { reducer: (log: string[], more: string[]) => [...log, ...more], default: () => [] };
const Log = Annotation.Root({
  log: Annotation<string[]>(list),
  delta: () => new DeltaChannel<string[], string[]>((log, writes) => [...log, ...writes.flat()]),
});

/** Each node ends after the next one, so that the last node's writes are stored first. Then a person is asked. */
function inReverse(checkpointer: BaseCheckpointSaver) {
  const names = ["a", "b", "c", "d"];
  const ends = new Map(names.map((name) => [name, deferred()]));
  const builder = new StateGraph(Log);
  const graph = names.reduce((built, name, i) => {
    const withNode = built.addNode(name, async () => {
      await ends.get(names[i + 1] ?? "")?.promise;
      setImmediate(() => ends.get(name)?.resolve());
      return { log: [name], delta: [name] };
    });
    return withNode.addEdge(START, name as typeof START) as typeof builder;
  }, builder);
  return graph
    .addNode("person", () => ({ log: [interrupt("go on?")] }))
    .addEdge(START, "person")
    .compile({ checkpointer });
}

/** A graph with sends that end in reverse order. */
function sendsInReverse(checkpointer: BaseCheckpointSaver, count: number) {
  const ends = Array.from({ length: count }, () => deferred());
  return new StateGraph(Log)
    .addNode("worker", async ({ number }: { number: number }) => {
      await ends[number + 1]?.promise;
      setImmediate(() => ends[number]?.resolve());
      return number < 0 ? { log: [interrupt("go on?")] } : { log: [`${number}`], delta: [`${number}`] };
    })
    .addConditionalEdges(START, () => [-1, ...ends.keys()].map((number) => new Send("worker", { number })))
    .compile({ checkpointer });
}

describe.each(["memory", "sqlite"] as const)("on %s", (kind) => {
  describe("pending writes come back in the order of the tasks' paths, whichever was stored first", () => {
    it("of parallel nodes", async () => {
      const saver = saverOn(await newPlace(kind));
      const graph = inReverse(saver);
      await graph.invoke({ log: [] }, threadOf("t"));

      expect(await pendingLog(saver)).toEqual(["a", "b", "c", "d"]);
      const { log, delta } = await graph.invoke(new Command({ resume: "yes" }), threadOf("t"));
      expect(log).toEqual(["a", "b", "c", "d", "yes"]);
      expect(delta).toEqual(["a", "b", "c", "d"]);
      expect((await graph.getState(threadOf("t"))).values).toEqual({ log, delta });
    });

    it("of sends", async () => {
      const saver = saverOn(await newPlace(kind));
      const graph = sendsInReverse(saver, 8);
      await graph.invoke({ log: [] }, threadOf("t"));
      const order = Array.from({ length: 8 }, (_, number) => `${number}`);

      expect(await pendingLog(saver)).toEqual(order);
      const { log, delta } = await graph.invoke(new Command({ resume: "yes" }), threadOf("t"));
      expect(log).toEqual(["yes", ...order]);
      expect((await graph.getState(threadOf("t"))).values).toEqual({ log, delta });
    });

    async function pendingLog(saver: BaseCheckpointSaver) {
      const { pendingWrites = [] } = (await saver.getTuple(threadOf("t"))) ?? {};
      return pendingWrites.flatMap(([, channel, value]) => (channel === "log" ? value : []));
    }
  });

  describe("bytes survive", () => {
    const bytes = () => Uint8Array.of(0, 1, 127, 128, 255);
    const nested = () => ({ deep: [{ image: bytes() }], map: new Map([["image", bytes()]]) });
    const State = Annotation.Root({ top: Annotation<Uint8Array>, nested: Annotation<ReturnType<typeof nested>> });

    it("in values and in writes, at the top and nested", async () => {
      const saver = saverOn(await newPlace(kind));
      const graph = new StateGraph(State)
        .addNode("draw", () => ({ top: bytes(), nested: nested() }))
        .addNode("person", () => {
          interrupt(bytes());
          return {};
        })
        .addEdge(START, "draw")
        .addEdge(START, "person")
        .addEdge("draw", "person")
        .compile({ checkpointer: saver });
      await graph.invoke({ top: Uint8Array.of(), nested: nested() }, threadOf("t"));

      const tuple = await saver.getTuple(threadOf("t"));
      expect(tuple?.checkpoint.channel_values).toMatchObject({ top: Uint8Array.of(), nested: nested() });
      const writes = new Map(tuple?.pendingWrites?.map(([, channel, value]) => [channel, value]));
      expect(writes.get("top")).toEqual(bytes());
      expect(writes.get("nested")).toEqual(nested());
      expect(writes.get("__interrupt__")).toMatchObject([{ value: bytes() }]);
    });

    it("as a Buffer", async () => {
      const place = await newPlace(kind);
      const graph = (checkpointer: BaseCheckpointSaver) =>
        new StateGraph(State)
          .addNode("draw", () => ({ top: Buffer.from(bytes()) }))
          .addEdge(START, "draw")
          .compile({ checkpointer });
      await graph(saverOn(place)).invoke({ nested: nested() }, threadOf("t"));
      const { values } = await graph(saverOn(place)).getState(threadOf("t"));
      expect(values).toEqual({ top: Buffer.from(bytes()), nested: nested() });
    });
  });

  it("values and writes are stored as they were at the time of the call", async () => {
    const saver = saverOn(await newPlace(kind));
    const given = () => ({ bytes: Uint8Array.of(1, 2), list: ["as it was"] });
    const values = given();
    const written = given();
    const change = ({ bytes, list }: ReturnType<typeof given>) => {
      bytes.fill(7);
      list.push("changed later");
    };
    const versions = { bytes: 1, list: 1 };
    const checkpoint = { ...emptyCheckpoint(), channel_values: values, channel_versions: versions };

    // No other record has the copy's values.
    for (const [source, newVersions] of [
      ["loop", versions],
      ["fork", {}],
    ] as const) {
      const putting = saver.put(
        threadOf("t"),
        { ...checkpoint, id: uuid6(1) },
        { source, step: 1, parents: {} },
        newVersions,
      );
      change(values);
      const config = await putting;
      const writing = saver.putWrites(config, Object.entries(written), "task");
      change(written);
      await writing;

      const tuple = await saver.getTuple(config);
      expect(tuple?.checkpoint.channel_values, source).toEqual(given());
      expect(
        tuple?.pendingWrites?.map(([, , value]) => value),
        source,
      ).toEqual(Object.values(given()));
      Object.assign(values, given());
      Object.assign(written, given());
    }
  });

  it("a returned value belongs to the caller, whether from memory or from the storage", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place);
    const values = { list: [{ deep: "as it was" }], bytes: Uint8Array.of(1, 2) };
    const versions = { list: 1, bytes: 1 };
    const checkpoint = { ...emptyCheckpoint(), channel_values: values, channel_versions: versions };
    const metadata = { source: "loop", step: 1, parents: {} } as const;
    await saver.put(threadOf("t"), checkpoint, metadata, versions);
    const expected = await saverOn(place).getTuple(threadOf("t"));
    expect(expected?.checkpoint).toEqual(checkpoint);
    for (const reader of [saver, saverOn(place)]) {
      for (let turn = 0; turn < 3; turn++) {
        const tuple = await reader.getTuple(threadOf("t"));
        expect(tuple).toEqual(expected);
        if (tuple === undefined) throw new Error("There is no checkpoint.");
        const { list: given, bytes } = tuple.checkpoint.channel_values as typeof values;
        given.push({ deep: "changed" });
        bytes.fill(7);
        tuple.checkpoint.channel_versions["list"] = 9;
        Object.assign(tuple.metadata ?? {}, { step: 9 });
      }
    }
  });

  it("changes and deletions by another saver are seen", async () => {
    const place = await newPlace(kind);
    const [saver, other] = [saverOn(place), saverOn(place)];
    const metadata = { source: "update", step: 1, parents: {} } as const;
    const put = (by: WaymarkSaver, name: string) =>
      by.put(
        threadOf("t"),
        { ...emptyCheckpoint(), id: uuid6(0), channel_values: { name }, channel_versions: { name: 1 } },
        metadata,
        { name: 1 },
      );
    const name = async () => (await saver.getTuple(threadOf("t")))?.checkpoint.channel_values["name"];
    const config = await put(saver, "first");
    expect(await name()).toBe("first");
    await other.putWrites(config, [["name", "written"]], "task");
    expect((await saver.getTuple(threadOf("t")))?.pendingWrites).toEqual([["task", "name", "written"]]);
    await put(other, "second");
    expect(await name()).toBe("second");
    await other.deleteThread("t");
    expect(await name()).toBeUndefined();
    await put(other, "third");
    expect(await name()).toBe("third");
  });

  it("the newest checkpoint is the one that was put last, and a list has the highest id first", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place);
    const [lower, low, high] = [uuid6(0), uuid6(0), uuid6(0)];
    for (const id of [high, low, lower]) {
      await saver.put(threadOf("t"), { ...emptyCheckpoint(), id }, { source: "update", step: 0, parents: {} }, {});
      for (const reader of [saver, saverOn(place)]) {
        expect((await reader.getTuple(threadOf("t")))?.checkpoint.id).toBe(id);
      }
    }
    expect((await collect(saver.list(threadOf("t")))).map(({ checkpoint }) => checkpoint.id)).toEqual([
      high,
      low,
      lower,
    ]);
  });

  it("no two branches have the same version of a channel", async () => {
    const saver = saverOn(await newPlace(kind));
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addEdge(START, "one")
      .compile({ checkpointer: saver });
    await graph.invoke({ log: ["input"] }, threadOf("t"));
    const { config } = await graph.getState(threadOf("t"));
    for (const by of ["a", "b", "c"]) await graph.updateState(config, { log: [by] });
    const branches = await collect(saver.list(threadOf("t"), { filter: { source: "update" } }));
    expect(branches).toHaveLength(3);
    expect(new Set(branches.map(({ checkpoint }) => checkpoint.channel_versions["log"])).size).toBe(3);
  });

  it("a task's first writes count, and of LangGraph's own channels the last", async () => {
    const place = await newPlace(kind);
    const saver = saverOn(place);
    const config = await saver.put(threadOf("t"), emptyCheckpoint(), { source: "loop", step: 0, parents: {} }, {});
    for (const time of ["first", "second"]) {
      await saver.putWrites(
        config,
        [
          ["log", time],
          ["log", `${time}, again`],
          [INTERRUPT, time],
        ],
        "task",
      );
    }
    await saver.putWrites(config, [["log", "of another"]], "task 2");
    for (const reader of [saver, saverOn(place)]) {
      expect((await reader.getTuple(config))?.pendingWrites).toEqual([
        ["task", INTERRUPT, "second"],
        ["task", "log", "first"],
        ["task", "log", "first, again"],
        ["task 2", "log", "of another"],
      ]);
    }
  });

  it("writes are stored in call order, even if the first take longer to encode", async () => {
    const isEncoded = deferred();
    const slow = {
      name: "slow",
      encode: async (bytes: Uint8Array) => {
        if (Buffer.from(bytes).includes("first")) await isEncoded.promise;
        else setImmediate(() => isEncoded.resolve());
        return bytes;
      },
      decode: async (bytes: Uint8Array) => bytes,
    };
    const saver = saverOn(await newPlace(kind), { transforms: [slow] });
    const config = threadOf("t", { checkpoint_id: uuid6(0) });
    await Promise.all(["first", "second"].map((time) => saver.putWrites(config, [[INTERRUPT, time]], "task")));
    isEncoded.resolve();
    const metadata = { source: "loop", step: 0, parents: {} } as const;
    const { checkpoint_id: id } = config.configurable;
    await saver.put(threadOf("t"), { ...emptyCheckpoint(), id: `${id}` }, metadata, {});
    expect((await saver.getTuple(threadOf("t")))?.pendingWrites).toEqual([["task", INTERRUPT, "second"]]);
  });

  it("a repeated put stores the checkpoint once, and is refused if it has other values", async () => {
    const saver = saverOn(await newPlace(kind));
    const { id, ...rest } = emptyCheckpoint();
    const put = (name: string) =>
      saver.put(
        threadOf("t"),
        { ...rest, id, channel_values: { name }, channel_versions: { name: 1 } },
        { source: "loop", step: 0, parents: {} },
        { name: 1 },
      );
    await put("first");
    await put("first");
    await expect(put("second")).rejects.toThrow(CheckpointConflictError);
    const tuples = await collect(saver.list(threadOf("t")));
    expect(tuples.map(({ checkpoint }) => checkpoint.channel_values)).toEqual([{ name: "first" }]);
  });

  it("a thread that was deleted is forgotten", async () => {
    const place = await newPlace(kind);
    const [saver, other] = [saverOn(place), saverOn(place)];
    const graph = inReverse(saver);
    await graph.invoke({ log: [] }, threadOf("t"));
    const { config } = await graph.getState(threadOf("t"));
    await saver.deleteThread("t");
    expect(await graph.invoke({ log: ["new"] }, config)).toMatchObject({ log: ["new", "a", "b", "c", "d"] });

    // The same if another thread has the same ids.
    const { id } = emptyCheckpoint();
    for (const [by, name] of [
      [saver, "first"],
      [other, "second"],
    ] as const) {
      await saver.deleteThread("t");
      const checkpoint = { ...emptyCheckpoint(), id, channel_values: { name }, channel_versions: { name: 1 } };
      await by.put(threadOf("t"), checkpoint, { source: "input", step: 0, parents: {} }, { name: 1 });
    }
    expect((await saver.getTuple(threadOf("t")))?.checkpoint.channel_values).toEqual({ name: "second" });
  });

  it("JSON is stored as JSON.stringify writes it, whatever the channels' names and the serializer", async () => {
    const place = await newPlace(kind);
    const serde = {
      dumpsTyped: async (value: unknown): Promise<[string, Uint8Array]> => [
        "json",
        new TextEncoder().encode(JSON.stringify(value, null, 2)),
      ],
      loadsTyped: async (_type: string, data: Uint8Array | string) =>
        JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data)),
    };
    for (const [thread, saver] of [
      ["own", saverOn(place)],
      ["given", saverOn(place, { serde })],
    ] as const) {
      const entries = ["b", "__proto__", "7", "1", 'a "quoted" name\n'].map((name) => [
        name,
        { 9: "nine", 1: "é\ud800" },
      ]);
      const values = Object.fromEntries(entries);
      const versions = Object.fromEntries(Object.keys(values).map((name) => [name, 1]));
      const checkpoint = { ...emptyCheckpoint(), channel_values: values, channel_versions: versions };
      await saver.put(threadOf(thread), checkpoint, { source: "loop", step: 1, parents: {} }, versions);
      const record = await place.open().get(`langgraph/${thread}/c/`, checkpoint.id);
      const { encoding, body } = record && "payload" in record ? record.payload : { encoding: "", body: "" };
      expect([encoding, body]).toEqual(["json", JSON.stringify(JSON.parse(`${body}`))]);
      for (const reader of [saver, saverOn(place)]) {
        const { channel_values: read } = (await reader.getTuple(threadOf(thread)))?.checkpoint ?? {};
        expect(Object.entries(read ?? {})).toEqual(Object.entries(values));
      }
    }
  });

  it("a state beyond maxPayloadBytes is refused", async () => {
    const saver = saverOn(await newPlace(kind), { maxPayloadBytes: 1000 });
    const put = (text: string) =>
      saver.put(
        threadOf("t"),
        { ...emptyCheckpoint(), channel_values: { text }, channel_versions: { text: 1 } },
        { source: "loop", step: 1, parents: {} },
        { text: 1 },
      );
    await expect(put("ä".repeat(500))).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    await put("a".repeat(500));
  });

  describe("a branch keeps all values", () => {
    const State = Annotation.Root({
      kept: Annotation<string>,
      changed: Annotation<number>,
      bytes: Annotation<Uint8Array>,
      delta: () =>
        new DeltaChannel<string[], string[]>((log, more) => [...log, ...more.flat()], { snapshotFrequency: 3 }),
    });
    const compiled = (checkpointer: BaseCheckpointSaver) =>
      new StateGraph(State)
        .addNode("first", () => ({ changed: 1, delta: ["first"] }))
        .addNode("second", () => ({ changed: 2, delta: ["second"] }))
        .addNode("third", () => ({ changed: 3, delta: ["third"] }))
        .addEdge(START, "first")
        .addEdge("first", "second")
        .addEdge("second", "third")
        .compile({ checkpointer });
    const INPUT = { kept: "from the input", changed: 0, bytes: Uint8Array.of(1, 2), delta: ["input"] };

    it.each([
      { which: "whole", by: "same" },
      { which: "pruned", by: "new" },
    ])("of a $which thread, made by the $by saver", async ({ which, by }) => {
      const place = await newPlace(kind);
      const first = saverOn(place);
      await compiled(first).invoke(INPUT, threadOf("t"));
      const { delta } = await compiled(first).invoke({ delta: ["next"] }, threadOf("t"));
      if (which === "pruned") expect((await first.prune("t", { keepLast: 4 })).removed).toBeGreaterThan(0);
      const graph = compiled(by === "new" ? saverOn(place) : first);

      for (const { config, values, next } of await collect(graph.getStateHistory(threadOf("t")))) {
        // The checkpoint where this turn's nodes begin.
        if (next.length === 0 || next[0] === START) continue;
        expect(values).toMatchObject({ kept: INPUT.kept, bytes: INPUT.bytes });

        const updated = await graph.updateState(config, { changed: 77 }, "first");
        expect((await graph.getState(updated)).values, `an update before ${next}`).toEqual({ ...values, changed: 77 });

        const copied = await graph.updateState(config, null, "__copy__");
        const copy = await graph.getState(copied);
        expect({ values: copy.values, next: copy.next }, `a copy before ${next}`).toEqual({ values, next });
        const { delta: ofCopy } = await graph.invoke(null, copied);
        expect(ofCopy, `a copy before ${next} continues`).toEqual(delta.slice(0, ofCopy.length));
        expect(ofCopy.at(-1)).toBe("third");
      }
    });
  });
});
