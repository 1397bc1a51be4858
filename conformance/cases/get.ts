import { same, sameAsAppended } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts, fullDraft } from "../drafts.js";
import { appendAll } from "../steps.js";

/** The cases of `get`. */
export const getCases: readonly ConformanceCase[] = [
  {
    name: "get.any",
    promise: "returns any checkpoint of a task by its id, even after many newer ones",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = await appendAll(adapter, [draft("t", "plain"), fullDraft("t", "full"), ...drafts("t", 3)]);
      adapter = await store.carryOn(adapter);
      for (const one of all) sameAsAppended(await adapter.get("t", one.id), one, "get");
    },
  },
  {
    name: "get.nothing",
    promise: "returns undefined if the task or the id doesn't exist, or was removed",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      await appendAll(adapter, [...drafts("t", 2), draft("u", "other")]);
      await adapter.remove("t", ["c1"]);
      adapter = await store.carryOn(adapter);
      same(await adapter.get("nowhere", "c1"), undefined, "get MUST return undefined for a task that doesn't exist");
      same(await adapter.get("t", "c9"), undefined, "get MUST return undefined for an id that doesn't exist");
      same(await adapter.get("t", "other"), undefined, "get MUST return undefined for another task's id");
      same(await adapter.get("t", "c1"), undefined, "get MUST return undefined for a removed checkpoint");
      same(await adapter.get("t", "C2"), undefined, "get MUST be case-sensitive");
    },
  },
];
