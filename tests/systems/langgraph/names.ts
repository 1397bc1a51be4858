import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import { type BaseCheckpointSaver, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { collect } from "../../support/postgres.js";
import { newPlace, type StorageKind, saverOn, threadOf } from "./storages.js";

const HOSTILE = [
  ...[
    "a",
    "a/",
    "a/c",
    "a/c/",
    "a/w/",
    "a%2Fc",
    "a%252Fc",
    "%",
    "%~",
    "A",
    "/",
    "//",
    "..",
    "../a",
    "a\\b",
    "\0",
    "\n",
    " ",
  ],
  ...[
    "ä",
    "é",
    "e\u0301",
    "😀",
    "\uffff",
    "__proto__",
    "langgraph/a",
    "x".repeat(200),
    "x".repeat(201),
    "/".repeat(2_000),
  ],
  ...[`${"y".repeat(2_000)}1`, `${"y".repeat(2_000)}2`],
];

const State = Annotation.Root({ value: Annotation<string>, last: Annotation<string> });

/** Asks a person, so that there are pending writes. */
const asking = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(State)
    .addNode("person", ({ value }) => ({ last: interrupt(value) }))
    .addEdge(START, "person")
    .compile({ checkpointer });

/** Registers tests of threads and namespaces with any name. */
export function registerNames(kind: StorageKind): void {
  describe(`on ${kind}`, () => {
    it("threads with similar ids are kept apart", async () => {
      const place = await newPlace(kind);
      await each(HOSTILE, (id) => asking(saverOn(place)).invoke({ value: id }, threadOf(id)));
      const saver = saverOn(place);
      const graph = asking(saver);
      const listed = await collect(saver.list({}, { filter: { step: 0 } }));
      expect(listed.map(({ config }) => config.configurable?.["thread_id"]).sort()).toEqual([...HOSTILE].sort());

      for (const id of HOSTILE) {
        expect((await graph.getState(threadOf(id))).tasks, id).toMatchObject([{ interrupts: [{ value: id }] }]);
        await graph.invoke(new Command({ resume: `of ${id}` }), threadOf(id));
      }
      for (const id of HOSTILE) {
        expect((await graph.getState(threadOf(id))).values, id).toEqual({ value: id, last: `of ${id}` });
        expect(await collect(saver.list(threadOf(id)))).toHaveLength(3);
        await saver.deleteThread(id);
        expect(await saver.getTuple(threadOf(id)), id).toBeUndefined();
      }
      expect(await collect(place.open().tasks({ order: "taskId" }))).toEqual([]);
    });

    it("namespaces of a thread are kept apart, whatever their names are", async () => {
      const place = await newPlace(kind);
      const [saver, other] = [saverOn(place), saverOn(place)];
      await each(HOSTILE, async (namespace) => {
        const config = await saver.put(
          threadOf("t", { checkpoint_ns: namespace }),
          { ...emptyCheckpoint(), channel_values: { namespace }, channel_versions: { namespace: 1 } },
          { source: "loop", step: 0, parents: {} },
          { namespace: 1 },
        );
        await saver.putWrites(config, [["written", namespace]], "task");
      });
      const listed = await collect(other.list(threadOf("t")));
      expect(listed.map(({ config }) => config.configurable?.["checkpoint_ns"]).sort()).toEqual([...HOSTILE].sort());
      for (const namespace of HOSTILE) {
        const tuple = await other.getTuple(threadOf("t", { checkpoint_ns: namespace }));
        expect(tuple?.config.configurable).toMatchObject({ checkpoint_ns: namespace });
        expect(tuple?.checkpoint.channel_values, namespace).toEqual({ namespace });
        expect(tuple?.pendingWrites, namespace).toEqual([["task", "written", namespace]]);
      }
    });

    it("subgraphs in subgraphs resume and show their states", async () => {
      const place = await newPlace(kind);
      const depth = 6;
      const nested = (checkpointer: BaseCheckpointSaver, level = depth): ReturnType<typeof asking> => {
        if (level === 0) return asking(checkpointer);
        const node = `a node with a rather long name at level ${level}/100%/of this graph`;
        return new StateGraph(State)
          .addNode(node, nested(checkpointer, level - 1))
          .addEdge(START, node as typeof START)
          .compile(level === depth ? { checkpointer } : {}) as ReturnType<typeof asking>;
      };
      await nested(saverOn(place)).invoke({ value: "go on?" }, threadOf("t"));

      const graph = nested(saverOn(place));
      let { tasks } = await graph.getState(threadOf("t"), { subgraphs: true });
      for (let level = 0; level < depth; level++) {
        const state = tasks[0]?.state;
        if (state === undefined || !("tasks" in state)) throw new Error(`There is no state at level ${level}.`);
        ({ tasks } = state);
      }
      expect(tasks).toMatchObject([{ name: "person", interrupts: [{ value: "go on?" }] }]);
      expect(await graph.invoke(new Command({ resume: "yes" }), threadOf("t"))).toMatchObject({ last: "yes" });
      const namespaces = (await collect(saverOn(place).list(threadOf("t")))).map(
        ({ config }) => `${config.configurable?.["checkpoint_ns"]}`,
      );
      expect(Math.max(...namespaces.map((namespace) => namespace.split("|").length))).toBe(depth);
      expect(Math.max(...namespaces.map((namespace) => namespace.length))).toBeGreaterThan(512);
    });
  });
}

async function each<Item>(items: readonly Item[], call: (item: Item) => Promise<unknown>): Promise<void> {
  for (const item of items) await call(item);
}
