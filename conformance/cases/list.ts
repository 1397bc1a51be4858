import { toSummary } from "../../src/contract/checkpoint.js";
import { same } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, fullDraft } from "../drafts.js";
import { appendAll, collect } from "../steps.js";
import { selectionCases } from "./selection.js";

/** The cases that only concern `list`. */
export const listCases: readonly ConformanceCase[] = [
  {
    name: "list.summaries",
    promise: "returns summaries only, without payload and seal",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = await appendAll(adapter, [draft("t", "plain"), fullDraft("t", "full")]);
      adapter = await store.carryOn(adapter);
      same(
        await collect(adapter.list({ taskId: "t", order: "oldest" })),
        all.map(toSummary),
        "list MUST yield summaries: every field as it was appended, and no payload, no seal and no fields that were absent",
      );
    },
  },
  ...selectionCases("list"),
];
