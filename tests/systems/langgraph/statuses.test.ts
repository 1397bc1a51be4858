import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { isCorrupt } from "waymark/adapter";
import { collect } from "../../support/postgres.js";
import { newPlace, saverOn, threadOf } from "./storages.js";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (log, more) => [...log, ...more], default: () => [] }),
});
const node = (name: string) => () => ({ log: [name] });

/** A node that waits until all others are done. */
const deferring = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(Log)
    .addNode("first", node("first"))
    .addNode("slow", node("slow"))
    .addNode("last", node("last"), { defer: true })
    .addEdge(START, "first")
    .addEdge("first", "slow")
    .addEdge("first", "last")
    .compile({ checkpointer });

/** A graph with a node that waits for three others. */
const joining = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(Log)
    .addNode("a", node("a"))
    .addNode("b", node("b"))
    .addNode("c", node("c"))
    .addNode("beside", node("beside"))
    .addNode("last", node("last"), { defer: true })
    .addEdge(START, "a")
    .addEdge(START, "b")
    .addEdge("b", "c")
    .addEdge("c", "beside")
    .addEdge(["a", "b", "c"], "last")
    .compile({ checkpointer });

describe("a thread whose graph defers a node is running until the end, then completed", () => {
  it.each([
    { what: "an edge", compiled: deferring, steps: 5 },
    { what: "an edge from three nodes", compiled: joining, steps: 6 },
  ])("by $what", async ({ compiled, steps }) => {
    const place = await newPlace("memory");
    const { log } = await compiled(saverOn(place)).invoke({ log: [] }, threadOf("t"));
    expect(log.at(-1)).toBe("last");
    const records = await collect(place.open().list({ taskId: "langgraph/t/c/", order: "oldest" }));
    const statuses = records.map((record) => (isCorrupt(record) ? "damaged" : record.status));
    expect(statuses).toEqual([...Array.from({ length: steps - 1 }, () => "running"), "completed"]);
  });
});
