import type { CheckpointDraft } from "../../src/contract/checkpoint.js";
import { ascending, holds, intact, same, sameAsAppended, show } from "../check.js";
import type { ConformanceCase, ConformanceStore } from "../conformance-case.js";
import { type Appended, draft, drafts, fullDraft } from "../drafts.js";
import { appendAll, collect, expectStored, listIds, listSequences, withOpen } from "../steps.js";

/**
 * The cases kill a writing process after each of these numbers of turns of its event loop. The low numbers are dense,
 * because a fast store does all its steps in these turns. A case stops at the first kill that comes after the write's
 * answer. The last kill always comes after the answer, even on a slow disk, so every case also tests an answered write.
 */
export const TURNS = [
  0,
  1,
  2,
  3,
  4,
  6,
  8,
  11,
  16,
  22,
  32,
  45,
  64,
  90,
  128,
  181,
  256,
  362,
  512,
  724,
  1024,
  2048,
  Infinity,
];

/** The cases about killed processes (SIGKILL): acknowledged writes survive, and everything else is intact. */
export const killCases: readonly ConformanceCase[] = [
  {
    name: "append.survives-kill",
    promise: "resolves only once the record is durable, so that a kill at that moment loses nothing",
    needs: "durable",
    async run(store) {
      const large = draft("t", "large", { body: largeBody("a") });
      const all: Appended[] = [];
      for (const one of [draft("t", "c1"), fullDraft("t", "c2"), large, draft("u", "c1")]) {
        const other = await store.elsewhere();
        const sequence = Number(await other.dieAfter({ method: "append", args: [one] }));
        all.push({ ...one, sequence });
        await withOpen(store, async (adapter) => {
          const how = "get, after the process was killed when its append resolved,";
          sameAsAppended(await adapter.get(one.taskId, one.id), { ...one, sequence }, how);
          await expectStored(adapter, all);
        });
      }
    },
  },
  {
    name: "append.killed-midway",
    promise: "is all or nothing if the process is killed midway, and can be retried",
    needs: "durable",
    async run(store) {
      const before = [draft("t", "before"), draft("t", "large", { body: largeBody("k") })];
      const stored = await withOpen(store, (adapter) => appendAll(adapter, before));
      for (const turns of TURNS) {
        const one = draft("t", `midway-${turns}`, { metadata: { turns: `${turns}` }, body: largeBody(`${turns} `) });
        const answered = await killedMidway(store, turns, one);
        await withOpen(store, async (adapter) => {
          const sequence = await adapter.append(one);
          if (answered !== undefined) same(sequence, answered, "a repeated append MUST return its stored sequence");
          stored.push({ ...one, sequence }, ...(await appendAll(adapter, [draft("t", `after-${turns}`)])));
          await expectStored(adapter, stored);
        });
        if (answered !== undefined) return;
      }
    },
  },
  {
    name: "append.killed-at-first",
    promise: "is all or nothing if the process is killed during the first write of a store or a task",
    needs: "durable",
    async run(store) {
      const stored: Appended[] = [];
      for (const turns of TURNS) {
        const one = draft(`task-${turns}`, "first", { body: largeBody(`${turns} `) });
        const answered = await killedMidway(store, turns, one);
        // Only reads, so that the next process finds the store as the killed process left it.
        await withOpen(store, async (adapter) => {
          const found = await adapter.get(one.taskId, one.id);
          if (found !== undefined)
            stored.push({ ...one, sequence: intact(found, "the stored checkpoint MUST be whole").sequence });
          await expectStored(adapter, stored);
        });
        if (answered !== undefined) break;
      }
      await withOpen(store, async (adapter) => {
        stored.push(...(await appendAll(adapter, [draft("task-0", "after")])));
        await expectStored(adapter, stored);
      });
    },
  },
  {
    name: "status.survives-kill",
    promise:
      "makes a status change durable before setStatus resolves, and stores all or nothing of it if killed earlier",
    needs: "durable",
    async run(store) {
      const paused = { status: "paused", error: { message: "killed" } } as const;
      const failed = { status: "failed", error: { message: "killed again" } } as const;
      const both = [draft("t", "c1", { body: largeBody("s") }), draft("t", "c2")];
      const [one, beside] = await withOpen(store, (adapter) => appendAll(adapter, both));
      if (!one || !beside) return;

      const other = await store.elsewhere();
      await other.dieAfter({ method: "setStatus", args: ["t", "c1", paused] });
      await withOpen(store, async (adapter) => {
        const how = "get, after the process was killed when its setStatus resolved,";
        sameAsAppended(await adapter.get("t", "c1"), { ...one, ...paused }, how);
      });
      for (const turns of TURNS) {
        const another = await store.elsewhere();
        const { answered } = await another.dieWithin(turns, { method: "setStatus", args: ["t", "c1", failed] });
        await withOpen(store, async (adapter) => {
          const { status } = intact(await adapter.get("t", "c1"), "a kill during setStatus MUST NOT harm the record");
          holds(!answered || status === "failed", "setStatus MUST be stored once it has resolved");
          await expectStored(adapter, [{ ...one, ...(status === "failed" ? failed : paused) }, beside]);
          same(await adapter.setStatus("t", "c1", paused), true, "setStatus MUST work after a kill");
        });
        if (answered) return;
      }
    },
  },
  {
    name: "remove.survives-kill",
    promise: "makes a removal durable before remove resolves, and harms no other checkpoint if it is killed midway",
    needs: "durable",
    async run(store) {
      const given = await withOpen(store, (adapter) => appendAll(adapter, drafts("t", 6)));
      await withOpen(store, (adapter) => appendAll(adapter, [draft("u", "c1")]));
      const other = await store.elsewhere();
      same(await other.dieAfter({ method: "remove", args: ["t", ["c2", "c6"]] }), 2, "remove MUST return the count");
      await withOpen(store, async (adapter) => {
        const ids = await listIds(adapter.list({ taskId: "t", order: "oldest" }));
        same(
          ids,
          ["c1", "c3", "c4", "c5"],
          "removed checkpoints MUST stay removed after a kill, and all others MUST be there",
        );
        const next = await adapter.append(draft("t", "next"));
        ascending([...listSequences(given), next], "a sequence MUST never be used twice, even after a kill");
      });
      for (const turns of TURNS) {
        const another = await store.elsewhere();
        const { answered } = await another.dieWithin(turns, { method: "remove", args: ["t", ["c3", "c5"]] });
        const left = await withOpen(store, (adapter) => listIds(adapter.read({ taskId: "t", order: "oldest" })));
        const stays = left.filter((id) => id !== "c3" && id !== "c5");
        same(stays, ["c1", "c4", "next"], "a kill during remove MUST NOT harm the remaining checkpoints");
        if (answered) same(left, stays, "the checkpoint MUST be gone once remove has resolved");
        if (left.length === stays.length) break;
      }
      const last = await store.elsewhere();
      await last.dieAfter({ method: "remove", args: ["t", "all"] });
      await withOpen(store, async (adapter) => {
        same(
          await listIds(adapter.list({ taskId: "t", order: "oldest" })),
          [],
          "the task MUST stay removed after a kill",
        );
        const tasks = await collect(adapter.tasks({ order: "taskId" }));
        same(
          tasks.length,
          1,
          `after a kill the removed task MUST stay removed, and the other task MUST be there: ${show(tasks)}`,
        );
        same(await adapter.append(draft("t", "c1")), 1, "the removed task's numbering MUST have ended");
      });
    },
  },
];

/**
 * Appends in a process that is killed after `turns` turns. Throws unless the draft is stored whole or not at all.
 * Returns the sequence if the append was answered before the kill.
 */
async function killedMidway(store: ConformanceStore, turns: number, one: CheckpointDraft): Promise<number | undefined> {
  const other = await store.elsewhere();
  const { answered, answer } = await other.dieWithin(turns, { method: "append", args: [one] });
  const found = await withOpen(store, (adapter) => adapter.get(one.taskId, one.id));
  holds(!answered || found !== undefined, "append MUST be stored once it has resolved");
  if (found !== undefined) {
    const { sequence } = intact(found, "append MUST be all or nothing if it is killed midway");
    sameAsAppended(found, { ...one, sequence }, "get, after a kill midway,");
    if (answered) same(sequence, answer, "append MUST return the sequence that is stored");
  }
  return answered ? Number(answer) : undefined;
}

/** Makes a body of hundreds of kilobytes, which takes more than one write and more than one page. */
function largeBody(text: string): string {
  return JSON.stringify({ text: text.repeat(40_000) });
}
