import { isCorrupt } from "../../contract/adapter.js";
import { same, sameAsAppended } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts, fullDraft } from "../drafts.js";
import { appendAll, collect } from "../steps.js";
import { selectionCases } from "./selection.js";

/** The cases of `read` alone. */
export const readCases: readonly ConformanceCase[] = [
  {
    name: "read.whole",
    promise: "gives whole checkpoints, as get does",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const bytes = draft("t", "bytes", { body: Uint8Array.from({ length: 256 }, (_, byte) => byte) });
      const all = await appendAll(adapter, [...drafts("t", 3), fullDraft("t", "full"), bytes]);
      adapter = await store.carryOn(adapter);
      const read = await collect(adapter.read({ taskId: "t", order: "oldest" }));
      same(read.length, all.length, "read MUST give every checkpoint");
      for (const [index, one] of all.entries()) sameAsAppended(read[index], one, "read");
      for (const record of read) {
        if (!isCorrupt(record)) same(await adapter.get("t", record.id), record, "read MUST give what get gives");
      }
    },
  },
  ...selectionCases("read"),
];
