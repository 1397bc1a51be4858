import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { collect } from "../../support/postgres.js";
import { newPlace, type Place, type StorageKind, saverOn, threadOf } from "./storages.js";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (log, more) => [...log, ...more], default: () => [] }),
});
const HOUR_MS = 3_600_000;

/** Registers the tests of a thread whose clock was set back. */
export function registerOrder(kinds: readonly StorageKind[]): void {
  describe.each(kinds)("a thread on %s whose clock is set back by an hour between two turns", (kind) => {
    it("continues from the turn that was put last, in the same process and in another", async () => {
      const place = await newPlace(kind);
      const turn = turnsOn(place, { isOneSaver: true });
      setClock(0);
      await turn("one");
      await turn("two");
      setClock(-HOUR_MS);
      expect(await turn("three")).toEqual(["one", "two", "three"]);
      expect(await turn("four")).toEqual(["one", "two", "three", "four"]);

      const elsewhere = turnsOn(place, { isOneSaver: false });
      expect(await elsewhere("five")).toEqual(["one", "two", "three", "four", "five"]);
      expect(await elsewhere("six")).toEqual(["one", "two", "three", "four", "five", "six"]);
    });

    it("is listed by id: the turns before the clock was set back come first", async () => {
      const place = await newPlace(kind);
      const turn = turnsOn(place, { isOneSaver: true });
      setClock(0);
      await turn("one");
      setClock(-HOUR_MS);
      await turn("two");

      const saver = saverOn(place);
      const listed = await collect(saver.list(threadOf("t")));
      const ids = listed.map(({ checkpoint }) => checkpoint.id);
      expect(ids).toEqual(ids.toSorted().toReversed());
      expect(listed[0]?.checkpoint.channel_values["log"]).toEqual(["one"]);
      const newest = await saver.getTuple(threadOf("t"));
      expect(newest?.checkpoint.channel_values["log"]).toEqual(["one", "two"]);
      expect(ids.slice(1)).toContain(newest?.checkpoint.id);
    });
  });
}

/** Runs a turn of a thread and returns the thread's log, with one saver for all turns or one for each. */
function turnsOn(place: Place, { isOneSaver }: { readonly isOneSaver: boolean }) {
  const graphOn = () =>
    new StateGraph(Log)
      .addNode("answer", () => ({}))
      .addEdge(START, "answer")
      .compile({ checkpointer: saverOn(place) });
  const first = graphOn();
  return async (text: string) => {
    const graph = isOneSaver ? first : graphOn();
    const { log } = await graph.invoke({ log: [text] }, threadOf("t"));
    return log;
  };
}

function setClock(byMs: number): void {
  if (!vi.isFakeTimers()) {
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
  }
  vi.setSystemTime(Date.UTC(2026, 10, 25, 12) + byMs);
}
