import { intact, refused, same } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts, fullDraft } from "../drafts.js";
import { appendAll, expectStored, listIds } from "../steps.js";

/** The cases about ids, which are unique within a task. */
export const appendIdCases: readonly ConformanceCase[] = [
  {
    name: "append.idempotent",
    promise: "answers a retry with the stored sequence, before it checks the condition",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const lost = draft("t", "lost", { stage: "first" });
      const sequence = await adapter.append(lost);
      await adapter.append(draft("t", "later"));
      await adapter.setStatus("t", "lost", { status: "paused" });
      adapter = await store.carryOn(adapter);

      const obligation = "appending the same draft again MUST return its stored sequence";
      same(await adapter.append(lost), sequence, obligation);
      const before = `${obligation}, before the condition is checked`;
      same(await adapter.append(lost, { expectedSequence: 0 }), sequence, before);
      same(await adapter.append(lost, {}, { sequence: sequence + 40 }), sequence, before);
      const { status } = intact(await adapter.get("t", "lost"), "get MUST return the checkpoint");
      same(status, "paused", "appending the same draft again MUST change nothing, not even the status");

      const later = { ...lost, createdAt: "2026-11-22T12:00:00.000Z", status: "failed" as const };
      same(await adapter.append(later), sequence, `${obligation}, whatever its time and status`);

      const twins = draft("t", "twins");
      const [first, second] = await Promise.all([adapter.append(twins), adapter.append(twins)]);
      same(second, first, `${obligation}, also in two concurrent calls`);
      const ids = await listIds(adapter.list({ taskId: "t", order: "oldest" }));
      same(ids, ["lost", "later", "twins"], "appending the same draft again MUST store nothing");
    },
  },
  {
    name: "append.id-taken",
    promise: "refuses an id that another checkpoint of the task has, and stores nothing",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const mine = await appendAll(adapter, [fullDraft("t", "c1")]);
      adapter = await store.carryOn(adapter);
      const other = draft("t", "c1", { body: JSON.stringify("another state"), stage: "other" });
      await refused("CHECKPOINT_CONFLICT", adapter.append(other), "the same id with another state MUST be refused");
      const others = [
        { stage: "other" },
        { label: "Other" },
        { parentId: "other" },
        { metadata: { other: 1 } },
        { stateVersion: 9 },
      ];
      for (const change of others) {
        const changed = adapter.append({ ...fullDraft("t", "c1"), ...change });
        await refused(
          "CHECKPOINT_CONFLICT",
          changed,
          `the same id with another ${Object.keys(change)} MUST be refused`,
        );
      }
      await expectStored(adapter, mine);

      // Another task may use the same id.
      const theirs = await appendAll(adapter, [{ ...other, taskId: "u" }]);
      await expectStored(adapter, [...mine, ...theirs]);
    },
  },
  {
    name: "append.id-free-again",
    promise: "accepts the id of a removed checkpoint again",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const [, second] = await appendAll(adapter, drafts("t", 2));
      await adapter.remove("t", ["c1"]);
      adapter = await store.carryOn(adapter);
      const again = await appendAll(adapter, [draft("t", "c1", { body: JSON.stringify("another state") })]);
      await expectStored(adapter, [...(second ? [second] : []), ...again]);
      const ids = await listIds(adapter.list({ taskId: "t", order: "oldest" }));
      same(ids, ["c2", "c1"], "the checkpoint under a removed id MUST be new, and the newest");
    },
  },
];
