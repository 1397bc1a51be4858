import type { StorageAdapter } from "../../src/contract/adapter.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { intact, same, sameAsAppended, sameAsEither } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { type Appended, draft, drafts, fullDraft } from "../drafts.js";
import { appendAll, collect, MEETINGS, pass } from "../steps.js";
import { selectionCases } from "./selection.js";

/** The cases that only concern `read`. */
export const readCases: readonly ConformanceCase[] = [
  {
    name: "read.whole",
    promise: "yields whole checkpoints, as get does",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const bytes = draft("t", "bytes", { body: Uint8Array.from({ length: 256 }, (_, byte) => byte) });
      const all = await appendAll(adapter, [...drafts("t", 3), fullDraft("t", "full"), bytes]);
      adapter = await store.carryOn(adapter);
      const read = await collect(adapter.read({ taskId: "t", order: "oldest" }));
      same(read.length, all.length, "read MUST yield every checkpoint");
      for (const [index, one] of all.entries()) sameAsAppended(read[index], one, "read");
      for (const record of read) {
        if (!isCorrupt(record)) same(await adapter.get("t", record.id), record, "read MUST yield the same as get");
      }
    },
  },
  {
    name: "read.one-moment",
    promise: "yields header and payload from one moment, even if the task is removed and saved again during the read",
    async run(store) {
      const adapter = await store.open();
      for (const turns of MEETINGS) {
        const { former, later } = await generations(adapter, "t", 1);
        const getting = adapter.get("t", "c1");
        const reading = collect(adapter.read({ taskId: "t", order: "newest" }));
        await pass(turns);
        await later();
        const found = [await getting, ...(await reading)];
        for (const record of found) if (record) expectEither(record, former, await later(), "a read");
        await adapter.remove("t", "all");
      }
      for (const order of ["oldest", "newest"] as const) {
        const { former, later } = await generations(adapter, order, 4);
        for await (const record of adapter.read({ taskId: order, order })) {
          expectEither(record, former, await later(), "read, in the middle of an iteration");
        }
      }
    },
  },
  ...selectionCases("read"),
];

/**
 * Makes a task's checkpoints, and a function that returns their successors. Its first call removes the checkpoints and
 * appends others under the same ids.
 */
async function generations(adapter: StorageAdapter, taskId: string, count: number) {
  const former = await appendAll(adapter, drafts(taskId, count));
  const others = drafts(taskId, count).map(({ id }) =>
    draft(taskId, id, { body: JSON.stringify({ anew: id }), stage: "anew" }),
  );
  let appended: Promise<Appended[]> | undefined;
  const anew = async (): Promise<Appended[]> => {
    await adapter.remove(taskId, "all");
    return appendAll(adapter, others);
  };
  const later = (): Promise<readonly Appended[]> => {
    appended ??= anew();
    return appended;
  };
  return { former, later };
}

function expectEither(
  found: StoredCheckpoint | CorruptRecord,
  former: readonly Appended[],
  later: readonly Appended[],
  how: string,
): void {
  const record = intact(found, `${how} MUST return no corrupt record because the task was removed and saved again`);
  const both = [former, later].map((all) => all.find(({ id }) => id === record.id));
  if (both[0] && both[1]) sameAsEither(record, [both[0], both[1]], how);
}
