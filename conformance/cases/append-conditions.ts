import type { AppendOptions } from "../../src/contract/adapter.js";
import type { CheckpointDraft } from "../../src/contract/checkpoint.js";
import { ascending, refused, same, sameAsAppended, show } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { type Appended, draft, drafts } from "../drafts.js";
import { appendAll, expectStored, listIds, soleWinner } from "../steps.js";

/** The cases of `append` with a condition. */
export const appendConditionCases: readonly ConformanceCase[] = [
  {
    name: "append.atomic",
    promise: "stores nothing if it refuses an append",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const obligation = "an append MUST be refused if its condition doesn't hold";
      const stored = await appendAll(adapter, drafts("t", 2));
      for (const [taskId, expectedSequence] of [["new", 3] as const, ["t", stored[0]?.sequence] as const]) {
        const late = adapter.append(draft(taskId, "late"), { expectedSequence });
        await refused("CHECKPOINT_CONFLICT", late, obligation);
      }
      adapter = await store.carryOn(adapter);

      await expectStored(adapter, stored);
      same(await adapter.get("t", "late"), undefined, "get MUST return undefined for a refused append's id");
      same(await listIds(adapter.list({ taskId: "new", order: "newest" })), [], "a refused append MUST store nothing");
      same(await adapter.append(draft("new", "late")), 1, "a task whose appends were all refused MUST begin at 1");
    },
  },
  {
    name: "append.expected-sequence",
    promise: "stores only if the newest checkpoint has the expected sequence; 0 means that there is no checkpoint",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const refuses = (expectedSequence: number, why: string) =>
        refused(
          "CHECKPOINT_CONFLICT",
          adapter.append(draft("t", "refused"), { expectedSequence }),
          `expectedSequence ${expectedSequence} MUST be refused if ${why}`,
        );

      await refuses(1, "there is no checkpoint");
      const first = await adapter.append(draft("t", "c1"), { expectedSequence: 0 });
      await refuses(0, "there is one");
      const second = await adapter.append(draft("t", "c2"), { expectedSequence: first });
      adapter = await store.carryOn(adapter);
      await refuses(first, `the newest is ${second}`);
      await refuses(second + 1, `the newest is ${second}`);
      const third = await adapter.append(draft("t", "c3"), { expectedSequence: second });

      // The condition concerns the newest existing checkpoint, not the last sequence taken.
      await adapter.remove("t", ["c3"]);
      await refuses(third, `the newest was removed, and now it is ${second}`);
      const fourth = await adapter.append(draft("t", "c4"), { expectedSequence: second });
      const fifth = await adapter.append(draft("t", "c5"), { expectedSequence: undefined });
      ascending([first, second, third, fourth, fifth], "append MUST assign ascending sequences under a condition");
      same(
        await listIds(adapter.list({ taskId: "t", order: "oldest" })),
        ["c1", "c2", "c4", "c5"],
        "refused appends MUST store nothing; all other appends MUST be stored",
      );
    },
  },
  {
    name: "append.one-winner",
    promise: "lets exactly one of several concurrent appends win if they expect the same newest checkpoint",
    async run(store) {
      const adapter = await store.open();
      let newest = 0;
      for (let round = 1; round <= 4; round++) {
        const rivals = Array.from({ length: 5 }, (_, index) =>
          adapter.append(draft("t", `r${round}-${index}`), { expectedSequence: newest }),
        );
        newest = await soleWinner(rivals);
      }
      const ids = await listIds(adapter.list({ taskId: "t", order: "oldest" }));
      same(ids.length, 4, `each of the 4 rounds MUST store only the winner's checkpoint; stored in all: ${show(ids)}`);
    },
  },
  {
    name: "append.exact-sequence",
    promise: "takes an exact sequence above the last one, and assigns higher sequences afterwards",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const refuses = (sequence: number, why: string, expectedSequence?: number) =>
        refused(
          "CHECKPOINT_CONFLICT",
          adapter.append(draft("t", "refused"), { expectedSequence }, { sequence }),
          `the exact sequence ${sequence} MUST be refused if ${why}`,
        );

      same(await adapter.append(draft("t", "c7"), {}, { sequence: 7 }), 7, "append MUST take the given sequence");
      adapter = await store.carryOn(adapter);
      const next = await adapter.append(draft("t", "next"));
      ascending([7, next], "the next append MUST take a sequence above the exact one");
      await refuses(7, "a checkpoint has this sequence");
      await refuses(3, "a checkpoint has a higher sequence");
      await adapter.remove("t", ["next"]);
      await refuses(next, "a removed checkpoint had this sequence");
      await refuses(next + 5, "the rest of the condition doesn't hold", next);
      const last = await adapter.append(draft("t", "last"), { expectedSequence: 7 }, { sequence: next + 5 });
      same(last, next + 5, "append MUST take the given sequence");
      // A store that compares sequences as text, or keeps them in 32 bits, would misplace or lose these checkpoints.
      const huge = await adapter.append(draft("t", "huge"), {}, { sequence: 2 ** 40 });
      ascending([last, huge, await adapter.append(draft("t", "beyond"))], "large sequences MUST work like small ones");
      same(
        await listIds(adapter.list({ taskId: "t", order: "oldest" })),
        ["c7", "last", "huge", "beyond"],
        "refused appends MUST store nothing; all other checkpoints MUST be there, ordered by sequence",
      );
    },
  },
  {
    name: "append.shares-with",
    promise:
      "stores a payload unchanged if `sharesWith` names another checkpoint, even if that checkpoint is removed or missing",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const text = JSON.stringify({ messages: Array.from({ length: 200 }, (_, n) => `message ${n} of many`) });
      const bytes = Uint8Array.from({ length: 5_000 }, (_, n) => (n * n) % 251);
      const sources = [draft("source", "text", { body: text }), draft("source", "bytes", { body: bytes })];
      for (const one of sources) await adapter.append(one);
      const stored: Appended[] = [];
      const appendSharing = async (one: CheckpointDraft, sharesWith: NonNullable<AppendOptions["sharesWith"]>) => {
        stored.push({ ...one, sequence: await adapter.append(one, {}, { sharesWith }) });
      };

      // These drafts have an equal payload, a similar one, a different one, a hint to a missing checkpoint, and a hint
      // to a checkpoint with another kind of body.
      await appendSharing(draft("same", "c1", { body: text }), { taskId: "source", id: "text" });
      await appendSharing(draft("same", "c2", { body: bytes }), { taskId: "source", id: "bytes" });
      await appendSharing(draft("like", "c1", { body: text.replace("message 7", "another") }), {
        taskId: "source",
        id: "text",
      });
      await appendSharing(draft("like", "c2"), { taskId: "like", id: "c1" });
      await appendSharing(draft("gone", "c1", { body: text }), { taskId: "source", id: "never saved" });
      await appendSharing(draft("gone", "c2", { body: text }), { taskId: "no such task", id: "c1" });
      await appendSharing(draft("gone", "c3", { body: text }), { taskId: "gone", id: "c3" });
      await appendSharing(draft("gone", "c4", { body: text }), { taskId: "source", id: "bytes" });
      adapter = await store.carryOn(adapter);

      const expectWhole = async () => {
        for (const one of stored)
          sameAsAppended(await adapter.get(one.taskId, one.id), one, "get, after an append with `sharesWith`,");
      };
      await expectWhole();
      await adapter.remove("source", "all");
      adapter = await store.carryOn(adapter);
      await expectWhole();
    },
  },
];
