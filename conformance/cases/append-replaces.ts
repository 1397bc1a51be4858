import type { StorageAdapter } from "../../src/contract/adapter.js";
import { transientMetadata } from "../../src/contract/transient.js";
import { ascending, holds, intact, refused, same, sameAsAppended } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { type Appended, draft, drafts } from "../drafts.js";
import { appendAll, expectStored, listIds, withOpen } from "../steps.js";
import { TURNS } from "./kills.js";

/** The cases of `append` with `replaces`. */
export const appendReplacesCases: readonly ConformanceCase[] = [
  {
    name: "append.replaces",
    promise: "removes the transient checkpoint that an append replaces, and nothing else",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const kept = await appendAll(adapter, drafts("t", 2));
      const first = await adapter.append(transient("t", "p1"));
      // This milestone's state is similar to p1's, so a store may build it on p1, which is replaced later.
      kept.push(...(await appendAll(adapter, [draft("t", "c3", { body: makeBody("p1", "more") })])));
      adapter = await store.carryOn(adapter);
      const late = adapter.append(transient("t", "late", "p1"), { expectedSequence: first }, { replaces: "p1" });
      await refused(
        "CHECKPOINT_CONFLICT",
        late,
        "an append with `replaces` MUST be refused if its condition doesn't hold",
      );
      const obligation = "a refused append MUST remove nothing";
      same(intact(await adapter.get("t", "p1"), obligation).sequence, first, obligation);
      const second = await replace(adapter, "p1", "p2");
      adapter = await store.carryOn(adapter);
      ascending([first, kept.at(-1)?.sequence ?? 0, second.sequence], "append MUST assign ascending sequences");
      await expectStored(adapter, [...kept, second]);
      same(await adapter.get("t", "p1"), undefined, "a replaced checkpoint MUST be gone");
      const again = adapter.append(transient("t", "p2", "p1"), {}, { replaces: "p1" });
      same(await again, second.sequence, "appending the same draft again MUST return its stored sequence");

      // Makes many replacements in a row. Each state is similar to the previous one.
      let newest = second;
      for (let number = 3; number <= 80; number++) newest = await replace(adapter, `p${number - 1}`, `p${number}`);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, [...kept, newest]);
      await adapter.remove("t", [newest.id]);
      const next = await adapter.append(draft("t", "next"));
      ascending([newest.sequence, next], "a replaced checkpoint's sequence MUST never be used again");
    },
  },
  {
    name: "append.replaces-nothing",
    promise: "stores an append and removes nothing if `replaces` isn't a transient checkpoint of the task",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const kept = await appendAll(adapter, [
        draft("t", "milestone"),
        draft("t", "with steps", { metadata: { waymark: { steps: 3 } } }),
        transient("t", "done"),
        transient("u", "theirs"),
        transient("t", "mine"),
      ]);
      await adapter.setStatus("t", "done", { status: "completed" });
      const expected = kept.map((one) => (one.id === "done" ? { ...one, status: "completed" as const } : one));
      adapter = await store.carryOn(adapter);
      for (const id of ["never saved", "milestone", "with steps", "done", "theirs", "itself"]) {
        expected.push(await replace(adapter, id, id === "itself" ? id : `after ${id}`));
      }
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, expected);
    },
  },
  {
    name: "append.replaces-at-once",
    promise:
      "counts a task's checkpoints correctly if its transient checkpoint is replaced during other appends, changes and removals",
    async run(store) {
      const adapter = await store.open();
      for (let round = 0; round < 10; round++) {
        const [old, other] = [`old-${round}`, `other-${round}`];
        await appendAll(adapter, [transient("t", old)]);
        await Promise.all([
          adapter.append(transient("t", `new-${round}`, old), {}, { replaces: old }),
          adapter.append(draft("t", other)),
          adapter.remove("t", [old]),
          adapter.setStatus("t", old, { status: "paused" }),
          adapter.append(transient("u", `new-${round}`), {}, { replaces: `new-${round - 1}` }),
        ]);
        const left = await listIds(adapter.list({ taskId: "t", order: "oldest" }));
        same(left.includes(old), false, "a replaced checkpoint MUST be gone");
        await adapter.remove("t", [`new-${round}`]);
        const expected = Array.from({ length: round + 1 }, (_, number) => `other-${number}`);
        same(
          await listIds(adapter.list({ taskId: "t", order: "oldest" })),
          expected,
          "all other checkpoints MUST be there",
        );
        for await (const task of adapter.tasks({ order: "taskId" })) {
          if ("count" in task)
            same(task.count, task.taskId === "t" ? round + 1 : 1, "tasks MUST count the existing checkpoints");
        }
      }
    },
  },
  {
    name: "append.replaces-killed",
    promise:
      "keeps at least one of the two transient checkpoints if it is killed midway, and removes both with the next append",
    needs: "durable",
    async run(store) {
      const kept = await withOpen(store, (adapter) => appendAll(adapter, [...drafts("t", 2), transient("t", "p")]));
      let last = kept.pop()?.id ?? "";
      // Tries only every second number, because each try starts a process. "append.killed-midway" tries all numbers.
      for (const turns of TURNS.filter((_, index) => index % 2 === 0)) {
        const [id, next] = [`p${turns}`, `after-${turns}`];
        const one = transient("t", id, last);
        const other = await store.elsewhere();
        const options = { replaces: last };
        const { answered, answer } = await other.dieWithin(turns, { method: "append", args: [one, {}, options] });
        await withOpen(store, async (adapter) => {
          const found = await adapter.get("t", id);
          const former = await adapter.get("t", last);
          holds(!answered || found !== undefined, "append MUST be stored once it has resolved");
          holds(!answered || former === undefined, "the replaced checkpoint MUST be gone once append has resolved");
          if (found !== undefined) {
            const { sequence } = intact(found, "append MUST be all or nothing, even with `replaces`");
            sameAsAppended(found, { ...one, sequence }, "get, after a kill midway,");
            if (answered) same(sequence, answer, "append MUST return the sequence that is stored");
          } else intact(former, "if a kill stops the append, the checkpoint to replace MUST stay");
          const newest = await replace(adapter, found === undefined ? last : id, next);
          await expectStored(adapter, [...kept, newest]);
        });
        last = next;
        if (answered) return;
      }
    },
  },
];

/** Makes the draft of a transient checkpoint. The states of these drafts are similar. */
function transient(taskId: string, id: string, replaces?: string) {
  return draft(taskId, id, { metadata: transientMetadata(replaces), body: makeBody(id) });
}

function makeBody(...texts: readonly string[]): string {
  const messages = Array.from({ length: 100 }, (_, number) => `message ${number} of many`);
  return JSON.stringify({ messages: [...messages, ...texts] });
}

/** Appends a transient checkpoint of task `t` that replaces another checkpoint. */
async function replace(adapter: StorageAdapter, former: string, id: string): Promise<Appended> {
  const one = transient("t", id, former);
  return { ...one, sequence: await adapter.append(one, {}, { replaces: former }) };
}
